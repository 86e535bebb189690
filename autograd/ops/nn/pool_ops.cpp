#include "autograd/ops/nn/pool_ops.h"

#include <algorithm>
#include <cmath>

#include "autograd/ops/index/index_ops.h"
#include "autograd/ops/index/scatter.h"
#include "autograd/ops/op_helpers.h"
#include "framework/kernels/pool/pool.h"

namespace taper::v0 {
namespace {

using kernels::Axes;
using kernels::Axis;

// Interpolates or averages x. This is linear in x, so resample and its transpose compute each
// other's gradients.
Tensor resample(const char* name, const Tensor& x, const Axes& axes, bool transposed = false) {
  Tensor y = kernels::resample(x, axes, transposed);
  return linear_in(x, name, y, [name, axes, transposed](const Tensor& dy) {
    return resample(name, dy, axes, !transposed);
  });
}

// Computes the gradient of max pooling. Its own gradient gathers the elements at `index`.
Tensor place_at(const Tensor& dy, const Tensor& index, const Axes& axes) {
  Tensor dx = kernels::max_pool_backward(dy, index, axes);
  return linear_in(dy, "MaxPool2DWithIndicesBackwardBackward0", dx, [index](const Tensor& ddx) {
    const Tensor places = flatten(index, -2);
    const Tensor taken = gather(flatten(ddx, -2), -1, clamp(places, 0));
    return view_as(zero_outside(taken, places >= 0), index);
  });
}

Pooled max_pool(const char* name, const Tensor& x, const Axes& axes) {
  const auto [y, index] = kernels::max_pool(x, axes);
  return {
      linear_in(x, name, y,
                [places = index, axes](const Tensor& dy) { return place_at(dy, places, axes); }),
      index};
}

Pooled max_pool(const char* op, const Tensor& x, Pair kernel, const MaxPoolOptions& o) {
  const Axes axes =
      kernels::window_axes(op, x, {kernel, o.stride, o.padding, o.dilation, o.ceil_mode});
  const Pooled y = max_pool("MaxPool2DWithIndicesBackward0", x, axes);
  trace("max_pool2d", y.values, {x}, std::pair(kernel, o));
  return y;
}

Tensor avg_pool(const char* op, const Tensor& x, Pair kernel, const AvgPoolOptions& o) {
  const Axes axes = kernels::window_axes(
      op, x, {kernel, o.stride, o.padding, 1, o.ceil_mode, o.count_include_pad});
  return traced("avg_pool2d", resample("AvgPool2DBackward0", x, axes), {x}, std::pair(kernel, o));
}

Axes adaptive_axes(const char* op, const Tensor& x, const OutputSize& out) {
  const auto size = [&](std::optional<int64_t> wanted, int d) {
    // Tensors with fewer dimensions are refused later.
    return wanted ? *wanted : x.dim() > 2 ? x.size(d) : 0;
  };
  return kernels::adaptive_axes(op, x, {size(out.h, -2), size(out.w, -1)});
}

// --- one dimension: as images of height 1 ---

Pooled of_images(const Pooled& y) { return {y.values.squeeze(-2), y.indices.squeeze(-2)}; }

template <class Options> Options of_rows(Options options) {
  options.padding.h = 0;
  if (options.stride) options.stride->h = 1;
  return options;
}

void check_rows(const char* op, const Tensor& x) {
  require(x.dim() == 2 || x.dim() == 3, "Expected 2 to 3 dimensions, but got ", x.dim(),
          "-dimensional tensor for argument #1 'self' (while checking arguments for ", op, ")");
}

// --- interpolation ---

void check_interpolate(const Tensor& x, const InterpolateOptions& o) {
  const char* mode = o.mode.word();
  require<ValueError>(o.size || o.scale_factor, "either size or scale_factor should be defined");
  require<ValueError>(!o.size || !o.scale_factor,
                      "only one of size or scale_factor should be defined");
  const bool any_rank = o.mode == Interpolation::kNearest || o.mode == Interpolation::kArea;
  require<ValueError>(!any_rank || !o.align_corners,
                      "align_corners option can only be set with the interpolating modes: linear | "
                      "bilinear | bicubic | trilinear");
  require<NotImplementedError>(
      x.dim() == 3 || x.dim() == 4, "Input Error: Only 3D and 4D input Tensors supported (got ",
      x.dim(), "D) for the modes: nearest | linear | bilinear | bicubic | area (got ", mode, ")");
  const int wanted = any_rank ? x.dim() : o.mode == Interpolation::kLinear ? 3 : 4;
  require<NotImplementedError>(x.dim() == wanted, "Got ", x.dim(), "D input, but ", mode,
                               " mode needs ", wanted, "D input");
  require(x.size(1) != 0 || o.mode == Interpolation::kArea, "Non-empty ", x.dim(),
          "D data tensor expected but got a tensor with sizes ", x.shape());
}

void check_sizes(const Tensor& x, Pair out) {
  const int64_t h = x.dim() == 4 ? x.size(2) : 1, w = x.size(-1);
  if (h > 0 && w > 0 && out.h > 0 && out.w > 0) return;
  const std::string what = "Input and output sizes should be greater than 0, but got input (";
  if (x.dim() == 3) throw Error(what, "W: ", w, ") and output (W: ", out.w, ")");
  throw Error(what, "H: ", h, ", W: ", w, ") output (H: ", out.h, ", W: ", out.w, ")");
}

}  // namespace

Tensor max_pool2d(const Tensor& x, Pair kernel_size, const MaxPoolOptions& options) {
  return max_pool2d_with_indices(x, kernel_size, options).values;
}

Tensor max_pool1d(const Tensor& x, IntArg kernel_size, const MaxPoolOptions& options) {
  return max_pool1d_with_indices(x, kernel_size, options).values;
}

Pooled max_pool2d_with_indices(const Tensor& x, Pair kernel_size, const MaxPoolOptions& options) {
  require(x.dim() == 3 || x.dim() == 4,
          "non-empty 3D or 4D (batch mode) tensor expected for input, but max_pool2d got ",
          x.shape());
  return max_pool("max_pool2d", x, kernel_size, options);
}

Pooled max_pool1d_with_indices(const Tensor& x, IntArg kernel_size, const MaxPoolOptions& options) {
  require(x.dim() == 2 || x.dim() == 3,
          "max_pool1d: Expected 2D or 3D (batch mode) tensor with optional 0 dim batch size for "
          "input, but got:",
          x.shape());
  return of_images(max_pool("max_pool1d", x.unsqueeze(-2), {1, kernel_size}, of_rows(options)));
}

Tensor max_unpool2d(const Tensor& x, const Tensor& indices, Pair kernel,
                    const MaxUnpoolOptions& o) {
  require(indices.dtype() == kInt64,
          "elements in indices should be type int64 but got: ", scalar_type_name(indices.dtype()));
  require(x.dim() == 3 || x.dim() == 4,
          "Input to max_unpooling2d should be a 3d or 4d Tensor, but got a tensor with ", x.dim(),
          " dimensions");
  require(indices.shape() == x.shape(),
          "Expected shape of indices to be same as that of the input tensor (", x.shape(),
          ") but got indices tensor with shape: ", indices.shape());
  const Pair stride = o.stride.value_or(kernel);
  check_window_numbers("max_unpool2d", {kernel.h, kernel.w, stride.h, stride.w, o.padding.h,
                                        o.padding.w, x.size(-2), x.size(-1)});
  const Pair usual((x.size(-2) - 1) * stride.h + kernel.h - 2 * o.padding.h,
                   (x.size(-1) - 1) * stride.w + kernel.w - 2 * o.padding.w);
  const Pair size = o.output_size.value_or(usual);
  const auto fits = [](int64_t n, int64_t middle, int64_t step) {
    return n > middle - step && n < middle + step;
  };
  require<ValueError>(
      !o.output_size || (fits(size.h, usual.h, stride.h) && fits(size.w, usual.w, stride.w)),
      "invalid output_size \"(", size.h, ", ", size.w, ")\"");
  require(size.h >= 1 && size.w >= 1, "max_unpool2d: the output size (", size.h, ", ", size.w,
          ") must be positive");
  Shape shape = x.shape();
  shape[x.dim() - 2] = size.h;
  shape[x.dim() - 1] = size.w;
  const Tensor places = flatten(indices, -2);
  const Tensor filled =
      scatter(flatten(zeros(shape, options_of(x)), -2), -1, places, flatten(x.detach(), -2));
  Tensor y = Tensor::make(filled.storage(), shape, contiguous_strides(shape),
                          filled.storage_offset(), x.dtype());
  // If two elements were written to one position, both receive its gradient, as in PyTorch.
  return linear_in(x, "MaxUnpool2DBackward0", y, [places, from = x.shape()](const Tensor& dy) {
    return reshape(gather(flatten(dy, -2), -1, places), from);
  });
}

Tensor avg_pool2d(const Tensor& x, Pair kernel_size, const AvgPoolOptions& options) {
  return avg_pool("avg_pool2d", x, kernel_size, options);
}

Tensor avg_pool1d(const Tensor& x, IntArg kernel_size, const AvgPoolOptions& options) {
  check_rows("avg_pool1d", x);
  return avg_pool("avg_pool1d", x.unsqueeze(-2), {1, kernel_size}, of_rows(options)).squeeze(-2);
}

Tensor adaptive_avg_pool2d(const Tensor& x, OutputSize output_size) {
  const Axes axes = adaptive_axes("adaptive_avg_pool2d", x, output_size);
  return traced("adaptive_avg_pool2d", resample("AdaptiveAvgPool2DBackward0", x, axes), {x});
}

Tensor adaptive_avg_pool1d(const Tensor& x, IntArg output_size) {
  check_rows("adaptive_avg_pool1d", x);
  return adaptive_avg_pool2d(x.unsqueeze(-2), {1, output_size}).squeeze(-2);
}

Pooled adaptive_max_pool2d_with_indices(const Tensor& x, OutputSize output_size) {
  return max_pool("AdaptiveMaxPool2DBackward0", x,
                  adaptive_axes("adaptive_max_pool2d", x, output_size));
}

Pooled adaptive_max_pool1d_with_indices(const Tensor& x, IntArg output_size) {
  check_rows("adaptive_max_pool1d", x);
  return of_images(adaptive_max_pool2d_with_indices(x.unsqueeze(-2), {1, output_size}));
}

Tensor adaptive_max_pool2d(const Tensor& x, OutputSize output_size) {
  return adaptive_max_pool2d_with_indices(x, output_size).values;
}

Tensor adaptive_max_pool1d(const Tensor& x, IntArg output_size) {
  return adaptive_max_pool1d_with_indices(x, output_size).values;
}

Tensor interpolate(const Tensor& x, const InterpolateOptions& o) {
  check_interpolate(x, o);
  const bool rows = x.dim() == 3;
  const auto scaled = [&](int64_t size) {
    const double wanted = o.size ? 0 : std::floor(double(size) * *o.scale_factor);
    return wanted > 0 ? int64_t(std::min(wanted, 0x1p62)) : 0;
  };
  Pair size = o.size ? *o.size : Pair(rows ? 1 : scaled(x.size(2)), scaled(x.size(-1)));
  if (rows) size.h = 1;
  if (o.mode == Interpolation::kArea) {
    return rows ? adaptive_avg_pool1d(x, size.w) : adaptive_avg_pool2d(x, size);
  }
  check_sizes(x, size);
  const bool nearest = o.mode == Interpolation::kNearest, cubic = o.mode == Interpolation::kBicubic;
  const auto kind = nearest ? Axis::AxisKind::kNearest
                    : cubic ? Axis::AxisKind::kCubic
                            : Axis::AxisKind::kLinear;
  const char* name = nearest ? "UpsampleNearest2DBackward0"
                     : cubic ? "UpsampleBicubic2DBackward0"
                             : "UpsampleBilinear2DBackward0";
  const Tensor images = rows ? x.unsqueeze(-2) : x;
  const Axes axes =
      kernels::scaled_axes(images, size, o.scale_factor, kind, o.align_corners.value_or(false));
  const Tensor y = traced("interpolate", resample(name, images, axes), {images}, o);
  return rows ? y.squeeze(-2) : y;
}

}  // namespace taper::v0
