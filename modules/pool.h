// Pooling layers (https://pytorch.org/docs/stable/nn.html#pooling-layers): the functions of
// autograd/ops/pool.h, whose options they take: MaxPool2d(3, {.stride = 2, .padding = {1, 0}}).
#pragma once

#include "autograd/ops/pool.h"
#include "modules/function_layer.h"

namespace taper {

using AdaptiveAvgPool1d =
    FunctionLayer<"AdaptiveAvgPool1d", adaptive_avg_pool1d,
                  Option<"output_size", int64_t, kWidth, "width of the output">>;
using AdaptiveAvgPool2d =
    FunctionLayer<"AdaptiveAvgPool2d", adaptive_avg_pool2d,
                  Option<"output_size", Pair, kWidth, "height and width of the output">>;

// kDims: of space.
template <LayerName kName, int kDims, auto kFunction, class Options>
class PoolLayer : public Module {
 public:
  using Size = std::conditional_t<kDims == 1, int64_t, Pair>;

  explicit PoolLayer(Size size, Options o = {}) : kernel_size(size), options(o) {}
  Tensor forward(const Tensor& x) override { return kFunction(x, kernel_size, options); }
  std::string type_name() const override { return kName.text; }
  std::string extra_repr() const override {
    const Options& o = options;
    const Pair kernel = kernel_size, stride = o.stride.value_or(kernel);
    if constexpr (std::same_as<Options, MaxPoolOptions>) {
      return fields("kernel_size", sized(kernel), "stride", sized(stride), "padding",
                    sized(o.padding), "dilation", sized(o.dilation), "ceil_mode", o.ceil_mode);
    } else if constexpr (kDims == 1) {
      return fields("kernel_size", Shape{kernel.w}, "stride", Shape{stride.w}, "padding",
                    Shape{o.padding.w});
    } else {
      return fields("kernel_size", kernel, "stride", stride, "padding", o.padding);
    }
  }

  const Size kernel_size;
  const Options options;

 private:
  static Size sized(Pair p) {
    if constexpr (kDims == 1) return p.w;
    if constexpr (kDims == 2) return p;
  }
};
using MaxPool1d = PoolLayer<"MaxPool1d", 1, max_pool1d, MaxPoolOptions>;
using MaxPool2d = PoolLayer<"MaxPool2d", 2, max_pool2d, MaxPoolOptions>;
using AvgPool1d = PoolLayer<"AvgPool1d", 1, avg_pool1d, AvgPoolOptions>;
using AvgPool2d = PoolLayer<"AvgPool2d", 2, avg_pool2d, AvgPoolOptions>;

}  // namespace taper
