// Layers without parameters, and PReLU
// (https://pytorch.org/docs/stable/nn.html#non-linear-activations-weighted-sum-nonlinearity,
// ...#dropout-layers, ...#pooling-layers, ...#padding-layers, ...#vision-layers). They are
// functions of autograd/ops and take the same options.
#pragma once

#include "autograd/ops/binary_ops.h"
#include "autograd/ops/nn/image.h"
#include "autograd/ops/random_ops.h"
#include "autograd/ops/reduce_ops.h"
#include "autograd/ops/shape_ops.h"
#include "autograd/ops/unary_ops.h"
#include "framework/factory/factories.h"
#include "modules/layers/function_layer.h"
#include "modules/members.h"

namespace taper::v0 {

// --- activations ---

using ReLU = FunctionLayer<"ReLU", relu>;
using ReLU6 = FunctionLayer<"ReLU6", relu6>;
using SiLU = FunctionLayer<"SiLU", silu>;
using Mish = FunctionLayer<"Mish", mish>;
using SELU = FunctionLayer<"SELU", selu>;
using Hardsigmoid = FunctionLayer<"Hardsigmoid", hardsigmoid>;
using Hardswish = FunctionLayer<"Hardswish", hardswish>;
using LogSigmoid = FunctionLayer<"LogSigmoid", logsigmoid>;
using Softsign = FunctionLayer<"Softsign", softsign>;
using Tanhshrink = FunctionLayer<"Tanhshrink", tanhshrink>;
using Tanh = FunctionLayer<"Tanh", tanh>;
using Sigmoid = FunctionLayer<"Sigmoid", sigmoid>;
using LeakyReLU =
    FunctionLayer<"LeakyReLU", leaky_relu,
                  Option<"negative_slope", double, kNonNegative, "slope below 0", 1, 100>>;
using AlphaOption =
    Option<"alpha", double, kPositive, "negated limit for large negative inputs", 1>;
using ELU = FunctionLayer<"ELU", elu, AlphaOption>;
using CELU = FunctionLayer<"CELU", celu, AlphaOption>;
using Lambd =
    Option<"lambd", double, kNonNegative, "inputs of at most this absolute value become 0", 1, 2>;
template <LayerName kName, auto kFunction>
struct Shrink : Cloneable<Shrink<kName, kFunction>, FunctionLayer<kName, kFunction, Lambd>> {
  using Shrink::Cloneable::Cloneable;
  std::string extra_repr() const override { return py(std::get<0>(this->options_.all).value); }
};
using Hardshrink = Shrink<"Hardshrink", hardshrink>;
using Softshrink = Shrink<"Softshrink", softshrink>;
using GLU =
    FunctionLayer<"GLU", glu, Option<"dim", int64_t, kAnyDim, "dimension to split in half", -1>>;
using Hardtanh =
    FunctionLayer<"Hardtanh", hardtanh, Option<"min_val", double, kAny, "lower bound", -1>,
                  Option<"max_val", double, kAny, "upper bound", 1>>;
using Softplus = FunctionLayer<
    "Softplus", softplus, Option<"beta", double, kPositive, "steepness", 1>,
    Option<"threshold", double, kAny, "input above which the function is linear", 20>>;
using DimOption = Option<"dim", int64_t, kAnyDim, "dimension whose values sum to 1">;
using Softmax = FunctionLayer<"Softmax", softmax, DimOption>;
using LogSoftmax = FunctionLayer<"LogSoftmax", log_softmax, DimOption>;

struct GELUOptions {
  GeluApproximate approximate = GeluApproximate::kNone;
  template <class V> void describe(V& v) {
    v("approximate", approximate, "exact formula, or the approximation by tanh");
  }
};

class GELU : public Cloneable<GELU> {
 public:
  using Options = GELUOptions;

