#include "framework/kernels/pool/pool.h"

#include <limits>

#include "framework/kernels/common/channels_last.h"
#include "framework/kernels/elementwise/copy.h"
#include "framework/kernels/reduce/reduce.h"
#include "framework/profiler/trace.h"

namespace taper::v0::kernels {
namespace {

bool is_volume(const Tensor& x) { return x.dim() == 5; }
bool is_channels_last(const Tensor& x, int dims) {
  return x.dim() == dims + 2 && has_channels_last(x);
}

// Returns the strides of results: channels-last for [N, C, ...], or row-major.
Shape strides_of(const Shape& shape, const Axes& axes) {
  if (!axes.channels_last) return contiguous_strides(shape);
  return with_channels_second(contiguous_strides(with_channels_last(shape)));
}

// Returns the shape with the spatial sizes of the outputs or, if `transposed`, of the inputs.
Shape shape_of(Shape shape, const Axes& axes, bool transposed = false) {
  const auto side = transposed ? &Axis::in : &Axis::out;
  if (shape.size() == 5) shape[2] = axes.d.*side;
  shape[shape.size() - 2] = axes.h.*side;
  shape[shape.size() - 1] = axes.w.*side;
  return shape;
}

Tensor filled_with_zeros(const Tensor& x) {
  fill(x, 0);
  return x;
}
Tensor make(const Shape& shape, DType dtype, const Tensor& like, const Axes& axes) {
  Tensor out = Tensor::make(shape, dtype, like.device());
  out.impl()->strides = strides_of(shape, axes);
  return out;
}

// --- windows ---

// Formats "kT: 1 kH: 2 kW: 3" for the prefix "k". Images have no T.
std::string sizes_text(const std::string& prefix, int dims, const Triple& t) {
  const std::string depth = dims == 3 ? concat_to_string(prefix, "T: ", t.d, " ") : "";
  return concat_to_string(depth, prefix, "H: ", t.h, " ", prefix, "W: ", t.w);
}
// Formats "(2x3x4)": the channels and the spatial sizes.
std::string product_text(int64_t channels, int dims, const Triple& t) {
  const std::string depth = dims == 3 ? concat_to_string(t.d, "x") : "";
  return concat_to_string("(", channels, "x", depth, t.h, "x", t.w, ")");
}

bool at_least(const Triple& t, int64_t least) {
  return t.d >= least && t.h >= least && t.w >= least;
}

void check_positive(const char* what, const char* letter, int dims, const Triple& t) {
  if (at_least(t, 1)) return;
  throw Error(what, " should be greater than zero, but got ", sizes_text(letter, dims, t));
}

Axis window_axis(int64_t in, const Windows& windows, int64_t Triple::*side) {
  Axis a{.kind = Axis::AxisKind::kWindow,
         .count_include_pad = windows.count_include_pad,
         .in = in,
         .kernel = windows.kernel.*side,
         .stride = windows.stride.value_or(windows.kernel).*side,
         .padding = windows.padding.*side,
         .dilation = windows.dilation.*side};
  if (a.stride == 0) throw Error("stride should not be zero");
  if (a.padding < 0) throw Error("pad must be non-negative, but got pad: ", a.padding);
  const int64_t effective = (a.kernel - 1) * a.dilation + 1;
  require(a.padding <= effective / 2,
          "pad should be at most half of effective kernel size, but got pad=", a.padding,
          ", kernel_size=", a.kernel, " and dilation=", a.dilation);
  const int64_t last = in + 2 * a.padding - effective + (windows.ceil_mode ? a.stride - 1 : 0);
  a.out = last < 0 ? 0 : last / a.stride + 1;
  // The last window must start within the input or the padding before it.
  if (windows.ceil_mode && (a.out - 1) * a.stride >= in + a.padding) --a.out;
  return a;
}

Triple spatial_sizes(const Tensor& x, int dims) {
  return {dims == 3 ? x.size(-3) : 1, x.size(-2), x.size(-1)};
}

void check_window_input(const char* op, int dims, const Tensor& x) {
  check_floating(op, x);
  if (dims == 2) {
    require((x.dim() == 3 || x.dim() == 4) && x.size(-3) != 0 && x.size(-2) != 0 && x.size(-1) != 0,
            "Expected 3D or 4D (batch mode) tensor with optional 0 dim batch size for "
            "input, but got:",
            x.shape(), " (in ", op, ")");
    return;
  }
  for (int d = x.dim() - dims - 1; d < x.dim(); ++d) {
    require(x.size(d) > 0, op,
            "(): Expected input's non-batch dimensions to have positive length, but input has a "
            "shape of ",
            x.shape(), " and dimension ", d, " has length zero!");
  }
}

bool slides(const Axis& a) {
  const int64_t farthest = a.in + a.padding + a.stride + (a.kernel - 1) * a.dilation;
  if (farthest > std::numeric_limits<int>::max()) return false;
  return a.kind == Axis::AxisKind::kWindow ||
         (a.kind == Axis::AxisKind::kAdaptive && a.in % a.out == 0);
}

// Returns whether every adaptive window is contiguous in memory. Windows of depth 1 are those of
// separate images.
bool windows_are_contiguous(const Axes& axes) {
  const Axis &d = axes.d, &h = axes.h, &w = axes.w;
  if (h.kind != Axis::AxisKind::kAdaptive || !slides(d) || !slides(h) || !slides(w)) return false;
  return d.in == d.out ? w.out == 1 || h.in == 1 : w.out == 1 && h.out == 1;
}

}  // namespace

Axes window_axes(const char* op, int dims, const Tensor& x, const Windows& p) {
  check_window_input(op, dims, x);
  const Triple k = p.kernel, stride = p.stride.value_or(k), in = spatial_sizes(x, dims);
  check_window_numbers(op, {k.d, k.h, k.w, stride.d, stride.h, stride.w, p.padding.d, p.padding.h,
                            p.padding.w, p.dilation.d, p.dilation.h, p.dilation.w});
  const Axes axes{window_axis(in.d, p, &Triple::d), window_axis(in.h, p, &Triple::h),
                  window_axis(in.w, p, &Triple::w), is_channels_last(x, dims)};
  check_positive("kernel size", "k", dims, k);
  check_positive("stride", "d", dims, stride);
  check_positive("dilation", "dilation", dims, p.dilation);
  const Triple out{axes.d.out, axes.h.out, axes.w.out};
  if (at_least(out, 1)) return axes;
  const int64_t c = x.size(-dims - 1);
  throw Error("Given input size: ", product_text(c, dims, in),
              ". Calculated output size: ", product_text(c, dims, out),
              ". Output size is too small (in ", op, ")");
}

Axes adaptive_axes(const char* op, int dims, const Tensor& x, const Triple& out) {
  check_floating(op, x);
  require(x.dim() == dims + 1 || x.dim() == dims + 2, op, "(): Expected ", dims + 1, "D or ",
          dims + 2, "D tensor, but got ", x.shape());
  if (!at_least(out, 0)) {
    throw Error(op, ": elements of output_size must be greater than or equal to 0 but received {",
                dims == 3 ? concat_to_string(out.d, ", ") : "", out.h, ", ", out.w, "}");
  }
  for (int d = x.dim() - dims; d < x.dim(); ++d) {
    require(x.size(d) > 0, op,
            "(): Expected input to have non-zero size for non-batch dimensions, ",
            "but input has sizes ", x.shape(), " with dimension ", d, " being empty");
  }
  const auto axis = [](int64_t in, int64_t to) {
    return Axis{.kind = Axis::AxisKind::kAdaptive,
                .in = in,
                .out = to,
                .kernel = to > 0 ? (in - 1) / to + 2 : 1};
  };
  const Triple in = spatial_sizes(x, dims);
  return {axis(in.d, out.d), axis(in.h, out.h), axis(in.w, out.w), is_channels_last(x, dims)};
}

Axes scaled_axes(const Tensor& x, const Triple& out, std::optional<double> scale_factor,
                 Axis::AxisKind kind, bool align_corners) {
  const bool volume = is_volume(x);
  check_floating(
      kind == Axis::AxisKind::kNearest  ? volume ? "upsample_nearest3d" : "upsample_nearest2d"
      : kind == Axis::AxisKind::kLinear ? volume ? "upsample_trilinear3d" : "upsample_bilinear2d"
                                        : "upsample_bicubic2d",
      x);
  const auto axis = [&](int64_t in, int64_t to) {
    double scale = scale_factor ? 1 / *scale_factor : double(in) / double(to);
    if (align_corners) scale = to > 1 ? double(in - 1) / double(to - 1) : 0;
    return Axis{.kind = kind, .align_corners = align_corners, .in = in, .out = to, .scale = scale};
  };
  return {volume ? axis(x.size(2), out.d) : Axis{}, axis(x.size(-2), out.h),
          axis(x.size(-1), out.w), is_channels_last(x, x.dim() - 2)};
}

bool slides(const Axes& axes) { return slides(axes.d) && slides(axes.h) && slides(axes.w); }

Tensor in_format(const Tensor& x, const Axes& axes) {
  const bool fits = axes.channels_last ? is_contiguous(with_channels_last(x.shape()),
                                                       with_channels_last(x.strides()))
                                       : x.is_contiguous();
  const bool aligned = reinterpret_cast<uintptr_t>(x.data_ptr()) % 16 == 0;
  if (fits && aligned) return x;
  const Tensor out = make(x.shape(), x.dtype(), x, axes);
  copy_into(out, x);
  return out;
}

Tensor as_images(const Tensor& x) {
  if (!is_volume(x)) return x;
  const Shape &n = x.shape(), &step = x.strides();
  const int64_t row = n[3] == 1 ? step[2] : step[3];
  return view_as(x, {n[0], n[1], n[2] * n[3], n[4]}, {step[0], step[1], row, step[4]},
                 x.storage_offset());
}

Tensor resample(const Tensor& x, const Axes& axes, bool transposed) {
  const Shape shape = shape_of(x.shape(), axes, transposed);
  // If every window is contiguous in memory, the mean is a reduction of rows.
  if (!transposed && shape.numel() > 0 && windows_are_contiguous(axes)) {
    const int64_t c = axes.channels_last ? x.size(1) : 1, n = x.numel() / shape.numel();
    const Shape runs{x.numel() / (n * c), n, c};
    const Tensor from = in_format(x, axes);
    const Tensor means =
        reduce(ReductionOp::kMean,
               view_as(from, runs, contiguous_strides(runs), from.storage_offset()), {1});
    return view_as(means, shape, strides_of(shape, axes), 0);
  }
  const Tensor y = make(shape, x.dtype(), x, axes);
  if (y.numel() == 0) return y;
  // The result is empty, so its gradient is 0. The other axis may have any length.
  if (x.numel() == 0) return filled_with_zeros(y);
  on_device<PoolKernels>(x.device(), [&](auto k) { k.resample(y, x, axes, transposed); });
  return y;
}

MaxPool max_pool(const Tensor& x, const Axes& axes) {
  const Shape shape = shape_of(x.shape(), axes);
  const MaxPool out{make(shape, x.dtype(), x, axes), make(shape, kInt64, x, axes)};
  if (out.y.numel() == 0) return out;
  on_device<PoolKernels>(x.device(), [&](auto k) { k.max_pool(out.y, out.index, x, axes); });
  trace(is_volume(x) ? "max_pool3d_with_indices" : "max_pool2d_with_indices", out.index, {x});
  return out;
}

Tensor max_pool_backward(const Tensor& dy, const Tensor& index, const Axes& axes) {
  const Tensor dx = make(shape_of(dy.shape(), axes, true), dy.dtype(), dy, axes);
  if (dx.numel() == 0) return dx;
  if (dy.numel() == 0) return filled_with_zeros(dx);
  on_device<PoolKernels>(dy.device(), [&](auto k) { k.max_pool_backward(dx, dy, index, axes); });
  return dx;
}

}  // namespace taper::v0::kernels
