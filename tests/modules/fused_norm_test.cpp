// What a norm's kernels do on a GPU beside normalizing has the bits of separate ops: they add the
// gradient of a residual connection to their own, and batch norm adds a residual and applies ReLU.
#include <cmath>
#include <functional>
#include <iterator>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "autograd/anomaly.h"
#include "autograd/engine.h"
#include "autograd/ops/binary_ops.h"
#include "autograd/ops/nn/norm_ops.h"
#include "autograd/ops/reduce_ops.h"
#include "autograd/ops/shape_ops.h"
#include "autograd/ops/unary_ops.h"
#include "framework/factory/factories.h"
#include "framework/factory/generator.h"
#include "modules/layers/containers.h"
#include "modules/layers/conv_layers.h"
#include "modules/layers/norm_layers.h"
#include "modules/layers/stateless.h"
#include "modules/models/resnet.h"
#include "tests/testing.h"

namespace taper::v0::test {
namespace {

using Norm = std::function<Tensor(const Tensor& x, const Tensor& weight, const Tensor& bias)>;

Norm layer_norm_to(std::optional<DType> result) {
  return [result](const Tensor& x, const Tensor& w, const Tensor& b) {
    return layer_norm(x, w.shape(), w, b, 1e-5, result);
  };
}
Tensor rms(const Tensor& x, const Tensor& w, const Tensor&) { return rms_norm(x, w.shape(), w); }
Tensor bare(const Tensor& x, const Tensor& w, const Tensor&) { return layer_norm(x, w.shape()); }

struct Case {
  const char* name;
  DType dtype;
  Norm norm;
  int64_t width;
};

// x and the gradients that reach the norm's result and the residual connection.
struct Given {
  Tensor x, weight, bias, dy, dresidual;
};

Given given(const Case& row, Device device) {
  Generator generator(3);
  const TensorOptions o{.dtype = row.dtype, .device = device};
  const Shape shape{37, row.width};
  const Tensor x = randn(shape, o, &generator), dy = randn(shape, o, &generator);
  return {x.requires_grad_(), randn({row.width}, o, &generator).requires_grad_(),
          randn({row.width}, o, &generator).requires_grad_(), dy,
          randn(shape, o, &generator) * 1e-3};
}

// The gradient of x in x + norm(x), where both parts have their own gradient.
Tensor sum_of_parts(const Case& row, const Given& at) {
  const Tensor y = row.norm(at.x, at.weight, at.bias);
  const Tensor own = grad({y}, {at.x}, {at.dy.to(y.dtype())})[0];
  return at.dresidual + own;
}

// Each width is a case of the kernels: one warp or several for a row, and rows that do not fit.
std::vector<Case> cases() {
  std::vector<Case> rows;
  for (const int64_t width : {5, 8, 96, 300, 768, 1024, 3000, 5000}) {
    for (const Case& row :
         {Case{"float32", kFloat32, layer_norm_to({}), width},
          Case{"float64", kFloat64, layer_norm_to({}), width},
          Case{"bfloat16", kBFloat16, layer_norm_to({}), width},
          Case{"float16", kFloat16, layer_norm_to({}), width},
          Case{"float32 to bfloat16", kFloat32, layer_norm_to(kBFloat16), width},
          Case{"rms, float32", kFloat32, rms, width}, Case{"rms, bfloat16", kBFloat16, rms, width},
          Case{"without weights", kFloat32, bare, width}}) {
      rows.push_back(row);
    }
  }
  return rows;
}

TEST(ResidualNorm, HasTheBitsOfTheSum) {
  for (const Device device : all_devices()) {
    for (const Case& row : cases()) {
      SCOPED_TRACE(concat_to_string(row.name, ", ", row.width, " on ", device));
      const Given at = given(row, device);
      const Tensor expected = sum_of_parts(row, at), y = row.norm(at.x, at.weight, at.bias);
      // The connection's gradient arrives first, because the connection is recorded last.
      const Tensor connection = at.x.view(at.x.shape());
      backward(std::vector<Tensor>{connection, y},
               std::vector<Tensor>{at.dresidual, at.dy.to(y.dtype())});
      EXPECT_TRUE(same_bits(at.x.grad(), expected));
    }
  }
}

// Whatever observes the sum of x's gradients sees the whole of it.
void check_observers(Device device) {
  const Case row{"float32", kFloat32, layer_norm_to({}), 96};
  const Given at = given(row, device);
  const Tensor expected = sum_of_parts(row, at);
  const std::vector<Tensor> dys{at.dresidual, at.dy};
  const auto outputs = [&](const Tensor& x) {
    const Tensor y = row.norm(x, at.weight, at.bias);
    return std::vector<Tensor>{x.view(x.shape()), y};
  };
  {
    const Tensor x = at.x * 1;
    Tensor seen;
    x.retain_grad();
    const HookHandle hook = x.register_hook([&](const Tensor& dx) {
      seen = dx;
      return Tensor();
    });
    backward(outputs(x), dys);
    EXPECT_TRUE(same_bits(seen, expected));
    EXPECT_TRUE(same_bits(x.grad(), expected));
  }
  {
    const Tensor x = at.x * 1;
    EXPECT_TRUE(same_bits(grad(outputs(x), {x}, dys)[0], expected));
  }
  {
    const DetectAnomalyGuard guard(true);
    const Tensor x = at.x * 1;
    EXPECT_TRUE(same_bits(grad(outputs(x), {x}, dys)[0], expected));
  }
  {
    const Tensor x = at.x * 1;
    const Tensor dx = grad(outputs(x), {x}, dys, {.create_graph = true})[0];
    EXPECT_TRUE(dx.requires_grad());
    EXPECT_TRUE(allclose(dx, expected, 1e-4, 1e-5));
  }
  {
    // A gradient that is spread over x, not stored for each element.
    const Tensor x = at.x * 1, y = row.norm(x, at.weight, at.bias);
    const Tensor dx = grad({sum(x), y}, {x}, {ones({}, {.device = device}), at.dy})[0];
    const Tensor own = grad({row.norm(x, at.weight, at.bias)}, {x}, {at.dy})[0];
    EXPECT_TRUE(same_bits(dx, own + 1));
  }
}

TEST(ResidualNorm, ObserversSeeTheSum) {
  for (const Device device : all_devices()) {
    SCOPED_TRACE(concat_to_string(device));
    check_observers(device);
  }
}

// --- batch norm with a residual and ReLU ---

struct BatchCase {
  const char* name;
  DType dtype;
  Shape shape;
  bool is_channels_last = false;
  bool is_affine = true;
  DType parameters = kFloat32;
};

const std::vector<BatchCase>& batch_cases() {
  static const std::vector<BatchCase> rows{
      {"rows of pixels", kFloat32, {6, 5, 7, 9}},
      {"channels-last", kFloat32, {6, 8, 7, 9}, true},
      {"odd channels-last", kFloat32, {6, 5, 7, 9}, true},
      {"matrix", kFloat32, {70, 24}},
      {"sequences", kFloat32, {5, 16, 33}},
      {"volumes", kFloat32, {3, 4, 5, 6, 2}},
      {"without weights", kFloat32, {6, 8, 7, 9}, true, false},
      {"one channel", kFloat32, {6, 1, 7, 9}},
      {"nothing", kFloat32, {0, 8, 7, 9}},
      {"float64", kFloat64, {6, 8, 7, 9}, false, true, kFloat64},
      {"bfloat16", kBFloat16, {6, 8, 7, 9}, true},
      {"bfloat16 rows", kBFloat16, {6, 5, 7, 9}},
      {"float16", kFloat16, {6, 8, 7, 9}, true},
      {"many", kBFloat16, {64, 64, 16, 16}, true},
  };
  return rows;
}

enum class ResidualKind { kNone, kLikeX, kRowMajor, kFloat32, kBroadcast };

Tensor laid_out(const Tensor& x, bool is_channels_last) {
  return is_channels_last ? movedim(movedim(x, 1, -1).contiguous(), -1, 1) : x;
}

// The results of one step by one op or by several.
std::vector<Tensor> results_of(const BatchCase& row, ResidualKind kind, Device device, bool fused) {
  Generator generator(5);
  const auto leaf = [&](const Shape& shape, DType dtype, bool is_channels_last) {
    const Tensor x = randn(shape, {.device = device}, &generator).to(dtype);
    return laid_out(x, is_channels_last).detach().requires_grad_();
  };
  const int64_t channels = row.shape[1];
  const Tensor x = leaf(row.shape, row.dtype, row.is_channels_last);
  const Tensor weight = row.is_affine ? leaf({channels}, row.parameters, false) : Tensor();
  const Tensor bias = row.is_affine ? leaf({channels}, row.parameters, false) : Tensor();
  Shape narrow = row.shape;
  narrow[narrow.size() - 1] = 1;
  Tensor residual;
  switch (kind) {
    case ResidualKind::kNone: break;
    case ResidualKind::kLikeX: residual = leaf(row.shape, row.dtype, row.is_channels_last); break;
    case ResidualKind::kRowMajor: residual = leaf(row.shape, row.dtype, false); break;
    case ResidualKind::kFloat32: residual = leaf(row.shape, kFloat32, false); break;
    case ResidualKind::kBroadcast: residual = leaf(narrow, row.dtype, false); break;
  }
  const Tensor mean = zeros({channels}, {.dtype = row.parameters, .device = device});
  const Tensor var = ones_like(mean);
  BatchNormFunctionOptions o{.weight = weight, .bias = bias, .training = true};
  Tensor y;
  if (fused) {
    o.residual = residual;
    o.activation = Activation::kRelu;
    y = batch_norm(x, mean, var, o);
  } else {
    const Tensor normed = batch_norm(x, mean, var, o);
    y = relu(residual.defined() ? normed + residual : normed);
  }
  const Tensor dy = laid_out(randn(y.shape(), {.device = device}, &generator).to(y.dtype()),
                             row.is_channels_last);
  y.backward(dy);
  std::vector<Tensor> results{y.detach(), mean, var};
  for (const Tensor& t : {x, weight, bias, residual}) {
    if (t.defined()) results.push_back(t.grad());
  }
  return results;
}

TEST(BatchNormRelu, HasTheBitsOfSeparateOps) {
  for (const Device device : all_devices()) {
    for (const BatchCase& row : batch_cases()) {
      for (const ResidualKind kind :
           {ResidualKind::kNone, ResidualKind::kLikeX, ResidualKind::kRowMajor,
            ResidualKind::kFloat32, ResidualKind::kBroadcast}) {
        SCOPED_TRACE(concat_to_string(row.name, ", residual ", int(kind), " on ", device));
        const std::vector<Tensor> parts = results_of(row, kind, device, false),
                                  whole = results_of(row, kind, device, true);
        for (size_t i = 0; i < parts.size(); ++i) {
          EXPECT_TRUE(same_bits(parts[i], whole[i])) << "result " << i;
        }
      }
    }
  }
}

TEST(BatchNormCount, TrainingAddsOne) {
  for (const Device device : all_devices()) {
    for (const Activation activation : {Activation::kNone, Activation::kRelu}) {
      const Tensor count = tensor(41, {.dtype = kInt64, .device = device});
      const Tensor x = randn({6, 3, 4}, {.device = device}), mean = zeros({3}, {.device = device});
      BatchNormFunctionOptions o{.training = true, .activation = activation};
      o.num_batches_tracked = count;
      const uint32_t version = count.version();
      (void)batch_norm(x, mean, ones_like(mean), o);
      (void)batch_norm(x, {}, {}, o);
      EXPECT_EQ(count.item<int64_t>(), 43);
      EXPECT_GT(count.version(), version);
      (void)batch_norm(empty({0, 3, 4}, {.device = device}), {}, {}, o);
      EXPECT_EQ(count.item<int64_t>(), 44);
      o.training = false;
      (void)batch_norm(x, mean, ones_like(mean), o);
      EXPECT_EQ(count.item<int64_t>(), 44);
    }
    const Tensor x = randn({6, 3}, {.device = device});
    const auto with = [&](const Tensor& count) {
      return batch_norm(x, {}, {}, {.training = true, .num_batches_tracked = count});
    };
    EXPECT_TRUE(refuses<Error>([&] { (void)with(zeros({}, {.device = device})); },
                               "num_batches_tracked should be int64 without dimensions, got "
                               "float32 of shape []"));
    EXPECT_TRUE(refuses<Error>(
        [&] { (void)with(zeros({1}, {.dtype = kInt64, .device = device})); },
        "num_batches_tracked should be int64 without dimensions, got int64 of shape [1]"));
  }
}

// A gradient that shares memory with another one would be copied when it is stored in a leaf.
TEST(NormGradients, OfWeightAndBiasDoNotShareMemoryOnAGpu) {
  for (const Device device : all_devices()) {
    if (device.is_cpu()) continue;
    for (const std::string name : {"layer", "group", "batch"}) {
      SCOPED_TRACE(concat_to_string(name, " norm on ", device));
      const Tensor x = randn({6, 4, 5}, {.device = device}).requires_grad_();
      const bool is_layer = name == "layer";
      const Shape shape = is_layer ? Shape{5} : Shape{4};
      const Tensor weight = ones(shape, {.device = device, .requires_grad = true});
      const Tensor bias = zeros(shape, {.device = device, .requires_grad = true});
      const Tensor y =
          is_layer ? layer_norm(x, shape, weight, bias)
          : name == "group"
              ? group_norm(x, 2, weight, bias)
              : batch_norm(x, {}, {}, {.weight = weight, .bias = bias, .training = true});
      const std::vector<Tensor> grads = grad({(y * y).sum()}, {weight, bias});
      EXPECT_NE(grads[0].storage().get(), grads[1].storage().get());
    }
  }
}

// NaN and the two zeros pass through ReLU as through the separate op, and so do their gradients.
TEST(BatchNormRelu, KeepsNaNAndZeros) {
  for (const Device device : all_devices()) {
    for (const DType dtype : {kFloat32, kFloat16}) {
      const auto run = [&](bool fused) {
        const Tensor x =
            tensor({1.0f, -1.0f, 3.0f, 5.0f, -5.0f, 0.0f, 1.0f, 2.0f}).view({4, 2}).to(device);
        const Tensor from = x.to(dtype).requires_grad_();
        // The second channel is constant times a tiny weight, which rounds to 0 in float16.
        const Tensor weight = tensor({0.0f, 1e-12f}).to(device), bias = zeros_like(weight);
        const Tensor residual = tensor({0.0f, -0.0f, -0.0f, 0.0f, NAN, 1.0f, -1.0f, NAN})
                                    .view({4, 2})
                                    .to(device)
                                    .to(dtype);
        BatchNormFunctionOptions o{.weight = weight, .bias = bias, .training = true};
        std::vector<Tensor> results;
        for (const Tensor& r : {Tensor(), residual}) {
          from.set_grad({});
          o.residual = fused ? r : Tensor();
          o.activation = fused ? Activation::kRelu : Activation::kNone;
          Tensor y = batch_norm(from, {}, {}, o);
          if (!fused) y = relu(r.defined() ? y + r : y);
          y.backward(ones_like(y));
          results.insert(results.end(), {y.detach(), from.grad()});
        }
        return results;
      };
      const std::vector<Tensor> parts = run(false), whole = run(true);
      for (size_t i = 0; i < parts.size(); ++i) {
        EXPECT_TRUE(same_bits(parts[i], whole[i])) << concat_to_string(device, " ", dtype, " ", i);
      }
    }
  }
}

TEST(BatchNormRelu, CanBeDifferentiatedTwice) {
  for (const Device device : all_devices()) {
    for (const bool has_residual : {false, true}) {
      const auto run = [&](bool fused) {
        Generator generator(5);
        const TensorOptions o{.dtype = kFloat64, .device = device};
        const Tensor x = randn({6, 4, 5}, o, &generator).requires_grad_();
        const Tensor r = randn({6, 4, 5}, o, &generator).requires_grad_();
        const Tensor weight = randn({4}, o, &generator).requires_grad_();
        BatchNormFunctionOptions options{.weight = weight, .training = true};
        if (has_residual && fused) options.residual = r;
        if (fused) options.activation = Activation::kRelu;
        Tensor y = batch_norm(x, {}, {}, options);
        if (!fused) y = relu(has_residual ? y + r : y);
        const Tensor dx = grad({sum(y * y)}, {x}, {.create_graph = true})[0];
        return grad({sum(dx * dx)}, {x, weight, r}, {.allow_unused = true});
      };
      const std::vector<Tensor> parts = run(false), whole = run(true);
      for (size_t i = 0; i < parts.size(); ++i) {
        ASSERT_EQ(parts[i].defined(), whole[i].defined()) << i;
        if (!parts[i].defined()) continue;
        EXPECT_TRUE(allclose(parts[i], whole[i], 1e-10, 1e-12)) << i;
      }
    }
  }
}

// A hook on the norm or its activation sees the value in between, so layers with one are not fused.
TEST(BatchNormRelu, LayersHaveTheBitsOfSeparateCalls) {
  const auto run = [](Module& net, bool separate, Device device) {
    std::vector<ModuleHookHandle> hooks;
    for (const auto& [name, module] : net.named_modules()) {
      if (!separate || module->type_name() != "ReLU") continue;
      hooks.push_back(module->register_forward_hook(
          [](Module&, const Tensor&, const Tensor&) { return Tensor(); }));
    }
    Generator generator(5);
    std::vector<Tensor> results;
    for (const bool trains : {true, false, true}) {
      net.train(trains);
      const Tensor x = randn({4, 8, 9, 9}, {.device = device}, &generator).requires_grad_();
      const Tensor y = net(x);
      sum(y * y).backward();
      results.insert(results.end(), {y.detach(), x.grad()});
    }
    for (const Tensor& p : net.parameters()) results.push_back(p.grad());
    for (const auto& [name, b] : net.named_buffers()) results.push_back(b.clone());
    for (ModuleHookHandle& hook : hooks) hook.remove();
    return results;
  };
  using Make = std::unique_ptr<Module> (*)();
  const Make makers[] = {
      [] { return std::unique_ptr<Module>(new BasicBlock(8, 8, 1, "cpu")); },
      [] { return std::unique_ptr<Module>(new BasicBlock(8, 16, 2, "cpu")); },
      [] { return std::unique_ptr<Module>(new Bottleneck(8, 4, 1, "cpu")); },
      [] {
        return std::unique_ptr<Module>(new Sequential(
            Conv2d(8, 6, 3), BatchNorm2d(6), ReLU(), BatchNorm2d(6, {.momentum = std::nullopt}),
            ReLU(), BatchNorm2d(6, {.track_running_stats = false}), GELU()));
      },
  };
  for (const Device device : all_devices()) {
    for (size_t i = 0; i < std::size(makers); ++i) {
      SCOPED_TRACE(concat_to_string("layers ", i, " on ", device));
      std::vector<Tensor> results[2];
      for (const bool separate : {false, true}) {
        manual_seed(1);
        const std::unique_ptr<Module> net = makers[i]();
        net->to(device);
        results[separate] = run(*net, separate, device);
      }
      ASSERT_EQ(results[0].size(), results[1].size());
      for (size_t k = 0; k < results[0].size(); ++k) {
        EXPECT_TRUE(same_bits(results[0][k], results[1][k])) << "result " << k;
      }
    }
  }
}

}  // namespace
}  // namespace taper::v0::test