  explicit GELU(const Options& options) : GELU(options.approximate) {}
  explicit GELU(GeluApproximate formula = GeluApproximate::kNone) : approximate(formula) {}
  Tensor forward(const Tensor& x) override { return gelu(x, approximate); }
  std::string extra_repr() const override {
    return fields("approximate", std::string(approximate.word()));
  }

  GeluApproximate approximate;
};

struct PReLUOptions {
  double init = 0.25;
  Device device = DeviceType::kCpu;
  template <class V> void describe(V& v) { v("init", init, kAny, "initial slope below 0"); }
};

// `weight` is the slope for negative x: one for all channels, or one per channel.
class PReLU : public Cloneable<PReLU> {
 public:
  explicit PReLU(IntArg num_parameters = 1, PReLUOptions o = {})
      : weight(*this, "weight", full({num_parameters}, o.init, {.device = o.device})) {}
  Tensor forward(const Tensor& x) override { return prelu(x, weight); }
  std::string extra_repr() const override { return fields("num_parameters", weight->numel()); }

  Parameter weight;
};

// --- dropout: active in training mode; masks come from the default generator ---

struct DropoutOptions {
  double p = 0.5;
  template <class V> void describe(V& v) { v("p", p, kBelowOne, "dropout probability"); }
};

template <LayerName kName, auto kFunction>
class DropoutLayer : public Cloneable<DropoutLayer<kName, kFunction>> {
 public:
  using Options = DropoutOptions;

  explicit DropoutLayer(const Options& options) : DropoutLayer(options.p) {}
  explicit DropoutLayer(RealArg probability = Options().p) : p(probability) {
    require<ValueError>(p >= 0 && p <= 1, "dropout probability has to be between 0 and 1, but got ",
                        py(p));
  }
  Tensor forward(const Tensor& x) override { return kFunction(x, p, this->is_training(), nullptr); }
  std::string type_name() const override { return kName.text; }
  std::string extra_repr() const override { return fields("p", p, "inplace", false); }

  double p;
};
using Dropout = DropoutLayer<"Dropout", dropout>;
// Drop whole channels.
using Dropout2d = DropoutLayer<"Dropout2d", dropout2d>;
using Dropout3d = DropoutLayer<"Dropout3d", dropout3d>;

// --- windows: MaxPool2d(3, {.stride = 2, .padding = {1, 0}}) ---

// Formats 3, (3, 5) or (None, 5).
inline std::string py(const OutputSize& size) {
  if (size.h && size.h == size.w) return py(size.h);
  return concat_to_string("(", py(size.h), ", ", py(size.w), ")");
}
// Formats 3, (3, 5, 7) or (None, 5, 7).
inline std::string py(const OutputSize3d& size) {
  if (size.d && size.d == size.h && size.d == size.w) return py(size.d);
  return concat_to_string("(", py(size.d), ", ", py(size.h), ", ", py(size.w), ")");
}
using OutputWidth = Option<"output_size", int64_t, kWidth, "size of the output">;
using OutputSides = Option<"output_size", OutputSize, kWidth, "height and width of the output">;
using OutputSides3d =
    Option<"output_size", OutputSize3d, kWidth, "depth, height and width of the output">;
using AdaptiveAvgPool1d = FunctionLayer<"AdaptiveAvgPool1d", adaptive_avg_pool1d, OutputWidth>;
using AdaptiveAvgPool2d = FunctionLayer<"AdaptiveAvgPool2d", adaptive_avg_pool2d, OutputSides>;
using AdaptiveAvgPool3d = FunctionLayer<"AdaptiveAvgPool3d", adaptive_avg_pool3d, OutputSides3d>;
using AdaptiveMaxPool1d = FunctionLayer<"AdaptiveMaxPool1d", adaptive_max_pool1d, OutputWidth>;
using AdaptiveMaxPool2d = FunctionLayer<"AdaptiveMaxPool2d", adaptive_max_pool2d, OutputSides>;
using AdaptiveMaxPool3d = FunctionLayer<"AdaptiveMaxPool3d", adaptive_max_pool3d, OutputSides3d>;

// kDims is the number of spatial dimensions.
template <LayerName kName, int kDims, auto kFunction, class PoolOptions>
class PoolLayer : public Cloneable<PoolLayer<kName, kDims, kFunction, PoolOptions>> {
 public:
  using Options = PoolOptions;
  using Sizes = std::conditional_t<kDims == 3, Triple, Pair>;
  using Size = std::conditional_t<kDims == 1, int64_t, Sizes>;

