// ONNX Runtime computes the same as Taper from an exported model, for every op that can be
// exported, and for layers and models.
#include "modules/onnx/onnx.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <set>

#include <gtest/gtest.h>
#include <unistd.h>

#include "modules/models/gpt.h"
#include "modules/models/resnet.h"
#include "modules/models/text_classifiers.h"
#include "modules/onnx/onnx_graph.h"
#include "taper.h"
#include "tests/onnx/run_onnx.h"
#include "tests/testing.h"

namespace taper::v0::test {
namespace {

namespace fs = std::filesystem;

constexpr double kInf = std::numeric_limits<double>::infinity();

// A folder of exported models. Each has inputs and Taper's outputs for a batch of another size than
// the traced one.
class Cases {
 public:
  Cases() : folder_(fs::temp_directory_path() / concat_to_string("taper_onnx_", ::getpid())) {
    fs::create_directories(folder_);
  }
  ~Cases() { fs::remove_all(folder_); }

  void add(const std::string& name, const OnnxFunction& f, Module& module,
           const std::vector<Tensor>& inputs, const OnnxOptions& options = {}) {
    SCOPED_TRACE(name);
    std::vector<Tensor> traced;
    for (const Tensor& x : inputs) {
      traced.push_back(options.dynamic_batch ? narrow(x, 0, 0, 2).contiguous() : x);
    }
    EXPECT_TRUE(names_.insert(name).second);
    const std::string start = (folder_ / name).string();
    ASSERT_NO_THROW(export_onnx(f, module, traced, start + ".onnx", options));
    const NoGradGuard no_grad;
    module.eval();
    const auto port = [](const char* usual, size_t i, size_t of) {
      return of == 1 ? concat_to_string(".", usual, ".npy")
                     : concat_to_string(".", usual, "_", i, ".npy");
    };
    const std::vector<Tensor> outputs = f(inputs);
    for (size_t i = 0; i < inputs.size(); ++i) {
      save_npy(start + port("input", i, inputs.size()), inputs[i]);
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      save_npy(start + port("output", i, outputs.size()), outputs[i].contiguous());
    }
  }
  void add(const std::string& name, Tensor (*f)(const Tensor&), const Tensor& x) {
    Sequential none;
    add(name, [f](const auto& in) { return std::vector<Tensor>{f(in[0])}; }, none, {x});
  }
  void add(const std::string& name, Module& module, const Tensor& x, const OnnxOptions& o = {}) {
    add(
        name, [&](const auto& in) { return std::vector<Tensor>{module(in[0])}; }, module, {x}, o);
  }

  void run_all() const { run_onnx(folder_); }

 private:
  const fs::path folder_;
  std::set<std::string> names_;
};

Tensor some(const Shape& shape, uint64_t seed = 1) {
  manual_seed(seed);
  return randn(shape);
}
Tensor tokens(const Shape& shape, int64_t below) {
  return remainder(arange(shape.numel()) * 7, below).reshape(shape);
}

struct OpCase {
  const char* name;
  Tensor (*f)(const Tensor&);
};

class Onnx : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_onnx()) GTEST_SKIP() << "built without ONNX (TAPER_ONNX)";
  }
};

