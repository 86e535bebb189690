// Pooling and interpolation of sequences [N, C, L] or [C, L], images [N, C, H, W] or [C, H, W], and
// volumes [N, C, D, H, W] or [C, D, H, W]
// (https://pytorch.org/docs/stable/nn.functional.html#pooling-functions). Results have the memory
// format of the input, row-major or channels-last. Functions of one dimension use the width (.w) of
// their options. All are differentiable with respect to x and do not synchronize.
#pragma once

#include <optional>

#include "framework/base/describe.h"
#include "framework/base/interpolate_size.h"
#include "framework/base/text_enum.h"
#include "framework/tensor/tensor.h"

namespace taper::v0 {

// The largest elements and their int64 positions: in the sequence, in the image as h * W + w, or in
// the volume as (d * H + h) * W + w. The position is -1 for a window without elements.
struct Pooled {
  Tensor values, indices;
};

// The text of the option `padding`.
template <class Sizes>
inline constexpr const char* kPaddingText =
    std::is_same_v<Sizes, Triple> ? "slabs, rows and columns added on each side of the input"
                                  : "rows and columns added on each side of the input";

// Sizes is Pair, or Triple for volumes.
template <class Sizes> struct MaxPoolOptionsOf {
  std::optional<Sizes> stride = std::nullopt;  // default: the kernel size
  Sizes padding = 0;                           // counts as -inf
  Sizes dilation = 1;
  bool ceil_mode = false;

  template <class V> void describe(V& v) {
    v("stride", stride, kWidth, "step of the window; default: the size of the window");
    v("padding", padding, kWidthOrNone, kPaddingText<Sizes>);
    v("dilation", dilation, kWidth, "distance between elements of the window");
    v("ceil_mode", ceil_mode, "let windows extend past the edge");
  }
};
using MaxPoolOptions = MaxPoolOptionsOf<Pair>;
using MaxPool3dOptions = MaxPoolOptionsOf<Triple>;
// Return the largest element of each window. NaN takes precedence. Of equal elements, the first
// receives the gradient.
Tensor max_pool1d(const Tensor& x, IntArg kernel_size, const MaxPoolOptions& options = {});
Tensor max_pool2d(const Tensor& x, Pair kernel_size, const MaxPoolOptions& options = {});
Tensor max_pool3d(const Tensor& x, const Triple& kernel_size, const MaxPool3dOptions& options = {});
// Like the functions above, but also return the positions (PyTorch: return_indices).
Pooled max_pool1d_with_indices(const Tensor& x, IntArg kernel_size,
                               const MaxPoolOptions& options = {});
Pooled max_pool2d_with_indices(const Tensor& x, Pair kernel_size,
                               const MaxPoolOptions& options = {});
Pooled max_pool3d_with_indices(const Tensor& x, const Triple& kernel_size,
                               const MaxPool3dOptions& options = {});

template <class Sizes> struct MaxUnpoolOptionsOf {
  std::optional<Sizes> stride = std::nullopt;  // default: the kernel size
  Sizes padding = 0;
  // One of the sizes that pooling maps to x's size.
  std::optional<Sizes> output_size = std::nullopt;
};
using MaxUnpoolOptions = MaxUnpoolOptionsOf<Pair>;
using MaxUnpool3dOptions = MaxUnpoolOptionsOf<Triple>;
// Return zeros with the elements of x at the positions that max_pool2d_with_indices or
// max_pool3d_with_indices returned. If two elements have the same position, the last is stored.
Tensor max_unpool2d(const Tensor& x, const Tensor& indices, Pair kernel_size,
                    const MaxUnpoolOptions& options = {});
Tensor max_unpool3d(const Tensor& x, const Tensor& indices, const Triple& kernel_size,
                    const MaxUnpool3dOptions& options = {});

template <class Sizes> struct AvgPoolOptionsOf {
  std::optional<Sizes> stride = std::nullopt;  // default: the kernel size
  Sizes padding = 0;                           // zeros
  bool ceil_mode = false;
  bool count_include_pad = true;  // the mean includes the zeros of the padding

  template <class V> void describe(V& v) {
    v("stride", stride, kWidth, "step of the window; default: the size of the window");
    v("padding", padding, kWidthOrNone, kPaddingText<Sizes>);
    v("ceil_mode", ceil_mode, "let windows extend past the edge");
    v("count_include_pad", count_include_pad, "include the padding in the mean");
  }
};
using AvgPoolOptions = AvgPoolOptionsOf<Pair>;
using AvgPool3dOptions = AvgPoolOptionsOf<Triple>;
Tensor avg_pool1d(const Tensor& x, IntArg kernel_size, const AvgPoolOptions& options = {});
Tensor avg_pool2d(const Tensor& x, Pair kernel_size, const AvgPoolOptions& options = {});
Tensor avg_pool3d(const Tensor& x, const Triple& kernel_size, const AvgPool3dOptions& options = {});

// The size of an adaptive pool's result: 3, {3, 5}, or {std::nullopt, 5}, where std::nullopt keeps
// the input's size.
struct OutputSize {
  std::optional<int64_t> h, w;
  OutputSize() = default;
  template <std::convertible_to<IntArg> T> OutputSize(T both) : h(IntArg(both)), w(h) {}
  OutputSize(Pair p) : h(p.h), w(p.w) {}
  OutputSize(std::optional<IntArg> height, std::optional<IntArg> width) : h(height), w(width) {}
};
// The same for volumes: 3, {3, 5, 7}, or {std::nullopt, 5, 7}.
struct OutputSize3d {
  std::optional<int64_t> d, h, w;
  OutputSize3d() = default;
  template <std::convertible_to<IntArg> T> OutputSize3d(T all) : d(IntArg(all)), h(d), w(d) {}
  OutputSize3d(const Triple& t) : d(t.d), h(t.h), w(t.w) {}
  OutputSize3d(std::optional<IntArg> depth, std::optional<IntArg> height,
               std::optional<IntArg> width)
      : d(depth), h(height), w(width) {}
};
Tensor adaptive_avg_pool1d(const Tensor& x, IntArg output_size);
Tensor adaptive_avg_pool2d(const Tensor& x, OutputSize output_size);
Tensor adaptive_avg_pool3d(const Tensor& x, const OutputSize3d& output_size);
Tensor adaptive_max_pool1d(const Tensor& x, IntArg output_size);
Tensor adaptive_max_pool2d(const Tensor& x, OutputSize output_size);
Tensor adaptive_max_pool3d(const Tensor& x, const OutputSize3d& output_size);
Pooled adaptive_max_pool1d_with_indices(const Tensor& x, IntArg output_size);
Pooled adaptive_max_pool2d_with_indices(const Tensor& x, OutputSize output_size);
Pooled adaptive_max_pool3d_with_indices(const Tensor& x, const OutputSize3d& output_size);

// bicubic uses Keys' cubic with A = -0.75. area equals adaptive_avg_pool.
struct InterpolationValues {
  enum class Value : uint8_t { kNearest, kLinear, kBilinear, kBicubic, kTrilinear, kArea };
  static constexpr Value kNearest = Value::kNearest, kLinear = Value::kLinear,
                         kBilinear = Value::kBilinear, kBicubic = Value::kBicubic,
                         kTrilinear = Value::kTrilinear, kArea = Value::kArea;
  static constexpr const char* kOption = "mode";
  static constexpr const char* kWords[] = {"nearest", "linear",    "bilinear",
                                           "bicubic", "trilinear", "area"};
};
using Interpolation = TextEnum<InterpolationValues>;

struct InterpolateOptions {
  // Exactly one of size and scale_factor is required.
  std::optional<InterpolateSize> size = std::nullopt;  // a number, a Pair or a Triple
  std::optional<double> scale_factor = std::nullopt;
  Interpolation mode = Interpolation::kNearest;
  // Whether the centers of the corner pixels keep their position. Not for nearest and area.
  std::optional<bool> align_corners = std::nullopt;

  template <class V> void describe(V& v) {
    v("scale_factor", scale_factor, kPositive,
      "output size divided by input size; use this or size");
    v("size", size, kWidth, "size of the output: one number, or one for each spatial dimension");
    v("mode", mode, "interpolation method");
  }
  template <class V> void rules(V& v) {
    v("scale_factor", "give either scale_factor or size",
      [this] { return scale_factor.has_value() != size.has_value(); });
  }
};
// Resizes x [N, C, L] (nearest, linear, area), [N, C, H, W] (nearest, bilinear, bicubic, area) or
// [N, C, D, H, W] (nearest, trilinear, area). Throws Error if the mode or the number of sizes does
// not fit the shape.
//
//   interpolate(x, {.scale_factor = 2, .mode = Interpolation::kBilinear});
Tensor interpolate(const Tensor& x, const InterpolateOptions& options);

}  // namespace taper::v0
