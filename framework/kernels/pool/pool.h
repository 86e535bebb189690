// Pooling and interpolation of the last two dimensions of [N, C, H, W] or [C, H, W].
#pragma once

#include <optional>

#include "framework/kernels/common/dispatch.h"
#include "framework/tensor/tensor.h"

namespace taper::v0::kernels {

// Which inputs and outputs of one spatial dimension belong together: windows that slide, windows
// that share out the input, the nearest input, or the two or four inputs around a point between
// them.
struct Axis {
  enum class Kind : uint8_t { window, adaptive, nearest, linear, cubic };
  Kind kind = Kind::nearest;
  bool count_include_pad = false, align_corners = false;
  int64_t in = 1, out = 1;
  int64_t kernel = 1, stride = 1, padding = 0, dilation = 1;  // adaptive: the largest kernel
  double scale = 1;  // nearest, linear, cubic: the step in the input from one output to the next
};

struct Axes {
  Axis h, w;
  bool channels_last = false;  // the memory format of results
};

// Whether windows slide, over places that int counts; adaptive ones of one size do.
bool slides(const Axis& a);
// x where it lies densely in the memory format of results, at a multiple of 16 bytes, else such a
// copy.
Tensor in_format(const Tensor& x, const Axes& axes);

// The windows of a pooling op, checked in PyTorch's words; stride is the kernel size by default.
struct Windows {
  Pair kernel;
  std::optional<Pair> stride;
  Pair padding, dilation = 1;
  bool ceil_mode = false, count_include_pad = true;
};
Axes window_axes(const char* op, const Tensor& x, const Windows& windows);
Axes adaptive_axes(const char* op, const Tensor& x, Pair out);
// scale_factor: undefined where the sizes alone say the scale.
Axes scaled_axes(const Tensor& x, Pair out, std::optional<double> scale_factor, Axis::Kind kind,
                 bool align_corners);

// Floating dtypes; x has any strides. The mean of each window, or the interpolated value.
// Transposed: from the outputs' side to the inputs', which is the gradient.
Tensor resample(const Tensor& x, const Axes& axes, bool transposed = false);

// Of windows and adaptive ones: the largest element of each (nan wins) and its place in the plane h
// * W + w (int64); -1 for a window that met no input.
struct MaxPool {
  Tensor y, index;
};
MaxPool max_pool(const Tensor& x, const Axes& axes);
// dx from dy.
Tensor max_pool_backward(const Tensor& dy, const Tensor& index, const Axes& axes);

template <class Backend> struct PoolKernels {
  static void resample(const Tensor& y, const Tensor& x, const Axes& axes, bool transposed);
  static void max_pool(const Tensor& y, const Tensor& index, const Tensor& x, const Axes& axes);
  static void max_pool_backward(const Tensor& dx, const Tensor& dy, const Tensor& index,
                                const Axes& axes);
};

}  // namespace taper::v0::kernels