TEST_F(Onnx, RuntimeComputesElementWiseOps) {
  Cases cases;
  const Tensor x = some({5, 7}), positive = abs(x) + 0.1, whole = tokens({5, 4}, 9) - 4;
  const OpCase unary[] = {
      {"neg", [](auto& t) { return neg(t); }},
      {"abs", [](auto& t) { return abs(t); }},
      {"sign", [](auto& t) { return sign(t); }},
      {"square", [](auto& t) { return square(t); }},
      {"exp", [](auto& t) { return exp(t); }},
      {"expm1", [](auto& t) { return expm1(t); }},
      {"sin", [](auto& t) { return sin(t); }},
      {"cos", [](auto& t) { return cos(t); }},
      {"tanh", [](auto& t) { return tanh(t); }},
      {"sigmoid", [](auto& t) { return sigmoid(t); }},
      {"erf", [](auto& t) { return erf(t); }},
      {"floor", [](auto& t) { return floor(t); }},
      {"ceil", [](auto& t) { return ceil(t); }},
      {"round", [](auto& t) { return round(t); }},
      {"angles", [](auto& t) { return tan(t) + atan(t) + asin(tanh(t)) + acos(tanh(t)); }},
      {"hyperbolic", [](auto& t) { return sinh(t) + cosh(t) + exp2(t); }},
      {"trunc", [](auto& t) { return trunc(t * 2) + frac(t); }},
      {"selu", [](auto& t) { return selu(t); }},
      {"celu", [](auto& t) { return celu(t, 1.5); }},
      {"hard", [](auto& t) { return hardsigmoid(t * 4) + hardswish(t * 4); }},
      {"mish", [](auto& t) { return mish(t) + logsigmoid(t) + softsign(t) + tanhshrink(t); }},
      {"losses",
       [](auto& t) {
         const Tensor y = t * t, p = sigmoid(t);
         constexpr Reduction kNone = Reduction::kNone;
         return mse_loss(t, y, kNone) + l1_loss(t, y, kNone) + huber_loss(t, y, kNone, 0.3) +
                binary_cross_entropy_with_logits(t, p, {.reduction = kNone});
       }},
      {"shrink", [](auto& t) { return hardshrink(t, 0.3) + softshrink(t, 0.4); }},
      {"prelu", [](auto& t) { return prelu(t, full({7}, 0.3)); }},
      {"glu", [](auto& t) { return glu(narrow(t, 1, 0, 6)); }},
      {"fmod", [](auto& t) { return fmod(t, 0.7) + logaddexp(t, t * t); }},
      {"div_trunc", [](auto& t) { return div(t, 0.07, "trunc"); }},
      {"isclose",
       [](auto& t) {
         return isclose(t, t * kInf).to(kFloat32) + isclose(t * kInf, t * kInf).to(kFloat32) * 2;
       }},
      {"clamp_tensors", [](auto& t) { return clamp(t, t * 0.5 - 0.1, full({7}, 0.7)); }},
      {"lerp", [](auto& t) { return lerp(t, t * t, 0.3) + lerp(t, t * t, sigmoid(t)); }},
      {"addcmul", [](auto& t) { return addcmul(t, t, t, 2) + addcdiv(t, t, t * t + 1, -0.5); }},
      {"relu", [](auto& t) { return relu(t); }},
      {"leaky_relu", [](auto& t) { return leaky_relu(t, 0.2); }},
      {"elu", [](auto& t) { return elu(t, 1.5); }},
      {"gelu", [](auto& t) { return gelu(t); }},
      {"gelu_tanh", [](auto& t) { return gelu(t, "tanh"); }},
      {"silu", [](auto& t) { return silu(t); }},
      {"softplus", [](auto& t) { return softplus(t, 2); }},
      {"clamp", [](auto& t) { return clamp(t, -0.5, 0.7); }},
      {"clamp_below", [](auto& t) { return clamp(t, -0.5); }},
      {"hardtanh", [](auto& t) { return hardtanh(t); }},
      {"isfinite", [](auto& t) { return isfinite(t); }},
      {"logical_not", [](auto& t) { return logical_not(t > 0); }},
      {"numbers", [](auto& t) { return 3 - t * 2 / 7 + 1.5; }},
      {"add_alpha", [](auto& t) { return add(t, t * t, 0.5); }},
      {"sub_alpha", [](auto& t) { return sub(t, t * t, 3); }},
      {"floor_divide", [](auto& t) { return floor_divide(t, 0.3); }},
      {"remainder", [](auto& t) { return remainder(t, -0.7); }},
      {"maximum", [](auto& t) { return maximum(t, neg(t) * 0.5); }},
      {"minimum", [](auto& t) { return minimum(t, 0.1); }},
      {"compares",
       [](auto&
              t) { return logical_xor(logical_and(t > -1, t <= 1), logical_or(t < 0, ge(t, 0.5))); }},
      {"equal", [](auto& t) { return eq(floor(t), ceil(t) - 1) * (t > 0) + eq(t, 0); }},
      {"where", [](auto& t) { return where(t > 0, t, t * 0.1); }},
      {"masked_fill", [](auto& t) { return masked_fill(t, t > 1, -9); }}};
  for (const auto& [name, f] : unary) cases.add(name, f, x);
  const OpCase of_positive[] = {{"sqrt", [](auto& t) { return sqrt(t); }},
                                {"rsqrt", [](auto& t) { return rsqrt(t); }},
                                {"reciprocal", [](auto& t) { return reciprocal(t); }},
                                {"log", [](auto& t) { return log(t); }},
                                {"log1p", [](auto& t) { return log1p(t); }},
                                {"log2", [](auto& t) { return log2(t); }},
                                {"log10", [](auto& t) { return log10(t); }},
                                {"pow", [](auto& t) { return pow(t, 1.7) + pow(2, t); }}};
  for (const auto& [name, f] : of_positive) cases.add(name, f, positive);
  const OpCase of_whole[] = {{"int_mul", [](auto& t) { return t * 3 + 1; }},
                             {"int_mod", [](auto& t) { return remainder(t, 3); }},
                             {"int_div", [](auto& t) { return t / 4; }},
                             {"int_exp", [](auto& t) { return exp(t); }},
                             {"int_to_half", [](auto& t) { return t.to(kFloat16); }}};
  for (const auto& [name, f] : of_whole) cases.add(name, f, whole);
  Tensor odd = some({5, 3});
  odd[1] = full({3}, kInf);
  odd[2] = full({3}, std::numeric_limits<double>::quiet_NaN());
  cases.add(
      "isnan", [](auto& t) { return logical_or(isnan(t), isinf(t)); }, odd);
  cases.run_all();
}

