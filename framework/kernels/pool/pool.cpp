#include "framework/kernels/pool/pool.h"

#include <limits>

#include "framework/kernels/elementwise/copy.h"
#include "framework/kernels/reduce/reduce.h"
#include "framework/profiler/trace.h"

namespace taper::v0::kernels {
namespace {

bool is_channels_last(const Tensor& x) { return x.dim() == 4 && has_channels_last(x); }

// Returns the strides of results: channels-last for [N, C, H, W], or row-major.
Shape strides_of(const Shape& shape, const Axes& axes) {
  if (!axes.channels_last) return contiguous_strides(shape);
  const int64_t c = shape[1], w = shape[3] * c;
  return {shape[2] * w, 1, w, c};
}

// Returns the shape with the spatial sizes of the outputs or, if `transposed`, of the inputs.
Shape shape_of(Shape shape, const Axes& axes, bool transposed = false) {
  const auto side = transposed ? &Axis::in : &Axis::out;
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

void check_positive(const char* what, const char* letter, Pair p) {
  require(p.h > 0 && p.w > 0, what, " should be greater than zero, but got ", letter, "H: ", p.h,
          " ", letter, "W: ", p.w);
}

Axis window_axis(int64_t in, const Windows& windows, int64_t Pair::*side) {
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

}  // namespace

Axes window_axes(const char* op, const Tensor& x, const Windows& p) {
  check_floating(op, x);
  const int64_t c = x.dim() < 3 ? 0 : x.size(-3);
  require((x.dim() == 3 || x.dim() == 4) && c != 0 && x.size(-2) != 0 && x.size(-1) != 0,
          "Expected 3D or 4D (batch mode) tensor with optional 0 dim batch size for "
          "input, but got:",
          x.shape(), " (in ", op, ")");
  const Pair stride = p.stride.value_or(p.kernel);
  check_window_numbers(op, {p.kernel.h, p.kernel.w, stride.h, stride.w, p.padding.h, p.padding.w,
                            p.dilation.h, p.dilation.w});
  const Axes axes{window_axis(x.size(-2), p, &Pair::h), window_axis(x.size(-1), p, &Pair::w),
                  is_channels_last(x)};
  check_positive("kernel size", "k", p.kernel);
  check_positive("stride", "d", stride);
  check_positive("dilation", "dilation", p.dilation);
  require(axes.h.out >= 1 && axes.w.out >= 1, "Given input size: (", c, "x", axes.h.in, "x",
          axes.w.in, "). Calculated output size: (", c, "x", axes.h.out, "x", axes.w.out,
          "). Output size is too small (in ", op, ")");
  return axes;
}

Axes adaptive_axes(const char* op, const Tensor& x, Pair out) {
  check_floating(op, x);
  require(x.dim() == 3 || x.dim() == 4, op, "(): Expected 3D or 4D tensor, but got ", x.shape());
  require(out.h >= 0 && out.w >= 0, op,
          ": elements of output_size must be greater than or equal to 0 but received {", out.h,
          ", ", out.w, "}");
  for (int d = x.dim() - 2; d < x.dim(); ++d) {
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
  return {axis(x.size(-2), out.h), axis(x.size(-1), out.w), is_channels_last(x)};
}

Axes scaled_axes(const Tensor& x, Pair out, std::optional<double> scale_factor, Axis::AxisKind kind,
                 bool align_corners) {
  check_floating(kind == Axis::AxisKind::kNearest  ? "upsample_nearest2d"
                 : kind == Axis::AxisKind::kLinear ? "upsample_bilinear2d"
                                                   : "upsample_bicubic2d",
                 x);
  const auto axis = [&](int64_t in, int64_t to) {
    double scale = scale_factor ? 1 / *scale_factor : double(in) / double(to);
    if (align_corners) scale = to > 1 ? double(in - 1) / double(to - 1) : 0;
    return Axis{.kind = kind, .align_corners = align_corners, .in = in, .out = to, .scale = scale};
  };
  return {axis(x.size(-2), out.h), axis(x.size(-1), out.w), is_channels_last(x)};
}

bool slides(const Axis& a) {
  const int64_t farthest = a.in + a.padding + a.stride + (a.kernel - 1) * a.dilation;
  if (farthest > std::numeric_limits<int>::max()) return false;
  return a.kind == Axis::AxisKind::kWindow ||
         (a.kind == Axis::AxisKind::kAdaptive && a.in % a.out == 0);
}

Tensor in_format(const Tensor& x, const Axes& axes) {
  const Shape &size = x.shape(), &step = x.strides();
  const bool fits = axes.channels_last ? is_contiguous({size[0], size[2], size[3], size[1]},
                                                       {step[0], step[2], step[3], step[1]})
                                       : x.is_contiguous();
  const bool aligned = reinterpret_cast<uintptr_t>(x.data_ptr()) % 16 == 0;
  if (fits && aligned) return x;
  const Tensor out = make(size, x.dtype(), x, axes);
  copy_into(out, x);
  return out;
}

Tensor resample(const Tensor& x, const Axes& axes, bool transposed) {
  const Axis &h = axes.h, &w = axes.w;
  const Shape shape = shape_of(x.shape(), axes, transposed);
  // If every window is contiguous in memory, the mean is a reduction of rows.
  if (!transposed && shape.numel() > 0 && h.kind == Axis::AxisKind::kAdaptive && slides(h) &&
      slides(w) && (w.out == 1 || h.in == 1)) {
    const int64_t c = axes.channels_last ? x.size(1) : 1, n = h.in / h.out * (w.in / w.out);
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
  trace("max_pool2d_with_indices", out.index, {x});
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
