// Pooling and interpolation of the spatial dimensions of images, [N, C, H, W] or [C, H, W], and of
// volumes [N, C, D, H, W].
#pragma once

#include <optional>

#include "framework/kernels/common/dispatch.h"
#include "framework/tensor/tensor.h"

namespace taper::v0::kernels {

// How the inputs and outputs along one spatial dimension correspond. The kinds are sliding windows,
// windows that divide the input, the nearest input, and the two or four inputs around a point.
struct Axis {
  enum class AxisKind : uint8_t { kWindow, kAdaptive, kNearest, kLinear, kCubic };
  AxisKind kind = AxisKind::kNearest;
  bool count_include_pad = false, align_corners = false;
  int64_t in = 1, out = 1;
  int64_t kernel = 1, stride = 1, padding = 0, dilation = 1;  // adaptive: the largest kernel
  double scale = 1;  // nearest, linear, cubic: distance in the input between adjacent outputs
};

// Images have depth 1, and their d is an identity.
struct Axes {
  Axis d = {}, h = {}, w = {};
  bool channels_last = false;  // memory format of the results
};

// Returns whether all windows of each axis have the same size and distance, and their positions fit
// in an int. This holds for sliding windows and may hold for adaptive ones.
bool slides(const Axes& axes);
// Returns x itself if it is dense in the memory format of the results and aligned to 16 bytes, and
// otherwise a copy that is.
Tensor in_format(const Tensor& x, const Axes& axes);
// Returns a view of volumes [N, C, D, H, W], dense in one of the two formats, as images [N, C, D *
// H, W]. Returns images themselves.
Tensor as_images(const Tensor& x);

// The windows of a pooling op. Invalid values throw PyTorch's messages. stride defaults to the
// kernel size. Windows of images have depth 1.
struct Windows {
  Triple kernel;
  std::optional<Triple> stride;
  Triple padding, dilation = 1;
  bool ceil_mode = false, count_include_pad = true;
};
// Return the axes of pooling x, whose last `dims` (2 or 3) dimensions are spatial.
Axes window_axes(const char* op, int dims, const Tensor& x, const Windows& windows);
Axes adaptive_axes(const char* op, int dims, const Tensor& x, const Triple& out);
// Returns the axes of an interpolation of x, images or volumes. If scale_factor is not given, the
// sizes determine the scale.
Axes scaled_axes(const Tensor& x, const Triple& out, std::optional<double> scale_factor,
                 Axis::AxisKind kind, bool align_corners);

// Returns the mean of each window, or the interpolated values. Floating dtypes only; x may have any
// strides. If `transposed`, maps from the outputs to the inputs, which computes the gradient.
Tensor resample(const Tensor& x, const Axes& axes, bool transposed = false);

// Returned for sliding and adaptive windows: the largest element of each window (NaN takes
// precedence) and its int64 position (d * H + h) * W + w in the channel. The position is -1 for a
// window without elements.
struct MaxPool {
  Tensor y, index;
};
MaxPool max_pool(const Tensor& x, const Axes& axes);
// Returns dx from dy.
Tensor max_pool_backward(const Tensor& dy, const Tensor& index, const Axes& axes);

template <class Backend> struct PoolKernels {
  static void resample(const Tensor& y, const Tensor& x, const Axes& axes, bool transposed);
  static void max_pool(const Tensor& y, const Tensor& index, const Tensor& x, const Axes& axes);
  static void max_pool_backward(const Tensor& dx, const Tensor& dy, const Tensor& index,
                                const Axes& axes);
};

}  // namespace taper::v0::kernels