TEST_F(Onnx, RuntimeComputesReductionsViewsAndIndexing) {
  Cases cases;
  const Tensor x = some({5, 3, 4});
  const OpCase ops[] = {
      {"sum", [](auto& t) { return sum(t, {1}); }},
      {"sum_kept",
       [](auto& t) {
         return sum(t, {-1, 1}, true);
       }},
      {"sum_all", [](auto& t) { return sum(t); }},
      {"mean", [](auto& t) { return mean(t, {2}); }},
      {"prod", [](auto& t) { return prod(t, 1); }},
      {"amax", [](auto& t) { return amax(t, {1}) + amin(t, {1}); }},
      {"any", [](auto& t) { return logical_and(any(t > 1, {2}), all(t < 9, {2})); }},
      {"argmax",
       [](auto& t) { return argmax(t, 1) + argmin(t, 2, true).sum(Shape{2}).narrow(1, 0, 1); }},
      {"softmax", [](auto& t) { return softmax(t, -1) + log_softmax(t, 1); }},
      {"var", [](auto& t) { return var(t, {1}) + std(t, {1}); }},
      {"norm", [](auto& t) { return norm(t, 2, {2}) + norm(t, 1, {2}); }},
      {"logsumexp", [](auto& t) { return logsumexp(t, {2}); }},
      {"cumsum", [](auto& t) { return cumsum(t, 1); }},
      {"max", [](auto& t) { return max(t, 1).values + min(t, 2).values.narrow(1, 0, 1) + max(t); }},
      {"max_places", [](auto& t) { return max(t, -1).indices; }},
      {"normalize", [](auto& t) { return normalize(t, 2, 2) + var_mean(t, {1}, 1, true).mean; }},
      {"instance_norm", [](auto& t) { return instance_norm(t); }},
      {"cdist", [](auto& t) { return cdist(t, t); }},
      {"einsum",
       [](auto& t) {
         return einsum("bij,bkj->bik", {t, t * 2});
       }},
      {"einsum_of_three",
       [](auto& t) {
         return einsum("...j,kj,...j->k...", {t, ones({2, 4}), t});
       }},
      {"tensordot",
       [](auto& t) {
         return tensordot(t, ones({3, 4, 2}));
       }},
      {"baddbmm", [](auto& t) { return baddbmm(ones({3}), t, t.transpose(1, 2), 0.5, 2); }},
      {"roll",
       [](auto& t) {
         return roll(t, {1, -1}, {1, 2});
       }},
      {"unbind",
       [](auto& t) {
         return hstack({unbind(t, 1)[2], tensor_split(t, 2, 1)[1].squeeze(1)});
       }},
      {"view",
       [](auto& t) {
         return t.view({t.size(0), 12});
       }},
      {"view_folded",
       [](auto& t) {
         return t.reshape({t.size(0) * 3, 4}) * 2;
       }},
      {"view_inferred",
       [](auto& t) {
         return t.reshape({-1, 2, 6});
       }},
      {"transpose", [](auto& t) { return t.transpose(1, 2).contiguous(); }},
      {"permute",
       [](auto& t) {
         return t.permute({0, -1, 1}).reshape({-1, 12});
       }},
      {"squeeze", [](auto& t) { return t.unsqueeze(1).squeeze(1).unsqueeze(-1); }},
      {"expand",
       [](auto& t) {
         return t.unsqueeze(1).expand({-1, 2, -1, -1}) + 1;
       }},
      {"expand_batch",
       [](auto& t) {
         return ones({1, 3, 4}).expand({t.size(0), 3, 4}) * t;
       }},
      {"zeros_of_batch",
       [](auto& t) {
         return cat({zeros({t.size(0), 1, 4}), t}, 1);
       }},
      {"slice",
       [](auto& t) {
         return slice(t, 2, 1, std::nullopt, 2) + select(t, 1, -1).unsqueeze(1).narrow(2, 0, 2);
       }},
      {"split",
       [](auto& t) {
         return split(t, std::vector<int64_t>{1, 3}, 2)[1] * chunk(t, 3, 1)[1].narrow(2, 0, 1);
       }},
      {"stack",
       [](auto& t) {
         return stack({t, t * 2}, 1);
       }},
      {"repeat",
       [](auto& t) {
         return repeat(t, {1, 2, 1});
       }},
      {"flip",
       [](auto& t) {
         return flip(t, {1, 2});
       }},
      {"tril", [](auto& t) { return tril(t, -1) + triu(t, 1); }},
      {"pad",
       [](auto& t) {
         return pad(t, {1, 2, -1, 1}, 3);
       }},
      {"index_select", [](auto& t) { return index_select(t, 1, tensor({2, 0})); }},
      {"gather", [](auto& t) { return gather(t, 2, argmax(t, 2, true)); }}};
  for (const auto& [name, f] : ops) cases.add(name, f, x);
  cases.add(
      "embedding",
      [](auto& t) {
        return embedding(arange(22).reshape({11, 2}).to(kFloat32) * 1.5, t);
      },
      tokens({5, 6}, 11));
  cases.run_all();
}

constexpr Interpolation kResizes[] = {Interpolation::kNearest, Interpolation::kBilinear,
                                      Interpolation::kBicubic};

