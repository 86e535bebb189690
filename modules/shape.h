// Layers that change shapes (https://pytorch.org/docs/stable/nn.html#utilities).
#pragma once

#include "autograd/ops/pool.h"
#include "autograd/ops/shape.h"
#include "modules/function_layer.h"

namespace taper {

class Identity : public Module {
 public:
  Tensor forward(const Tensor& x) override { return x; }
  std::string type_name() const override { return "Identity"; }
};

// All dimensions from start_dim to end_dim become one.
using Flatten = FunctionLayer<
    "Flatten", flatten,
    Option<"start_dim", int64_t, kAnyDim, "first dimension to join; 0 is the batch", 1>,
    Option<"end_dim", int64_t, kAnyDim, "last dimension to join", -1>>;
// Unflatten(1, {2, -1}): the inverse.
inline constexpr Range kSizeOrRest{-1, kWidth.high};
using Unflatten =
    FunctionLayer<"Unflatten", unflatten,
                  Option<"dim", int64_t, kAnyDim, "dimension to divide; 0 is the batch">,
                  Option<"unflattened_size", Shape, kSizeOrRest, "sizes; one may be -1">>;

// Upsample({.scale_factor = 2, .mode = Interpolation::bilinear}).
class Upsample : public Module {
 public:
  using Options = InterpolateOptions;

  explicit Upsample(const InterpolateOptions& o) : options(o) {}
  Tensor forward(const Tensor& x) override { return interpolate(x, options); }
  std::string type_name() const override { return "Upsample"; }
  std::string extra_repr() const override {
    const std::string mode = kInterpolationNames[size_t(options.mode)];
    return options.scale_factor ? fields("scale_factor", *options.scale_factor, "mode", mode)
                                : fields("size", options.size, "mode", mode);
  }

  const InterpolateOptions options;
};

}  // namespace taper
