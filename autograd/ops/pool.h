// Pooling and interpolation of images [N, C, H, W] or [C, H, W], and of rows [N, C, L] or [C, L]
// (https://pytorch.org/docs/stable/nn.functional.html#pooling-functions). Results have the memory
// format of their input: row-major or channels-last. Options of the ops in one dimension: their w.
#pragma once

#include <optional>

#include "framework/describe.h"
#include "framework/pair.h"
#include "framework/tensor.h"

namespace taper::inline v0 {

struct MaxPoolOptions {
  std::optional<Pair> stride = std::nullopt;  // the kernel size
  Pair padding = 0;                           // as if -inf were there
  Pair dilation = 1;
  bool ceil_mode = false;

  template <class V> void describe(V& v) {
    v("stride", stride, kWidth, "step of the window; without it 1, or a pool's window");
    v("padding", padding, kWidthOrNone, "rows and columns added around the input");
    v("dilation", dilation, kWidth, "distance of the window's elements");
    v("ceil_mode", ceil_mode, "windows may reach over the edge");
  }
};
// nan wins; among equals the first gets the gradient.
Tensor max_pool1d(const Tensor& x, int64_t kernel_size, const MaxPoolOptions& options = {});
Tensor max_pool2d(const Tensor& x, Pair kernel_size, const MaxPoolOptions& options = {});

struct AvgPoolOptions {
  std::optional<Pair> stride = std::nullopt;  // the kernel size
  Pair padding = 0;                           // zeros
  bool ceil_mode = false;
  bool count_include_pad = true;  // zeros of the padding count in the mean

  template <class V> void describe(V& v) {
    v("stride", stride, kWidth, "step of the window; without it 1, or a pool's window");
    v("padding", padding, kWidthOrNone, "rows and columns added around the input");
    v("ceil_mode", ceil_mode, "windows may reach over the edge");
    v("count_include_pad", count_include_pad, "padding counts in the mean");
  }
};
Tensor avg_pool1d(const Tensor& x, int64_t kernel_size, const AvgPoolOptions& options = {});
Tensor avg_pool2d(const Tensor& x, Pair kernel_size, const AvgPoolOptions& options = {});

Tensor adaptive_avg_pool1d(const Tensor& x, int64_t output_size);
Tensor adaptive_avg_pool2d(const Tensor& x, Pair output_size);

enum class Interpolation : uint8_t { nearest, linear, bilinear };
inline constexpr const char* kInterpolationNames[] = {"nearest", "linear", "bilinear"};
struct InterpolateOptions {
  // One of the two.
  std::optional<Pair> size = std::nullopt;
  std::optional<double> scale_factor = std::nullopt;
  Interpolation mode = Interpolation::nearest;
  // Whether the corners' centres keep their place; not for nearest.
  std::optional<bool> align_corners = std::nullopt;

  template <class V> void describe(V& v) {
    v("scale_factor", scale_factor, kPositive,
      "size of the output by that of the input; this or size");
    v("size", size, kWidth, "height and width of the output");
    v("mode", mode, {"nearest", "linear", "bilinear"}, "how values between are made");
  }
  template <class V> void rules(V& v) {
    v("scale_factor", "give either scale_factor or size",
      [this] { return scale_factor.has_value() != size.has_value(); });
  }
};
// x [N, C, L] (nearest, linear) or [N, C, H, W] (nearest, bilinear).
Tensor interpolate(const Tensor& x, const InterpolateOptions& options);

}  // namespace taper::inline v0