TEST_F(Onnx, RuntimeComputesResizesToEverySizeAndByEveryScale) {
  Cases cases;
  const Tensor image = some({5, 1, 9, 10}), large = some({5, 1, 100, 7}) * 0.1,
               row = some({5, 1, 12}), volume = some({2, 1, 5, 9, 10});
  const auto add = [&](const std::string& name, const Tensor& x, InterpolateOptions options) {
    for (const Interpolation mode : kResizes) {
      if (x.dim() != 4 && mode == Interpolation::kBicubic) continue;
      options.mode = mode;
      if (mode == Interpolation::kBilinear && x.dim() == 3) options.mode = Interpolation::kLinear;
      if (mode == Interpolation::kBilinear && x.dim() == 5) {
        options.mode = Interpolation::kTrilinear;
      }
      Upsample module(options);
      cases.add(concat_to_string(name, "_", int(mode)), module, x);
    }
  };
  for (const Pair size :
       {Pair(1, 1), Pair(1, 5), Pair(3, 1), Pair(9, 20), Pair(7, 23), Pair(18, 3)}) {
    add(concat_to_string("to_", size.h, "x", size.w), image, {.size = size});
  }
  for (const Triple& size : {Triple(1, 1, 1), Triple(3, 9, 20), Triple(7, 2, 23)}) {
    add(concat_to_string("volume_to_", size.d, "x", size.h, "x", size.w), volume, {.size = size});
  }
  for (const double scale : {0.29, 0.5, 1.2, 2.}) {
    add(concat_to_string("volume_by_", scale), volume, {.scale_factor = scale});
  }
  for (const double scale : {0.12, 0.29, 0.34, 0.7, 1. / 3, 0.5, 1.1, 1.2, 1.5, 2., 2.3, 3.}) {
    add(concat_to_string("by_", scale), image, {.scale_factor = scale});
    if (scale * 7 >= 1) add(concat_to_string("large_by_", scale), large, {.scale_factor = scale});
    add(concat_to_string("row_by_", scale), row, {.scale_factor = scale});
  }
  cases.run_all();
}

// Runtimes round the product of a size and a scale down, computed in float or in double.
TEST_F(Onnx, AResizeByAScaleIsWrittenWithOneThatFindsItsSize) {
  for (const double scale : {0.29, 0.57, 0.58, 1.1, 1.15, 2.3, 1. / 3, 0.7}) {
    for (const int64_t n : {3, 7, 10, 21, 30, 100, 1000}) {
      if (std::floor(double(n) * scale) < 1) continue;
      Upsample module({.scale_factor = scale, .mode = Interpolation::kBilinear});
      const onnx_export::Graph graph =
          onnx_export::trace_graph([&](const auto& in) { return std::vector{module(in[0])}; },
                                   module, {zeros({2, 1, n, n})}, {});
      const auto resize = std::ranges::find(graph.nodes, "Resize", &onnx_export::GraphNode::op);
      ASSERT_NE(resize, graph.nodes.end());
      const auto scales =
          std::ranges::find(graph.initializers, resize->inputs[2], &NamedTensor::name);
      ASSERT_NE(scales, graph.initializers.end());
      const float found = scales->tensor.to_floats()[3];
      EXPECT_EQ(std::floor(float(n) * found), std::floor(double(n) * scale)) << n << " " << scale;
      EXPECT_EQ(std::floor(double(n) * double(found)), std::floor(double(n) * scale));
      EXPECT_NEAR(found, scale, 1e-6 * scale);
    }
  }
}

