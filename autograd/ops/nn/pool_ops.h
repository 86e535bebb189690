// Pooling and interpolation of images [N, C, H, W] or [C, H, W] and sequences [N, C, L] or [C, L]
// (https://pytorch.org/docs/stable/nn.functional.html#pooling-functions). Results have the memory
// format of the input, row-major or channels-last. Functions of one dimension use the width (.w) of
// their options. All are differentiable with respect to x and do not synchronize.
#pragma once

#include <optional>

#include "framework/base/describe.h"
#include "framework/base/text_enum.h"
#include "framework/tensor/tensor.h"

namespace taper::v0 {

// The largest elements and their int64 positions: in the sequence, or in the image as h * W + w.
// The position is -1 for a window without elements.
struct Pooled {
  Tensor values, indices;
};

struct MaxPoolOptions {
  std::optional<Pair> stride = std::nullopt;  // default: the kernel size
  Pair padding = 0;                           // counts as -inf
  Pair dilation = 1;
  bool ceil_mode = false;

  template <class V> void describe(V& v) {
    v("stride", stride, kWidth, "step of the window; default: the size of the window");
    v("padding", padding, kWidthOrNone, "rows and columns added on each side of the input");
    v("dilation", dilation, kWidth, "distance between elements of the window");
    v("ceil_mode", ceil_mode, "let windows extend past the edge");
  }
};
// Return the largest element of each window. NaN takes precedence. Of equal elements, the first
// receives the gradient.
Tensor max_pool1d(const Tensor& x, IntArg kernel_size, const MaxPoolOptions& options = {});
Tensor max_pool2d(const Tensor& x, Pair kernel_size, const MaxPoolOptions& options = {});
// Like the functions above, but also return the positions (PyTorch: return_indices).
Pooled max_pool1d_with_indices(const Tensor& x, IntArg kernel_size,
                               const MaxPoolOptions& options = {});
Pooled max_pool2d_with_indices(const Tensor& x, Pair kernel_size,
                               const MaxPoolOptions& options = {});

struct MaxUnpoolOptions {
  std::optional<Pair> stride = std::nullopt;  // default: the kernel size
  Pair padding = 0;
  std::optional<Pair> output_size = std::nullopt;  // one of the sizes that pooling maps to x's size
};
// Returns zeros with the elements of x [N, C, H, W] or [C, H, W] at the positions that
// max_pool2d_with_indices returned. If two elements have the same position, the last is stored.
Tensor max_unpool2d(const Tensor& x, const Tensor& indices, Pair kernel_size,
                    const MaxUnpoolOptions& options = {});

struct AvgPoolOptions {
  std::optional<Pair> stride = std::nullopt;  // default: the kernel size
  Pair padding = 0;                           // zeros
  bool ceil_mode = false;
  bool count_include_pad = true;  // the mean includes the zeros of the padding

  template <class V> void describe(V& v) {
    v("stride", stride, kWidth, "step of the window; default: the size of the window");
    v("padding", padding, kWidthOrNone, "rows and columns added on each side of the input");
    v("ceil_mode", ceil_mode, "let windows extend past the edge");
    v("count_include_pad", count_include_pad, "include the padding in the mean");
  }
};
Tensor avg_pool1d(const Tensor& x, IntArg kernel_size, const AvgPoolOptions& options = {});
Tensor avg_pool2d(const Tensor& x, Pair kernel_size, const AvgPoolOptions& options = {});

// The size of an adaptive pool's result: 3, {3, 5}, or {std::nullopt, 5}, where std::nullopt keeps
// the input's size.
struct OutputSize {
  std::optional<int64_t> h, w;
  OutputSize() = default;
  template <std::convertible_to<IntArg> T> OutputSize(T both) : h(IntArg(both)), w(h) {}
  OutputSize(Pair p) : h(p.h), w(p.w) {}
  OutputSize(std::optional<IntArg> height, std::optional<IntArg> width) : h(height), w(width) {}
};
Tensor adaptive_avg_pool1d(const Tensor& x, IntArg output_size);
Tensor adaptive_avg_pool2d(const Tensor& x, OutputSize output_size);
Tensor adaptive_max_pool1d(const Tensor& x, IntArg output_size);
Tensor adaptive_max_pool2d(const Tensor& x, OutputSize output_size);
Pooled adaptive_max_pool1d_with_indices(const Tensor& x, IntArg output_size);
Pooled adaptive_max_pool2d_with_indices(const Tensor& x, OutputSize output_size);

// bicubic uses Keys' cubic with A = -0.75. area equals adaptive_avg_pool.
struct InterpolationValues {
  enum class Value : uint8_t { kNearest, kLinear, kBilinear, kBicubic, kArea };
  static constexpr Value kNearest = Value::kNearest, kLinear = Value::kLinear,
                         kBilinear = Value::kBilinear, kBicubic = Value::kBicubic,
                         kArea = Value::kArea;
  static constexpr const char* kOption = "mode";
  static constexpr const char* kWords[] = {"nearest", "linear", "bilinear", "bicubic", "area"};
};
using Interpolation = TextEnum<InterpolationValues>;

struct InterpolateOptions {
  // Exactly one of size and scale_factor is required.
  std::optional<Pair> size = std::nullopt;
  std::optional<double> scale_factor = std::nullopt;
  Interpolation mode = Interpolation::kNearest;
  // Whether the centers of the corner pixels keep their position. Not for nearest and area.
  std::optional<bool> align_corners = std::nullopt;

  template <class V> void describe(V& v) {
    v("scale_factor", scale_factor, kPositive,
      "output size divided by input size; use this or size");
    v("size", size, kWidth, "height and width of the output");
    v("mode", mode, "interpolation method");
  }
  template <class V> void rules(V& v) {
    v("scale_factor", "give either scale_factor or size",
      [this] { return scale_factor.has_value() != size.has_value(); });
  }
};
// Resizes x [N, C, L] (nearest, linear, area) or [N, C, H, W] (nearest, bilinear, bicubic, area).
// Throws Error if the mode does not fit the shape.
//
//   interpolate(x, {.scale_factor = 2, .mode = Interpolation::kBilinear});
Tensor interpolate(const Tensor& x, const InterpolateOptions& options);

}  // namespace taper::v0
