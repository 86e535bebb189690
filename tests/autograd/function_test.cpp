// User-defined differentiable functions.
#include "autograd/function.h"

#include <array>
#include <span>
#include <stdexcept>

#include <gtest/gtest.h>

#include "autograd/engine.h"
#include "autograd/ops/binary_ops.h"
#include "autograd/ops/index/inplace.h"
#include "autograd/ops/shape_ops.h"
#include "autograd/ops/unary_ops.h"
#include "framework/factory/factories.h"
#include "framework/memory/cpu_allocator.h"
#include "tests/testing.h"

namespace taper::v0::test {
namespace {

struct Clip : Function<Clip> {
  static Tensor forward(Context& ctx, const Tensor& x, double low) {
    ctx.save_for_backward({x});
    ctx.set("low", low);
    return maximum(x, wrap_scalar(low));
  }
  static std::vector<Tensor> backward(Context& ctx, const std::vector<Tensor>& dy) {
    const Tensor x = ctx.saved_tensors()[0];
    return {zero_outside(dy[0], ge(x, wrap_scalar(ctx.get<double>("low"))))};
  }
};

struct Cube : Function<Cube> {
  static Tensor forward(Context& ctx, const Tensor& x) {
    EXPECT_FALSE(is_grad_enabled());
    ctx.save_for_backward({x});
    return x * x * x;
  }
  static std::vector<Tensor> backward(Context& ctx, const std::vector<Tensor>& dy) {
    const Tensor x = ctx.saved_tensors()[0];
    return {dy[0] * x * x * 3};
  }
};

// exp, computing its gradient from the saved output.
struct Exponential : Function<Exponential> {
  static Tensor forward(Context& ctx, const Tensor& x) {
    const Tensor y = exp(x);
    ctx.save_for_backward({y});
    return y;
  }
  static std::vector<Tensor> backward(Context& ctx, const std::vector<Tensor>& dy) {
    return {dy[0] * ctx.saved_tensors()[0]};
  }
};

struct SumAndProduct : Function<SumAndProduct> {
  static std::vector<Tensor> forward(Context& ctx, const Tensor& a, const Tensor& b) {
    ctx.save_for_backward({a, b});
    const Tensor larger = gt(a, b), sign = a * 0;
    ctx.mark_non_differentiable({sign});
    return {a + b, a * b, larger, sign};
  }
  static std::vector<Tensor> backward(Context& ctx, const std::vector<Tensor>& dy) {
    const std::vector<Tensor> in = ctx.saved_tensors();
    Tensor da, db;
    if (ctx.needs_input_grad(0)) da = dy[0] + dy[1] * in[1];
    if (ctx.needs_input_grad(1)) db = dy[0] + dy[1] * in[0];
    return {da, db};
  }
};

struct Scaled : Function<Scaled> {  // returns the input itself, with another gradient
  static Tensor forward(Context&, const Tensor& x) { return x; }
  static std::vector<Tensor> backward(Context&, const std::vector<Tensor>& dy) {
    return {dy[0] * 5};
  }
};

template <int kCase> struct Wrong : Function<Wrong<kCase>> {
  static Tensor forward(Context&, const Tensor& a, const Tensor& b) { return a * b; }
  static std::vector<Tensor> backward(Context&, const std::vector<Tensor>& dy) {
    if (kCase == 0) return {dy[0]};
    if (kCase == 1) return {dy[0], dy[0], dy[0]};
    return {ones({3}, {.dtype = dy[0].dtype(), .device = dy[0].device()}), dy[0]};
  }
};

// Computes no gradient for an argument that has a default, and throws on request.
struct Affine : Function<Affine> {
  static Tensor forward(Context& ctx, const Tensor& x, const Tensor& w, const Tensor& b = {},
                        bool throws = false) {
    ctx.save_for_backward({x, w});
    ctx.set("throws", throws);
    return b.defined() ? x * w + b : x * w;
  }
  static std::vector<Tensor> backward(Context& ctx, const std::vector<Tensor>& dy) {
    const std::vector<Tensor> in = ctx.saved_tensors();
    if (ctx.get<bool>("throws")) throw std::runtime_error("on purpose");
    return {dy[0] * in[1], dy[0] * in[0], ctx.needs_input_grad(2) ? dy[0] : Tensor(), {}};
  }
};

// Returns the sum of factors[i] * scale * tensors[i] over the tensors that are defined.
struct WeightedSum : Function<WeightedSum> {
  static Tensor forward(Context& ctx, double scale, const std::vector<Tensor>& tensors,
                        const Tensor& factors) {
    std::vector<Tensor> saved = tensors;
    saved.push_back(factors);
    ctx.save_for_backward(saved);
    ctx.set("scale", scale);
    Tensor sum = zeros({2}, {.dtype = kFloat64, .device = factors.device()});
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (tensors[i].defined()) sum = sum + factors[int64_t(i)] * scale * tensors[i];
    }
    return sum;
  }
  static std::vector<Tensor> backward(Context& ctx, const std::vector<Tensor>& dy) {
    const std::vector<Tensor> saved = ctx.saved_tensors();
    const Tensor& factors = saved.back();
    const double scale = ctx.get<double>("scale");
    std::vector<Tensor> out(saved.size() + 1), dfactors;  // the scale has no gradient
    for (size_t i = 0; i + 1 < saved.size(); ++i) {
      EXPECT_EQ(ctx.needs_input_grad(i + 1), saved[i].defined() && saved[i].requires_grad());
      if (ctx.needs_input_grad(i + 1)) out[i + 1] = dy[0] * factors[int64_t(i)] * scale;
      const Tensor x = saved[i].defined() ? saved[i] : zeros_like(dy[0]);
      dfactors.push_back((dy[0] * x).sum() * scale);
    }
    out.back() = stack(dfactors);
    return out;
  }
};

// Swaps the tensors of two lists of other types, and returns one list.
struct Crossed : Function<Crossed> {
  static std::vector<Tensor> forward(Context&, const std::array<Tensor, 1>& a,
                                     std::span<const Tensor> b) {
    return {b[0] * 2, a[0] * 3};
  }
  static std::vector<Tensor> backward(Context&, const std::vector<Tensor>& dy) {
    return {dy[1] * 3, dy[0] * 2};
  }
};

struct LengthOf : Function<LengthOf> {  // of an empty list
  static Tensor forward(Context&, const std::vector<Tensor>& list, const Tensor& x) {
    return x * double(list.size());
  }
  static std::vector<Tensor> backward(Context&, const std::vector<Tensor>& dy) {
    return {dy[0] * 0};
  }
};

class Functions : public testing::TestWithParam<Device> {
 protected:
  Tensor leaf(const TensorData& values) const {
    return tensor(values, {.dtype = kFloat64, .device = GetParam(), .requires_grad = true});
  }
};

INSTANTIATE_TEST_SUITE_P(Devices, Functions, testing::ValuesIn(all_devices()),
                         [](const auto& device) {
                           return device.param.is_cuda() ? "cuda" : "cpu";
                         });

TEST_P(Functions, HaveTheirGradientAndName) {
  const Tensor x = leaf({-1, 0.2, 2});
  const Tensor y = Clip::apply(x, 0.5);
  EXPECT_STREQ(y.grad_fn(), "ClipBackward");
  EXPECT_TRUE(close(y, {3}, {0.5, 0.5, 2}, 0));
  (y * 3).sum().backward();
  EXPECT_TRUE(close(x.grad(), {3}, {0, 0, 3}, 0));
}

TEST_P(Functions, AreNotRecordedWithoutNeed) {
  EXPECT_TRUE(Clip::apply(leaf({1}).detach(), 0.5).is_leaf());
  const NoGradGuard no_grad;
  EXPECT_TRUE(Clip::apply(leaf({1}), 0.5).is_leaf());
}

TEST_P(Functions, OfDifferentiableOpsDifferentiateAgain) {
  const auto cube = [](const std::vector<Tensor>& in) { return Cube::apply(in[0]); };
  const Tensor values = leaf({2, -0.5}).detach();
  EXPECT_TRUE(gradcheck(cube, {values}));
  const Tensor x = leaf({2});
  const Tensor dx = grad({Cube::apply(x)}, {x}, {.create_graph = true})[0];
  EXPECT_TRUE(close(grad({dx}, {x})[0], {1}, {12}, 0));
  const Tensor z = leaf({0});
  const Tensor dz = grad({Exponential::apply(z * 2)}, {z}, {.create_graph = true})[0];
  EXPECT_TRUE(close(dz, {1}, {2}, 0));
  EXPECT_TRUE(close(grad({dz}, {z})[0], {1}, {4}, 0));
}

TEST_P(Functions, MayHaveSeveralOutputs) {
  const Tensor a = leaf({2, 3}), b = leaf({5, 1});
  const std::vector<Tensor> y = SumAndProduct::apply(a, b);
  EXPECT_STREQ(y[1].grad_fn(), "SumAndProductBackward");
  EXPECT_FALSE(y[2].requires_grad());
  EXPECT_FALSE(y[3].requires_grad());
  y[1].sum().backward({.retain_graph = true});
  EXPECT_TRUE(close(a.grad(), {2}, {5, 1}, 0));
  EXPECT_TRUE(close(b.grad(), {2}, {2, 3}, 0));
  (y[0] * 10 + y[1]).sum().backward();
  EXPECT_TRUE(close(a.grad(), {2}, {5 + 15, 1 + 11}, 0));
  const std::vector<Tensor> half = SumAndProduct::apply(a.detach(), b);
  EXPECT_TRUE(close(grad({half[0].sum()}, {b})[0], {2}, {1, 1}, 0));
}

TEST_P(Functions, TakeListsOfTensors) {
  const Tensor a = leaf({2, 3}), b = leaf({5, 1}), factors = leaf({10, 100, 1000});
  const Tensor constant = b.detach();
  const Tensor y = WeightedSum::apply(2, std::vector{a, Tensor(), constant}, factors);
  EXPECT_STREQ(y.grad_fn(), "WeightedSumBackward");
  EXPECT_TRUE(close(y, {2}, {10040, 2060}, 0));
  y.sum().backward();
  EXPECT_TRUE(close(a.grad(), {2}, {20, 20}, 0));
  EXPECT_TRUE(close(factors.grad(), {3}, {10, 0, 12}, 0));
  EXPECT_FALSE(constant.grad().defined());
  // The same tensor may occur twice.
  const Tensor twice = WeightedSum::apply(1, std::vector{a, a}, leaf({10, 100}));
  EXPECT_TRUE(close(grad({twice.sum()}, {a})[0], {2}, {110, 110}, 0));
}

TEST_P(Functions, OfListsDifferentiateAgain) {
  const auto f = [](const std::vector<Tensor>& in) {
    return WeightedSum::apply(2, std::vector{in[0], Tensor(), in[1]}, in[2]);
  };
  const std::vector<Tensor> in = {leaf({2, 3}).detach(), leaf({5, 1}).detach(),
                                  leaf({1, 2, -3}).detach()};
  EXPECT_TRUE(gradcheck(f, in));
  EXPECT_TRUE(gradgradcheck(f, in));
}

TEST_P(Functions, TakeArraysSpansAndEmptyLists) {
  const Tensor a = leaf({2, 3}), b = leaf({5, 1});
  const std::vector<Tensor> y = Crossed::apply(std::array{a}, std::span<const Tensor>(&b, 1));
  EXPECT_TRUE(close(y[0], {2}, {10, 2}, 0));
  (y[0] + y[1] * 10).sum().backward();
  EXPECT_TRUE(close(a.grad(), {2}, {30, 30}, 0));
  EXPECT_TRUE(close(b.grad(), {2}, {2, 2}, 0));
  const Tensor none = LengthOf::apply(std::vector<Tensor>(), a);
  EXPECT_TRUE(close(grad({none.sum()}, {a})[0], {2}, {0, 0}, 0));
}

TEST_P(Functions, OfListsRefuseTheWrongNumberOfGradients) {
  const Tensor a = leaf({2, 3});
  EXPECT_TRUE(refuses<Error>(
      [&] {
        return LengthOf::apply(std::vector{a, a}, a).sum().backward(), 0;
      },
      "function LengthOfBackward returned an incorrect number of gradients (expected 3, got 1)"));
}

TEST_P(Functions, MayReturnTheirInput) {
  const Tensor x = leaf({1, 2});
  const Tensor y = Scaled::apply(x);
  EXPECT_FALSE(y.is_same(x));
  EXPECT_TRUE(x.is_leaf());
  EXPECT_TRUE(close(grad({y.sum()}, {x})[0], {2}, {5, 5}, 0));
  EXPECT_THROW(y.mul_(2), Error);
}

TEST_P(Functions, WithWrongGradientsAreRefusedByName) {
  const Tensor a = leaf({2, 3}), b = leaf({5, 1});
  EXPECT_TRUE(refuses<Error>([&] { return Wrong<0>::apply(a, b).sum().backward(), 0; },
                             "function Wrong<0>Backward returned an incorrect number of gradients "
                             "(expected 2, got 1)"));
  EXPECT_TRUE(refuses<Error>([&] { return Wrong<1>::apply(a, b).sum().backward(), 0; },
                             "function Wrong<1>Backward returned an incorrect number of gradients "
                             "(expected 2, got 3)"));
  EXPECT_TRUE(refuses<Error>([&] { return Wrong<2>::apply(a, b).sum().backward(), 0; },
                             "Function Wrong<2>Backward returned an invalid gradient at index 0 - "
                             "got [3] but expected shape compatible with [2]"));
  EXPECT_FALSE(a.grad().defined());
}

TEST_P(Functions, MayReturnNothingForArgumentsLeftAtTheirDefaults) {
  const Tensor x = leaf({2, 3}), w = leaf({5, 1}), b = leaf({1, 1});
  Affine::apply(x, w).sum().backward();
  EXPECT_TRUE(close(x.grad(), {2}, {5, 1}, 0));
  EXPECT_TRUE(close(w.grad(), {2}, {2, 3}, 0));
  Affine::apply(x, w, b).sum().backward();
  EXPECT_TRUE(close(b.grad(), {2}, {1, 1}, 0));
}

TEST_P(Functions, ThatThrewRunAgain) {
  const Tensor x = leaf({2, 3}), w = leaf({5, 1});
  const Tensor y = Affine::apply(x, w, Tensor(), true);
  for (int i = 0; i < 2; ++i) EXPECT_THROW(y.sum().backward(), std::runtime_error);
  EXPECT_FALSE(x.grad().defined());
}

TEST_P(Functions, SeeThatWhatTheySavedWasChanged) {
  const Tensor a = leaf({2, 3});
  const Tensor x = a * 1, y = Cube::apply(x), z = Exponential::apply(x);
  x.add_(1);
  z.detach().add_(1);
  EXPECT_TRUE(refuses<Error>([&] { return y.sum().backward(), 0; },
                             "one of the variables needed for gradient computation has been "
                             "modified by an inplace operation: ["));
  EXPECT_TRUE(refuses<Error>([&] { return z.sum().backward(), 0; },
                             "one of the variables needed for gradient computation has been "
                             "modified by an inplace operation: ["));
}

TEST(FunctionMemory, IsGivenBack) {
  const auto run = [] {
    const Tensor x = ones({64, 64}, {.requires_grad = true});
    (void)Exponential::apply(x);
    SumAndProduct::apply(x, Exponential::apply(x))[1].sum().backward();
  };
  run();
  const size_t before = cpu::memory_stats().allocated;
  run();
  EXPECT_EQ(cpu::memory_stats().allocated, before);
}

}  // namespace
}  // namespace taper::v0::test