TEST_F(Onnx, RuntimeComputesLayers) {
  Cases cases;
  manual_seed(3);
  const Tensor image = some({5, 4, 8, 8}), row = some({5, 4, 9}), flat = some({5, 6});
  const Tensor volume = some({3, 4, 5, 6, 4});
  const auto add = [&](const char* name, auto module, const Tensor& x) {
    for (const auto& [path, buffer] : module.named_buffers()) {
      if (buffer.is_floating_point()) buffer.uniform_(0.5, 2);
    }
    cases.add(name, module, x);
  };
  add("linear", Linear(6, 3), flat);
  add("linear_3d", Linear(9, 3, {.bias = false}), row);
  add("linear_gelu", Sequential(Linear(6, 8), GELU(), Linear(8, 2), ReLU()), flat);
  add("conv2d", Conv2d(4, 6, 3, {.stride = 2, .padding = 1, .groups = 2}), image);
  add("conv2d_relu", Sequential(Conv2d(4, 6, {3, 2}, {.dilation = {1, 2}, .bias = false}), ReLU()),
      image);
  add("conv1d", Conv1d(4, 6, 3, {.stride = 2, .padding = 2}), row);
  add("batch_norm", Sequential(Conv2d(4, 4, 1), BatchNorm2d(4)), image);
  add("batch_norm1d", BatchNorm1d(6, {.affine = false}), flat);
  add("layer_norm", LayerNorm(Shape{8, 8}), image);
  add("layer_norm_bare", LayerNorm(Shape{6}, {.elementwise_affine = false}), flat);
  add("rms_norm", RMSNorm(Shape{6}), flat);
  add("group_norm", GroupNorm(2, 4), image);
  add("max_pool", MaxPool2d(3, {.stride = 2, .padding = 1}), image);
  add("max_pool1d", MaxPool1d(2), row);
  add("avg_pool", AvgPool2d(3, {.stride = 2, .padding = 1, .count_include_pad = false}), image);
  add("adaptive_to_one", AdaptiveAvgPool2d(1), image);
  add("adaptive", AdaptiveAvgPool2d(4), image);
  add("upsample", Upsample({.scale_factor = 2}), image);
  add("upsample_bilinear", Upsample({.size = Pair(5, 11), .mode = Interpolation::kBilinear}),
      image);
  add("upsample_corners",
      Upsample({.scale_factor = 1.5, .mode = Interpolation::kBilinear, .align_corners = true}),
      image);
  add("upsample_bicubic", Upsample({.size = Pair(9, 11), .mode = Interpolation::kBicubic}), image);
  add("batch_norm3d", BatchNorm3d(4), volume);
  add("group_norm3d", GroupNorm(2, 4), volume);
  add("max_pool3d", MaxPool3d(3, {.stride = Triple(2, 1, 2), .padding = {1, 0, 1}}), volume);
  add("avg_pool3d", AvgPool3d({2, 3, 2}, {.padding = {0, 1, 1}, .count_include_pad = false}),
      volume);
  add("avg_pool3d_ceil", AvgPool3d(3, {.stride = 2, .ceil_mode = true}), volume);
  add("adaptive3d_to_one", AdaptiveAvgPool3d(1), volume);
  add("adaptive3d", AdaptiveAvgPool3d({5, 3, 1}), volume);
  add("upsample3d", Upsample({.scale_factor = 2}), volume);
  add("upsample_trilinear", Upsample({.size = Triple(5, 11, 4), .mode = Interpolation::kTrilinear}),
      volume);
  add("upsample_trilinear_corners",
      Upsample({.scale_factor = 1.5, .mode = Interpolation::kTrilinear, .align_corners = true}),
      volume);
  add("replication_pad3d", ReplicationPad3d({1, 2, 0, 1, 2, 0}), volume);
  add("conv_transpose",
      ConvTranspose2d(
          4, 6, 3,
          {.stride = 2, .padding = {1, 0}, .output_padding = 1, .groups = 2, .bias = true}),
      image);
  add("conv_transpose1d", ConvTranspose1d(4, 2, 3, {.bias = false, .dilation = 2}), row);
  add("conv_circular", Conv2d(4, 3, 3, {.padding = 1, .padding_mode = PaddingMode::kCircular}),
      image);
  add("conv_same", Conv2d(4, 3, 4, {.padding = "same"}), image);
  add("conv3d", Conv3d(4, 6, {3, 2, 1}, {.stride = {1, 2, 2}, .padding = {1, 0, 2}, .groups = 2}),
      volume);
  add("conv3d_relu", Sequential(Conv3d(4, 6, 2, {.dilation = {1, 2, 1}, .bias = false}), ReLU()),
      volume);
  add("conv3d_same", Conv3d(4, 3, {2, 3, 4}, {.padding = "same"}), volume);
  add("conv3d_reflect", Conv3d(4, 3, 3, {.padding = 1, .padding_mode = PaddingMode::kReflect}),
      volume);
  add("conv_transpose3d",
      ConvTranspose3d(4, 6, {3, 2, 3},
                      {.stride = {2, 1, 2},
                       .padding = {1, 0, 1},
                       .output_padding = {1, 0, 1},
                       .groups = 2,
                       .dilation = {1, 2, 1}}),
      volume);
  add("replication_pad", ReplicationPad2d({1, 2, 0, 1}), image);
  add("pixel_shuffle", PixelShuffle(2), image);
  add("dropout", Sequential(Linear(6, 6), Dropout(0.5)), flat);
  {
    LSTM lstm(9, 5, {.num_layers = 2, .batch_first = true, .bidirectional = true});
    GRU gru(9, 5, {.batch_first = true});
    cases.add("lstm",
              [&](const auto& in) {
                const RnnResult out = lstm(in[0], RnnState());
                return std::vector<Tensor>{out.output, out.h_n, out.c_n};
              },
              lstm, {row});
    cases.add("gru",
              [&](const auto& in) { return std::vector<Tensor>{gru(in[0], RnnState()).output}; },
              gru, {row});
  }
  {
    Sequential none;
    const Tensor q = some({5, 2, 4, 3}), k = some({5, 2, 6, 3}, 2), v = some({5, 2, 6, 5}, 3);
    const auto attention = [&](const char* name, const OnnxFunction& f) {
      cases.add(name, f, none, {q, k, v});
    };
    attention("attention", [](const auto& in) {
      return std::vector<Tensor>{scaled_dot_product_attention(in[0], in[1], in[2])};
    });
    attention("attention_causal", [](const auto& in) {
      return std::vector<Tensor>{
          scaled_dot_product_attention(in[0], in[1], in[2], {.is_causal = true, .scale = 0.3})};
    });
    attention("attention_masked", [](const auto& in) {
      Tensor mask = ones({4, 6}, {.dtype = kBool});
      mask[1] = zeros({6}, {.dtype = kBool});
      mask[2][3] = zeros({}, {.dtype = kBool});
      return std::vector<Tensor>{scaled_dot_product_attention(in[0], in[1], in[2], mask)};
    });
    cases.add("packed_attention",
              [](const auto& in) {
                return std::vector<Tensor>{packed_attention(in[0], 2, {.is_causal = true})};
              },
              none, {some({5, 4, 12})});
  }
  {
    Sequential none;
    const GridSampleOptions border{.padding_mode = GridPadding::kBorder, .align_corners = true};
    const Tensor grid = some({5, 3, 4, 2}, 7);
    cases.add("grid_sample",
              [](const auto& in) { return std::vector<Tensor>{grid_sample(in[0], in[1])}; }, none,
              {image, grid});
    cases.add(
        "grid_sample_border",
        [=](const auto& in) { return std::vector<Tensor>{grid_sample(in[0], in[1], border)}; },
        none, {image, grid});
  }
  cases.run_all();
}

