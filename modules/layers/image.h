// Layers of images without parameters: padding, windows as columns, channels as pixels
// (https://pytorch.org/docs/stable/nn.html#padding-layers, ...#vision-layers).
#pragma once

#include <vector>

#include "autograd/ops/nn/image.h"
#include "modules/layers/function_layer.h"

namespace taper::inline v0 {

// ReflectionPad2d(1), or {left, right, top, bottom}; of one dimension {left, right}.
template <LayerName kName, int kDims, PadMode kMode>
class PadLayer : public Cloneable<PadLayer<kName, kDims, kMode>> {
 public:
  explicit PadLayer(int64_t all) : padding(2 * kDims, all) {}
  explicit PadLayer(std::vector<int64_t> sides) : padding(std::move(sides)) {
    if (padding.size() == 2 * kDims) return;
    throw ValueError(
        cat(kName.text, ": padding must have ", 2 * kDims, " numbers, got ", padding.size()));
  }
  Tensor forward(const Tensor& x) override { return pad(x, padding, kMode); }
  std::string type_name() const override { return kName.text; }
  std::string extra_repr() const override { return py(Shape(padding)); }

  const std::vector<int64_t> padding;
};
using ZeroPad1d = PadLayer<"ZeroPad1d", 1, PadMode::zeros>;
using ZeroPad2d = PadLayer<"ZeroPad2d", 2, PadMode::zeros>;
using ReflectionPad1d = PadLayer<"ReflectionPad1d", 1, PadMode::reflect>;
using ReflectionPad2d = PadLayer<"ReflectionPad2d", 2, PadMode::reflect>;
using ReplicationPad1d = PadLayer<"ReplicationPad1d", 1, PadMode::replicate>;
using ReplicationPad2d = PadLayer<"ReplicationPad2d", 2, PadMode::replicate>;
using CircularPad1d = PadLayer<"CircularPad1d", 1, PadMode::circular>;
using CircularPad2d = PadLayer<"CircularPad2d", 2, PadMode::circular>;

using PixelShuffle =
    FunctionLayer<"PixelShuffle", pixel_shuffle,
                  Option<"upscale_factor", int64_t, kWidth, "how much larger the images become">>;
using PixelUnshuffle =
    FunctionLayer<"PixelUnshuffle", pixel_unshuffle,
                  Option<"downscale_factor", int64_t, kWidth, "how much smaller they become">>;

class Unfold : public Cloneable<Unfold> {
 public:
  using Options = UnfoldOptions;

  explicit Unfold(Pair kernel, UnfoldOptions o = {}) : kernel_size(kernel), options(o) {}
  Tensor forward(const Tensor& x) override { return unfold(x, kernel_size, options); }
  std::string type_name() const override { return "Unfold"; }
  std::string extra_repr() const override {
    return fields("kernel_size", kernel_size, "dilation", options.dilation, "padding",
                  options.padding, "stride", options.stride);
  }

  const Pair kernel_size;
  const UnfoldOptions options;
};

class Fold : public Cloneable<Fold> {
 public:
  using Options = UnfoldOptions;

  Fold(Pair size, Pair kernel, UnfoldOptions o = {})
      : output_size(size), kernel_size(kernel), options(o) {}
  Tensor forward(const Tensor& x) override { return fold(x, output_size, kernel_size, options); }
  std::string type_name() const override { return "Fold"; }
  std::string extra_repr() const override {
    return fields("output_size", output_size, "kernel_size", kernel_size, "dilation",
                  options.dilation, "padding", options.padding, "stride", options.stride);
  }

  const Pair output_size, kernel_size;
  const UnfoldOptions options;
};

}  // namespace taper::inline v0
