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

// Returns the number of spatial dimensions that the options describe.
template <class Sizes> constexpr int kDims = std::same_as<Sizes, Triple> ? 3 : 2;

// Return sizes for three dimensions. Images get the given depth.
Triple with_depth(Pair p, int64_t depth) { return {depth, p.h, p.w}; }
const Triple& with_depth(const Triple& t, int64_t) { return t; }
template <class Sizes>
std::optional<Triple> with_depth(const std::optional<Sizes>& sizes, int64_t depth) {
  if (!sizes) return {};
  return with_depth(*sizes, depth);
}

// Returns volumes with a batch dimension, which kernels need to tell them from images.
Tensor with_batch(const Tensor& x, int dims) {
  return dims == 3 && x.dim() == 4 ? x.unsqueeze(0) : x;
}
// Return the result for x from that for with_batch(x).
Tensor without_batch(const Tensor& x, const Tensor& y) {
  return x.dim() < y.dim() ? y.squeeze(0) : y;
}
Pooled without_batch(const Tensor& x, const Pooled& y) {
  return {without_batch(x, y.values), without_batch(x, y.indices)};
}

// Computes the gradient of max pooling. Its own gradient gathers the elements at `index`.
Tensor place_at(const Tensor& dy, const Tensor& index, const Axes& axes) {
  const bool volume = dy.dim() == 5;
  Tensor dx = kernels::max_pool_backward(dy, index, axes);
  const char* name =
      volume ? "MaxPool3DWithIndicesBackwardBackward0" : "MaxPool2DWithIndicesBackwardBackward0";
  return linear_in(dy, name, dx, [index, from = volume ? -3 : -2](const Tensor& ddx) {
    const Tensor places = flatten(index, from);
    const Tensor taken = gather(flatten(ddx, from), -1, clamp(places, 0));
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

template <class Sizes>
Pooled max_pool(const char* op, const Tensor& x, const Sizes& kernel,
                const MaxPoolOptionsOf<Sizes>& o) {
  constexpr int dims = kDims<Sizes>;
  const Axes axes =
      kernels::window_axes(op, dims, x,
                           {with_depth(kernel, 1), with_depth(o.stride, 1),
                            with_depth(o.padding, 0), with_depth(o.dilation, 1), o.ceil_mode});
  const Tensor batch = with_batch(x, dims);
  const Pooled y = max_pool(
      dims == 3 ? "MaxPool3DWithIndicesBackward0" : "MaxPool2DWithIndicesBackward0", batch, axes);
  trace(dims == 3 ? "max_pool3d" : "max_pool2d", y.values, {batch}, std::pair(kernel, o));
  return without_batch(x, y);
}

template <class Sizes>
Tensor avg_pool(const char* op, const Tensor& x, const Sizes& kernel,
                const AvgPoolOptionsOf<Sizes>& o) {
  constexpr int dims = kDims<Sizes>;
  const Axes axes =
      kernels::window_axes(op, dims, x,
                           {with_depth(kernel, 1), with_depth(o.stride, 1),
                            with_depth(o.padding, 0), 1, o.ceil_mode, o.count_include_pad});
  const Tensor batch = with_batch(x, dims);
  const Tensor y = resample(dims == 3 ? "AvgPool3DBackward0" : "AvgPool2DBackward0", batch, axes);
  trace(dims == 3 ? "avg_pool3d" : "avg_pool2d", y, {batch}, std::pair(kernel, o));
  return without_batch(x, y);
}

// Returns the wanted size, or the size of dimension d of x. Tensors with fewer dimensions are
// refused later.
int64_t size_or_own(const Tensor& x, std::optional<int64_t> wanted, int d) {
  return wanted ? *wanted : x.dim() >= -d ? x.size(d) : 0;
}
Axes adaptive_axes(const char* op, const Tensor& x, const OutputSize& out) {
  return kernels::adaptive_axes(op, 2, x,
                                {1, size_or_own(x, out.h, -2), size_or_own(x, out.w, -1)});
}
Axes adaptive_axes(const char* op, const Tensor& x, const OutputSize3d& out) {
  return kernels::adaptive_axes(
      op, 3, x, {size_or_own(x, out.d, -3), size_or_own(x, out.h, -2), size_or_own(x, out.w, -1)});
}

// --- unpooling ---

Shape in_order(Pair p) { return {p.h, p.w}; }
Shape in_order(const Triple& t) { return {t.d, t.h, t.w}; }

// Formats "2, 3, 4".
std::string joined_text(const Shape& sizes) {
  std::string text;
  for (const int64_t n : sizes) text += concat_to_string(text.empty() ? "" : ", ", n);
  return text;
}

// Returns the shape of the result of unpooling x.
template <class Sizes>
Shape unpooled_shape(const char* op, const Tensor& x, const Sizes& kernel_size,
                     const MaxUnpoolOptionsOf<Sizes>& o) {
  const Shape kernel = in_order(kernel_size), stride = in_order(o.stride.value_or(kernel_size)),
              padding = in_order(o.padding), given = in_order(o.output_size.value_or(0));
  Shape shape = x.shape();
  for (int i = 0; i < kernel.size(); ++i) {
    const int d = x.dim() - kernel.size() + i;
    check_window_numbers(op, {kernel[i], stride[i], padding[i], x.size(d)});
    const int64_t usual = (x.size(d) - 1) * stride[i] + kernel[i] - 2 * padding[i];
    require<ValueError>(
        !o.output_size || (given[i] > usual - stride[i] && given[i] < usual + stride[i]),
        "invalid output_size \"(", joined_text(given), ")\"");
    shape[d] = o.output_size ? given[i] : usual;
  }
  const Shape size(shape.end() - kernel.size(), shape.end());
  for (const int64_t n : size) {
    require(n >= 1, op, ": the output size (", joined_text(size), ") must be positive");
  }
  return shape;
}

template <class Sizes>
Tensor max_unpool(const char* op, const Tensor& x, const Tensor& indices, const Sizes& kernel,
                  const MaxUnpoolOptionsOf<Sizes>& o) {
  constexpr int dims = kDims<Sizes>;
  require(indices.dtype() == kInt64,
          "elements in indices should be type int64 but got: ", scalar_type_name(indices.dtype()));
  require(x.dim() == dims + 1 || x.dim() == dims + 2, "Input to max_unpooling", dims,
          "d should be a ", dims + 1, "d or ", dims + 2, "d Tensor, but got a tensor with ",
          x.dim(), " dimensions");
  require(indices.shape() == x.shape(),
          "Expected shape of indices to be same as that of the input tensor (", x.shape(),
          ") but got indices tensor with shape: ", indices.shape());
  const Shape shape = unpooled_shape(op, x, kernel, o);
  const Tensor places = flatten(indices, -dims);
  const Tensor filled =
      scatter(flatten(zeros(shape, options_of(x)), -dims), -1, places, flatten(x.detach(), -dims));
  Tensor y = Tensor::make(filled.storage(), shape, contiguous_strides(shape),
                          filled.storage_offset(), x.dtype());
  // If two elements were written to one position, both receive its gradient, as in PyTorch.
  return linear_in(x, dims == 3 ? "MaxUnpool3DBackward0" : "MaxUnpool2DBackward0", y,
                   [places, from = x.shape()](const Tensor& dy) {
                     return reshape(gather(flatten(dy, -dims), -1, places), from);
                   });
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

void check_volumes(const char* op, const Tensor& x) {
  require(x.dim() == 4 || x.dim() == 5,
          "non-empty 4D or 5D (batch mode) tensor expected for input, but ", op, " got ",
          x.shape());
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
      x.dim() >= 3 && x.dim() <= 5, "Input Error: Only 3D, 4D and 5D input Tensors supported (got ",
      x.dim(), "D) for the modes: nearest | linear | bilinear | bicubic | trilinear | area (got ",
      mode, ")");
  const int wanted = any_rank                              ? x.dim()
                     : o.mode == Interpolation::kLinear    ? 3
                     : o.mode == Interpolation::kTrilinear ? 5
                                                           : 4;
  require<NotImplementedError>(x.dim() == wanted, "Got ", x.dim(), "D input, but ", mode,
                               " mode needs ", wanted, "D input");
  require(x.size(1) != 0 || o.mode == Interpolation::kArea, "Non-empty ", x.dim(),
          "D data tensor expected but got a tensor with sizes ", x.shape());
}

// Returns the size of the result. In one dimension, that is the width of a pair.
Triple size_of_result(const Tensor& x, const InterpolateOptions& o) {
  const int dims = x.dim() - 2;
  if (o.size) {
    const InterpolateSize& s = *o.size;
    const bool fits = s.count == 1 || s.count == dims || (dims == 1 && s.count == 2);
    require<ValueError>(fits,
                        "Input and output must have the same number of spatial dimensions, but got "
                        "input with spatial dimensions of ",
                        Shape(x.shape().begin() + 2, x.shape().end()), " and ", s.count,
                        " output sizes. Give one size, or one for each spatial dimension.");
    return {dims == 3 ? s.d : 1, dims == 1 ? 1 : s.h, s.w};
  }
  const auto scaled = [&](int from_last) {
    if (from_last > dims) return int64_t(1);
    const double wanted = std::floor(double(x.size(-from_last)) * *o.scale_factor);
    return wanted > 0 ? int64_t(std::min(wanted, 0x1p62)) : 0;
  };
  return {scaled(3), scaled(2), scaled(1)};
}

void check_sizes(const Tensor& x, const Triple& out) {
  const int dims = x.dim() - 2;
  const auto text = [dims](const Triple& t) {
    return concat_to_string(dims == 3 ? concat_to_string("D: ", t.d, ", ") : "",
                            dims > 1 ? concat_to_string("H: ", t.h, ", ") : "", "W: ", t.w);
  };
  const Triple in(dims == 3 ? x.size(-3) : 1, dims > 1 ? x.size(-2) : 1, x.size(-1));
  if (std::min({in.d, in.h, in.w, out.d, out.h, out.w}) > 0) return;
  throw Error("Input and output sizes should be greater than 0, but got input (", text(in),
              dims == 1 ? ") and output (" : ") output (", text(out), ")");
}

Tensor averaged_to(const Tensor& x, const Triple& size) {
  if (x.dim() == 5) return adaptive_avg_pool3d(x, size);
  return x.dim() == 3 ? adaptive_avg_pool1d(x, size.w) : adaptive_avg_pool2d(x, {size.h, size.w});
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
  return of_images(max_pool("max_pool1d", x.unsqueeze(-2), Pair(1, kernel_size), of_rows(options)));
}

Pooled max_pool3d_with_indices(const Tensor& x, const Triple& kernel_size,
                               const MaxPool3dOptions& options) {
  check_volumes("max_pool3d", x);
  return max_pool("max_pool3d", x, kernel_size, options);
}

Tensor max_pool3d(const Tensor& x, const Triple& kernel_size, const MaxPool3dOptions& options) {
  return max_pool3d_with_indices(x, kernel_size, options).values;
}

Tensor max_unpool2d(const Tensor& x, const Tensor& indices, Pair kernel_size,
                    const MaxUnpoolOptions& options) {
  return max_unpool("max_unpool2d", x, indices, kernel_size, options);
}

Tensor max_unpool3d(const Tensor& x, const Tensor& indices, const Triple& kernel_size,
                    const MaxUnpool3dOptions& options) {
  return max_unpool("max_unpool3d", x, indices, kernel_size, options);
}

Tensor avg_pool3d(const Tensor& x, const Triple& kernel_size, const AvgPool3dOptions& options) {
  check_volumes("avg_pool3d", x);
  return avg_pool("avg_pool3d", x, kernel_size, options);
}

Tensor avg_pool2d(const Tensor& x, Pair kernel_size, const AvgPoolOptions& options) {
  return avg_pool("avg_pool2d", x, kernel_size, options);
}

Tensor avg_pool1d(const Tensor& x, IntArg kernel_size, const AvgPoolOptions& options) {
  check_rows("avg_pool1d", x);
  return avg_pool("avg_pool1d", x.unsqueeze(-2), Pair(1, kernel_size), of_rows(options))
      .squeeze(-2);
}

Tensor adaptive_avg_pool2d(const Tensor& x, OutputSize output_size) {
  const Axes axes = adaptive_axes("adaptive_avg_pool2d", x, output_size);
  return traced("adaptive_avg_pool2d", resample("AdaptiveAvgPool2DBackward0", x, axes), {x});
}

Tensor adaptive_avg_pool3d(const Tensor& x, const OutputSize3d& output_size) {
  const Axes axes = adaptive_axes("adaptive_avg_pool3d", x, output_size);
  const Tensor batch = with_batch(x, 3);
  const Tensor y = resample("AdaptiveAvgPool3DBackward0", batch, axes);
  return without_batch(x, traced("adaptive_avg_pool3d", y, {batch}));
}

Tensor adaptive_avg_pool1d(const Tensor& x, IntArg output_size) {
  check_rows("adaptive_avg_pool1d", x);
  return adaptive_avg_pool2d(x.unsqueeze(-2), {1, output_size}).squeeze(-2);
}

Pooled adaptive_max_pool2d_with_indices(const Tensor& x, OutputSize output_size) {
  return max_pool("AdaptiveMaxPool2DBackward0", x,
                  adaptive_axes("adaptive_max_pool2d", x, output_size));
}

Pooled adaptive_max_pool3d_with_indices(const Tensor& x, const OutputSize3d& output_size) {
  const Axes axes = adaptive_axes("adaptive_max_pool3d", x, output_size);
  return without_batch(x, max_pool("AdaptiveMaxPool3DBackward0", with_batch(x, 3), axes));
}

Pooled adaptive_max_pool1d_with_indices(const Tensor& x, IntArg output_size) {
  check_rows("adaptive_max_pool1d", x);
  return of_images(adaptive_max_pool2d_with_indices(x.unsqueeze(-2), {1, output_size}));
}

Tensor adaptive_max_pool2d(const Tensor& x, OutputSize output_size) {
  return adaptive_max_pool2d_with_indices(x, output_size).values;
}

Tensor adaptive_max_pool3d(const Tensor& x, const OutputSize3d& output_size) {
  return adaptive_max_pool3d_with_indices(x, output_size).values;
}

Tensor adaptive_max_pool1d(const Tensor& x, IntArg output_size) {
  return adaptive_max_pool1d_with_indices(x, output_size).values;
}

Tensor interpolate(const Tensor& x, const InterpolateOptions& o) {
  if (autocasts(x) && o.mode != Interpolation::kArea) return in_float32(interpolate, x, o);
  check_interpolate(x, o);
  const bool rows = x.dim() == 3, volume = x.dim() == 5;
  const Triple size = size_of_result(x, o);
  if (o.mode == Interpolation::kArea) return averaged_to(x, size);
  check_sizes(x, size);
  const bool nearest = o.mode == Interpolation::kNearest, cubic = o.mode == Interpolation::kBicubic;
  const auto kind = nearest ? Axis::AxisKind::kNearest
                    : cubic ? Axis::AxisKind::kCubic
                            : Axis::AxisKind::kLinear;
  const char* name = nearest  ? volume ? "UpsampleNearest3DBackward0" : "UpsampleNearest2DBackward0"
                     : cubic  ? "UpsampleBicubic2DBackward0"
                     : volume ? "UpsampleTrilinear3DBackward0"
                              : "UpsampleBilinear2DBackward0";
  const Tensor images = rows ? x.unsqueeze(-2) : x;
  const Axes axes =
      kernels::scaled_axes(images, size, o.scale_factor, kind, o.align_corners.value_or(false));
  const Tensor y = traced("interpolate", resample(name, images, axes), {images}, o);
  return rows ? y.squeeze(-2) : y;
}

}  // namespace taper::v0