TEST_F(Onnx, RuntimeComputesModels) {
  Cases cases;
  manual_seed(5);
  ResNet resnet = resnet18({.num_classes = 3, .width = 4});
  cases.add("resnet18", resnet, some({5, 3, 32, 32}));
  GPT gpt({.vocab_size = 31,
           .block_size = 12,
           .n_layer = 2,
           .n_head = 2,
           .n_embd = 16,
           .gelu = "tanh"});
  cases.add("gpt", gpt, tokens({5, 12}, 31));
  cases.add("gpt_fixed", gpt, tokens({1, 7}, 31), {.dynamic_batch = false});
  LSTMClassifier lstm({.vocab_size = 20, .num_classes = 3, .embedding_dim = 6, .hidden_size = 7});
  cases.add("lstm_classifier", lstm, tokens({5, 8}, 20));
  EncoderClassifier encoder({.vocab_size = 20,
                             .num_classes = 3,
                             .max_len = 10,
                             .d_model = 8,
                             .nhead = 2,
                             .num_layers = 2,
                             .dim_feedforward = 12});
  cases.add("encoder_classifier", encoder, tokens({5, 8}, 20));
  BagClassifier padded_bag({.vocab_size = 20, .num_classes = 3, .padding_idx = 1});
  cases.add("padded_bag_classifier", padded_bag, tokens({5, 8}, 20));
  LSTMClassifier padded_lstm({.vocab_size = 20, .num_classes = 3, .padding_idx = 1});
  cases.add("padded_lstm_classifier", padded_lstm, tokens({5, 8}, 20));
  EncoderClassifier padded_encoder({.vocab_size = 20, .num_classes = 3, .padding_idx = 1});
  cases.add("padded_encoder_classifier", padded_encoder, tokens({5, 8}, 20));
  cases.run_all();
}

// --- what is refused ---

// Operators without a row of their own. Those of the first set are exported as the operators that
// they are composed of, or vanish because they do nothing in evaluation mode. Those of the second
// set are refused.
const std::set<std::string> kMadeOfOthers = {"adaptive_avg_pool1d",
                                             "addmm",
                                             "affine_grid",
                                             "avg_pool1d",
                                             "baddbmm",
                                             "binary_cross_entropy_with_logits",
                                             "bmm",
                                             "broadcast_tensors",
                                             "cdist",
                                             "chunk",
                                             "clamp_max",
                                             "clamp_min",
                                             "contiguous",
                                             "cosine_embedding_loss",
                                             "cosine_similarity",
                                             "count_nonzero",
                                             "cross",
                                             "diff",
                                             "dot",
                                             "dropout",
                                             "dropout2d",
                                             "dropout3d",
                                             "dropout_add",
                                             "einsum",
                                             "embedding",
                                             "expand_as",
                                             "feed_forward",
                                             "flatten",
                                             "gaussian_nll_loss",
                                             "hardtanh",
                                             "hinge_embedding_loss",
                                             "hstack",
                                             "index",
                                             "instance_norm",
                                             "kl_div",
                                             "linear_cross_entropy",
                                             "margin_ranking_loss",
                                             "masked_fill",
                                             "max",
                                             "max_pool1d",
                                             "meshgrid",
                                             "min",
                                             "mm",
                                             "movedim",
                                             "multi_margin_loss",
                                             "multilabel_soft_margin_loss",
                                             "narrow",
                                             "norm",
                                             "normalize",
                                             "outer",
                                             "pairwise_distance",
                                             "pixel_shuffle",
                                             "pixel_unshuffle",
                                             "poisson_nll_loss",
                                             "relu6",
                                             "repeat",
                                             "reshape",
                                             "roll",
                                             "select",
                                             "smooth_l1_loss",
                                             "soft_margin_loss",
                                             "split",
                                             "squeeze",
                                             "stack",
                                             "std_mean",
                                             "sum_to",
                                             "take_along_dim",
                                             "tensor_split",
                                             "tensordot",
                                             "to_copy",
                                             "transpose",
                                             "triplet_margin_loss",
                                             "unbind",
                                             "unflatten",
                                             "unsqueeze",
                                             "var_mean",
                                             "view_as",
                                             "vstack",
                                             "zero_outside"};
