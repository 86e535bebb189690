#include "framework/kernels/pool.h"

namespace taper::kernels {
namespace {

bool is_channels_last(const Tensor& x) {
  if (x.dim() != 4 || x.is_contiguous()) return false;
  const auto moved = [](const Shape& s) { return Shape{s[0], s[2], s[3], s[1]}; };
  return is_contiguous(moved(x.shape()), moved(x.strides()));
}

Tensor make(const Tensor& like, int64_t h, int64_t w, DType dtype, bool channels_last) {
  Shape shape = like.shape();
  shape[shape.size() - 2] = h;
  shape[shape.size() - 1] = w;
  Tensor out = Tensor::make(shape, dtype, like.device());
  const int64_t c = like.size(-3);
  if (channels_last) out.impl()->strides = {h * w * c, 1, w * c, c};
  return out;
}

void check_floating(const char* op, const Tensor& x) {
  if (x.is_floating_point()) return;
  throw NotImplementedError(
      cat("\"", op, "\" not implemented for '", scalar_type_name(x.dtype()), "'"));
}

// --- windows ---

struct Size {
  int64_t kernel, stride, padding, dilation;
};

void check_window(const Size& s) {
  if (s.stride == 0) throw Error("stride should not be zero");
  if (s.padding < 0) throw Error(cat("pad must be non-negative, but got pad: ", s.padding));
  if (s.padding > ((s.kernel - 1) * s.dilation + 1) / 2) {
    throw Error(cat("pad should be at most half of effective kernel size, but got pad=", s.padding,
                    ", kernel_size=", s.kernel, " and dilation=", s.dilation));
  }
}

void check_positive(const char* what, char letter, Pair p) {
  if (p.h > 0 && p.w > 0) return;
  const std::string name = letter ? std::string(1, letter) : what;
  throw Error(
      cat(what, " should be greater than zero, but got ", name, "H: ", p.h, " ", name, "W: ", p.w));
}

Axis window_axis(const Size& s, int64_t in, const Windows& windows) {
  const int64_t spare = in + 2 * s.padding - s.dilation * (s.kernel - 1) - 1;
  const int64_t rounded = spare + (windows.ceil_mode ? s.stride - 1 : 0);
  int64_t out = rounded < 0 ? 0 : rounded / s.stride + 1;
  // The last window starts within the input or the padding before it.
  if (windows.ceil_mode && (out - 1) * s.stride >= in + s.padding) --out;
  return {.kind = Axis::Kind::window,
          .count_include_pad = windows.count_include_pad,
          .in = in,
          .out = out,
          .kernel = s.kernel,
          .stride = s.stride,
          .padding = s.padding,
          .dilation = s.dilation};
}

}  // namespace

Axes window_axes(const char* op, const Tensor& x, const Windows& p) {
  check_floating(op, x);
  const Pair stride = p.stride.value_or(p.kernel);
  const Size h{p.kernel.h, stride.h, p.padding.h, p.dilation.h},
      w{p.kernel.w, stride.w, p.padding.w, p.dilation.w};
  check_window(h);
  check_window(w);
  check_positive("kernel size", 'k', p.kernel);
  check_positive("stride", 'd', stride);
  check_positive("dilation", 0, p.dilation);
  const int64_t c = x.dim() < 3 ? 0 : x.size(-3);
  if ((x.dim() != 3 && x.dim() != 4) || c == 0 || x.size(-2) == 0 || x.size(-1) == 0) {
    throw Error(
        cat("Expected 3D or 4D (batch mode) tensor with optional 0 dim batch size for "
            "input, but got:",
            x.shape(), " (in ", op, ")"));
  }
  const Axes axes{window_axis(h, x.size(-2), p), window_axis(w, x.size(-1), p),
                  is_channels_last(x)};
  if (axes.h.out < 1 || axes.w.out < 1) {
    throw Error(cat("Given input size: (", c, "x", axes.h.in, "x", axes.w.in,
                    "). Calculated output size: (", c, "x", axes.h.out, "x", axes.w.out,
                    "). Output size is too small (in ", op, ")"));
  }
  return axes;
}

Axes adaptive_axes(const Tensor& x, Pair out) {
  check_floating("adaptive_avg_pool2d", x);
  if (x.dim() != 3 && x.dim() != 4) {
    throw Error(cat("adaptive_avg_pool2d(): Expected 3D or 4D tensor, but got ", x.shape()));
  }
  if (out.h < 0 || out.w < 0) {
    throw Error(
        cat("adaptive_avg_pool2d: elements of output_size must be greater than or equal to "
            "0 but received {",
            out.h, ", ", out.w, "}"));
  }
  for (int d = x.dim() - 2; d < x.dim(); ++d) {
    if (x.size(d) > 0) continue;
    throw Error(
        cat("adaptive_avg_pool2d(): Expected input to have non-zero size for non-batch "
            "dimensions, but input has sizes ",
            x.shape(), " with dimension ", d, " being empty"));
  }
  const auto axis = [](int64_t in, int64_t to) {
    return Axis{.kind = Axis::Kind::adaptive, .in = in, .out = to};
  };
  return {axis(x.size(-2), out.h), axis(x.size(-1), out.w), is_channels_last(x)};
}

Axes scaled_axes(const Tensor& x, Pair out, std::optional<double> scale_factor, Axis::Kind kind,
                 bool align_corners) {
  check_floating(kind == Axis::Kind::nearest ? "upsample_nearest2d" : "upsample_bilinear2d", x);
  const auto axis = [&](int64_t in, int64_t to) {
    double scale = scale_factor ? 1 / *scale_factor : double(in) / double(to);
    if (align_corners) scale = to > 1 ? double(in - 1) / double(to - 1) : 0;
    return Axis{.kind = kind, .align_corners = align_corners, .in = in, .out = to, .scale = scale};
  };
  return {axis(x.size(-2), out.h), axis(x.size(-1), out.w), is_channels_last(x)};
}

Tensor resample(const Tensor& x, const Axes& axes, bool transposed) {
  const Axis &h = axes.h, &w = axes.w;
  const Tensor y =
      make(x, transposed ? h.in : h.out, transposed ? w.in : w.out, x.dtype(), axes.channels_last);
  if (y.numel() == 0) return y;
  on_device<PoolKernels>(x.device(), [&](auto k) { k.resample(y, x, axes, transposed); });
  return y;
}

MaxPool max_pool(const Tensor& x, const Axes& axes) {
  const auto result = [&](DType dtype) {
    return make(x, axes.h.out, axes.w.out, dtype, axes.channels_last);
  };
  const MaxPool out{result(x.dtype()), result(kInt64)};
  if (out.y.numel() == 0) return out;
  on_device<PoolKernels>(x.device(), [&](auto k) { k.max_pool(out.y, out.index, x, axes); });
  return out;
}

Tensor max_pool_backward(const Tensor& dy, const Tensor& index, const Axes& axes) {
  const Tensor dx = make(dy, axes.h.in, axes.w.in, dy.dtype(), axes.channels_last);
  if (dx.numel() == 0) return dx;
  on_device<PoolKernels>(dy.device(), [&](auto k) { k.max_pool_backward(dx, dy, index, axes); });
  return dx;
}

Tensor max_pool_take(const Tensor& x, const Tensor& index) {
  const Tensor y = Tensor::make(index.shape(), x.dtype(), x.device());
  y.impl()->strides = index.strides();
  if (y.numel() == 0) return y;
  on_device<PoolKernels>(x.device(), [&](auto k) { k.max_pool_take(y, x, index); });
  return y;
}

}  // namespace taper::kernels