  explicit PoolLayer(Size size, Options o = {}) : kernel_size(size), options(o) {}
  Tensor forward(const Tensor& x) override { return kFunction(x, kernel_size, options); }
  std::string type_name() const override { return kName.text; }
  std::string extra_repr() const override {
    const Options& o = options;
    const Sizes kernel = kernel_size;
    if constexpr (std::same_as<Options, UnfoldOptions>) {
      return fields("kernel_size", kernel, "dilation", o.dilation, "padding", o.padding, "stride",
                    o.stride);
    } else if constexpr (std::same_as<Options, MaxPoolOptionsOf<Sizes>>) {
      return fields("kernel_size", sized(kernel), "stride", sized(o.stride.value_or(kernel)),
                    "padding", sized(o.padding), "dilation", sized(o.dilation), "ceil_mode",
                    o.ceil_mode);
    } else {
      const auto shown = [](const Sizes& p) { return kDims == 1 ? py(Shape{p.w}) : py(p); };
      return concat_to_string("kernel_size=", shown(kernel),
                              ", stride=", shown(o.stride.value_or(kernel)),
                              ", padding=", shown(o.padding));
    }
  }

  Size kernel_size;
  Options options;

 private:
  static Size sized(const Sizes& p) {
    if constexpr (kDims == 1) {
      return p.w;
    } else {
      return p;
    }
  }
};
using MaxPool1d = PoolLayer<"MaxPool1d", 1, max_pool1d, MaxPoolOptions>;
using MaxPool2d = PoolLayer<"MaxPool2d", 2, max_pool2d, MaxPoolOptions>;
using MaxPool3d = PoolLayer<"MaxPool3d", 3, max_pool3d, MaxPool3dOptions>;
using AvgPool1d = PoolLayer<"AvgPool1d", 1, avg_pool1d, AvgPoolOptions>;
using AvgPool2d = PoolLayer<"AvgPool2d", 2, avg_pool2d, AvgPoolOptions>;
using AvgPool3d = PoolLayer<"AvgPool3d", 3, avg_pool3d, AvgPool3dOptions>;
using Unfold = PoolLayer<"Unfold", 2, unfold, UnfoldOptions>;

// Combines blocks [N, C * kernel, L] into images [N, C, *output_size]. Overlapping blocks are
// added.
class Fold : public Cloneable<Fold> {
 public:
  using Options = UnfoldOptions;

  Fold(Pair size, Pair kernel, UnfoldOptions o = {})
      : output_size(size), kernel_size(kernel), options(o) {}
  Tensor forward(const Tensor& x) override { return fold(x, output_size, kernel_size, options); }
  std::string extra_repr() const override {
    return fields("output_size", output_size, "kernel_size", kernel_size, "dilation",
                  options.dilation, "padding", options.padding, "stride", options.stride);
  }

  Pair output_size, kernel_size;
  UnfoldOptions options;
};

// --- padding ---

// ReflectionPad2d(1), or {left, right, top, bottom}; in one dimension {left, right}, and in three
// dimensions {left, right, top, bottom, front, back}.
template <LayerName kName, int kDims, PadMode kMode>
class PadLayer : public Cloneable<PadLayer<kName, kDims, kMode>> {
 public:
  explicit PadLayer(IntArg all) : padding(2 * kDims, all) {}
  explicit PadLayer(std::vector<int64_t> sides) : padding(std::move(sides)) {
    require<ValueError>(padding.size() == 2 * kDims, kName.text, ": padding must have ", 2 * kDims,
                        " numbers, got ", padding.size());
  }
  Tensor forward(const Tensor& x) override { return pad(x, padding, kMode); }
  std::string type_name() const override { return kName.text; }
  std::string extra_repr() const override { return py(Shape(padding)); }