const std::set<std::string> kWithoutForm = {"adaptive_max_pool1d",
                                            "adaptive_max_pool1d_with_indices",
                                            "adaptive_max_pool2d",
                                            "adaptive_max_pool2d_with_indices",
                                            "adaptive_max_pool3d",
                                            "adaptive_max_pool3d_with_indices",
                                            "allclose",
                                            "argsort",
                                            "atan2",
                                            "bernoulli",
                                            "binary_cross_entropy",
                                            "bincount",
                                            "bitwise_and",
                                            "bitwise_not",
                                            "bitwise_or",
                                            "bitwise_xor",
                                            "bucketize",
                                            "cholesky",
                                            "cross_entropy",
                                            "ctc_loss",
                                            "cumprod",
                                            "det",
                                            "diag",
                                            "diag_embed",
                                            "diagonal",
                                            "digamma",
                                            "eigh",
                                            "embedding_bag",
                                            "equal",
                                            "erfinv",
                                            "fold",
                                            "gumbel_softmax",
                                            "index_add",
                                            "index_copy",
                                            "index_fill",
                                            "index_put",
                                            "inv",
                                            "lgamma",
                                            "logcumsumexp",
                                            "lstsq",
                                            "masked_scatter",
                                            "masked_select",
                                            "matrix_norm",
                                            "max_pool1d_with_indices",
                                            "max_pool2d_with_indices",
                                            "max_pool3d_with_indices",
                                            "max_unpool2d",
                                            "max_unpool3d",
                                            "median",
                                            "multilabel_margin_loss",
                                            "multinomial",
                                            "nan_to_num",
                                            "nll_loss",
                                            "nonzero",
                                            "one_hot",
                                            "pinv",
                                            "qr",
                                            "quantile",
                                            "repeat_interleave",
                                            "scatter",
                                            "scatter_add",
                                            "scatter_reduce",
                                            "searchsorted",
                                            "slogdet",
                                            "solve",
                                            "solve_triangular",
                                            "sort",
                                            "svd",
                                            "topk",
                                            "unfold",
                                            "unique",
                                            "xlogy"};

TEST_F(Onnx, EveryOperatorHasARowOrIsKnownToHaveNone) {
  std::ifstream page(concat_to_string(TAPER_SOURCE_DIR, "/docs/operators.md"));
  int operators = 0;
  for (std::string line; std::getline(page, line);) {
    if (!line.starts_with("| `")) continue;
    const std::string name = line.substr(3, line.find('`', 3) - 3);
    const int places = (onnx_export::onnx_row(name) != nullptr) + int(kMadeOfOthers.count(name)) +
                       int(kWithoutForm.count(name));
    EXPECT_EQ(places, 1) << name << ": give it a row in modules/onnx/, or name it here";
    ++operators;
  }
  EXPECT_GT(operators, 120);
}

struct Odd : Module {
  std::function<Tensor(const Tensor&)> f;
  explicit Odd(std::function<Tensor(const Tensor&)> g) : f(std::move(g)) {}
  Tensor forward(const Tensor& x) override { return f(x); }
  std::string type_name() const override { return "Odd"; }
};

std::string refusal(std::function<Tensor(const Tensor&)> f, const OnnxOptions& options = {}) {
  Sequential net(Linear(4, 4), Odd(std::move(f)));
  const fs::path path =
      fs::temp_directory_path() / concat_to_string("taper_onnx_refused_", ::getpid());
  try {
    export_onnx(net, some({2, 4}), path.string(), options);
  } catch (const NotImplementedError& e) {
    EXPECT_FALSE(fs::exists(path));
    EXPECT_TRUE(net.is_training());
    return e.what();
  }
  fs::remove(path);
  return "accepted";
}

TEST_F(Onnx, WhatHasNoFormIsRefusedByNameAndModule) {
  EXPECT_EQ(refusal([](auto& x) { return x + 1; }), "accepted");
  EXPECT_EQ(refusal([](auto& x) { return sort(x).values * 2; }),
            "export_onnx: Sort has no ONNX form (in module 1)");
  EXPECT_EQ(refusal([](auto& x) { return x * x.sum().template item<float>(); }),
            "export_onnx: the values of a tensor of shape [] that follows from the inputs (made by "
            "sum) are read on the host (item, to_vector, data, or an op that does so, as nonzero); "
            "what they decide, such as a branch, would be frozen as the example has it (in module "
            "1)");
  EXPECT_EQ(refusal([](auto& x) {
              const Tensor y = x.detach() * 2;
              y.add_(1);
              return y * 3;
            }),
            "export_onnx: add_ changes a tensor in place, which has no ONNX form (in module 1)");
  EXPECT_EQ(refusal(
                [](auto& x) {
                  return x + randn({2, 4});
                },
                {.dynamic_batch = false}),
            "export_onnx: add reads a tensor of shape [2, 4] that follows from the inputs, but by "
            "no op that has an ONNX form: it was changed in place, drawn at random, or read on the "
            "host (in module 1)");
  EXPECT_NE(refusal([](auto& x) {
              return x.size(0) == 2 ? x * 2 : x + 2;
            }).find("the module computes other things for other inputs"),
            std::string::npos);
  EXPECT_NE(refusal([](auto& x) {
              return x.narrow(0, x.size(0) - 1, 1);
            }).find("no multiple; try dynamic_batch = false (in module 1)"),
            std::string::npos);
  EXPECT_EQ(
      refusal([](auto& x) { return x.narrow(0, x.size(0) - 1, 1); }, {.dynamic_batch = false}),
      "accepted");
}