  std::vector<int64_t> padding;
};
using ZeroPad1d = PadLayer<"ZeroPad1d", 1, PadMode::kConstant>;
using ZeroPad2d = PadLayer<"ZeroPad2d", 2, PadMode::kConstant>;
using ZeroPad3d = PadLayer<"ZeroPad3d", 3, PadMode::kConstant>;
using ReflectionPad1d = PadLayer<"ReflectionPad1d", 1, PadMode::kReflect>;
using ReflectionPad2d = PadLayer<"ReflectionPad2d", 2, PadMode::kReflect>;
using ReflectionPad3d = PadLayer<"ReflectionPad3d", 3, PadMode::kReflect>;
using ReplicationPad1d = PadLayer<"ReplicationPad1d", 1, PadMode::kReplicate>;
using ReplicationPad2d = PadLayer<"ReplicationPad2d", 2, PadMode::kReplicate>;
using ReplicationPad3d = PadLayer<"ReplicationPad3d", 3, PadMode::kReplicate>;
using CircularPad1d = PadLayer<"CircularPad1d", 1, PadMode::kCircular>;
using CircularPad2d = PadLayer<"CircularPad2d", 2, PadMode::kCircular>;
using CircularPad3d = PadLayer<"CircularPad3d", 3, PadMode::kCircular>;

// --- shapes ---

class Identity : public Cloneable<Identity> {
 public:
  Tensor forward(const Tensor& x) override { return x; }
};

// Flattens all dimensions from start_dim to end_dim into one.
using Flatten = FunctionLayer<
    "Flatten", flatten,
    Option<"start_dim", int64_t, kAnyDim, "first dimension to join; 0 is the batch", 1>,
    Option<"end_dim", int64_t, kAnyDim, "last dimension to join", -1>>;
// The inverse of Flatten: Unflatten(1, {2, -1}).
inline constexpr Range kSizeOrRest{-1, kWidth.high};
using Unflatten =
    FunctionLayer<"Unflatten", unflatten,
                  Option<"dim", int64_t, kAnyDim, "dimension to split; 0 is the batch">,
                  Option<"unflattened_size", Shape, kSizeOrRest, "new sizes; one may be -1">>;

using PixelShuffle = FunctionLayer<
    "PixelShuffle", pixel_shuffle,
    Option<"upscale_factor", int64_t, kWidth, "factor by which height and width grow">>;
using PixelUnshuffle = FunctionLayer<
    "PixelUnshuffle", pixel_unshuffle,
    Option<"downscale_factor", int64_t, kWidth, "factor by which height and width shrink">>;

// Formats 3, (3, 5) or (3, 5, 7).
inline std::string py(const InterpolateSize& size) {
  return size.count == 3 ? py(Triple(size.d, size.h, size.w)) : py(Pair(size.h, size.w));
}

// Upsample({.scale_factor = 2, .mode = Interpolation::kBilinear}).
class Upsample : public Cloneable<Upsample> {
 public:
  using Options = InterpolateOptions;

  explicit Upsample(const InterpolateOptions& o) : options(o) {}
  Tensor forward(const Tensor& x) override { return interpolate(x, options); }
  std::string extra_repr() const override {
    const std::string mode = options.mode.word();
    return options.scale_factor ? fields("scale_factor", *options.scale_factor, "mode", mode)
                                : fields("size", options.size, "mode", mode);
  }

  InterpolateOptions options;
};

}  // namespace taper::v0