// Independent of the example's values and of the branches taken.
TEST_F(Onnx, WhatFollowsFromTheInputsIsNeverAConstant) {
  const std::map<std::string, std::function<Tensor(const Tensor&)>> bad = {
      {"branch", [](auto& x) { return x.sum().template item<float>() > 0 ? x * 2 : -x; }},
      {"branch never taken",
       [](auto& x) { return amax(x).template item<float>() > 1000 ? x + 1 : x * 2; }},
      {"rows on the host", [](auto& x) { return x * double(x.to_floats()[0]); }},
      {"data", [](auto& x) { return x * double(contiguous(x).template data<float>()[0]); }},
      {"argsort", [](auto& x) { return x * argsort(x).to(kFloat32); }},
      {"topk", [](auto& x) { return x.narrow(1, 0, 2) * topk(x, 2).indices.to(kFloat32); }},
      {"nonzero", [](auto& x) { return x * double(nonzero(x > 0).size(0)); }},
      {"masked_select", [](auto& x) { return x * sum(masked_select(x, x > 0)); }},
      {"unique", [](auto& x) { return x * double(unique(x).output.numel()); }},
      {"copied in place",
       [](auto& x) {
         const NoGradGuard off;
         const Tensor y = zeros(x.shape());
         y.narrow(1, 0, 1).copy_(x.narrow(1, 0, 1));
         return x * y;
       }},
      {"one_hot", [](auto& x) { return one_hot(argmax(x, 1), 4).to(kFloat32) * x; }},
      {"searchsorted", [](auto& x) { return x * searchsorted(arange(4.), x).to(kFloat32); }},
  };
  for (const auto& [what, f] : bad) {
    for (const Tensor& example : {zeros({2, 4}), ones({2, 4}), some({3, 4})}) {
      SCOPED_TRACE(what + " of " + to_string(example));
      Odd net(f);
      const fs::path path =
          fs::temp_directory_path() / concat_to_string("taper_onnx_never_", ::getpid());
      EXPECT_THROW(export_onnx(net, example, path.string()), NotImplementedError);
      fs::remove(path);
    }
  }
  // What follows from weights and shapes only remains a constant.
  Linear lin(4, 4);
  const Tensor weight = lin.weight;
  const auto good = [&](const Tensor& x) {
    const Tensor order = argsort(weight.select(0, 0));
    const double scale = weight.sum().item<double>() + double(x.size(1));
    return index_select(lin(x), 1, order) * scale + sort(weight.select(0, 1)).values;
  };
  const fs::path path =
      fs::temp_directory_path() / concat_to_string("taper_onnx_good_", ::getpid());
  EXPECT_NO_THROW(export_onnx([&](const auto& in) { return std::vector<Tensor>{good(in[0])}; }, lin,
                              {some({2, 4})}, path.string()));
  fs::remove(path);
}

TEST_F(Onnx, ABatchThatIsNoneIsRefused) {
  Linear net(4, 4);
  const std::string path = (fs::temp_directory_path() / "taper_never").string();
  EXPECT_TRUE(refuses<ValueError>(
      [&] {
        export_onnx(net, zeros({}), path);
        return 0;
      },
      "export_onnx: with a dynamic batch every example's first size"));
  EXPECT_TRUE(refuses<Error>(
      [&] {
        export_onnx(net, zeros({2, 4}), "/no/such/folder/x.onnx");
        return 0;
      },
      "/no/such/folder/x.onnx"));
}

// The module is unchanged, including the mode of each submodule.
TEST_F(Onnx, TheModuleIsLeftAsItWas) {
  Sequential net(Linear(4, 4), Dropout(0.5), BatchNorm1d(4));
  net[1].eval();
  const fs::path path =
      fs::temp_directory_path() / concat_to_string("taper_onnx_kept_", ::getpid());
  export_onnx(net, some({2, 4}), path.string());
  fs::remove(path);
  EXPECT_TRUE(net.is_training());
  EXPECT_FALSE(net[1].is_training());
  EXPECT_TRUE(net[2].is_training());
  for (const Tensor& p : net.parameters()) EXPECT_FALSE(p.grad().defined());
}

}  // namespace
}  // namespace taper::v0::test
