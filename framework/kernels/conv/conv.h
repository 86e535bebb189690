// Convolutions (cross-correlations) with one, two or three spatial dimensions, and their gradients.
//
// Shapes are logical, [N, C, D, H, W]. The computation uses channels-last memory, and results with
// the shape of x or y are returned in it. x, weight and dy may have any layout.
#pragma once

#include <compare>

#include "framework/base/host_device.h"
#include "framework/kernels/common/dispatch.h"
#include "framework/tensor/tensor.h"

namespace taper::v0::kernels {

// Where the windows of a convolution are. A convolution with fewer than three spatial dimensions
// uses the last numbers of each Triple; the others keep their defaults.
struct ConvWindows {
  Triple stride = 1, padding = 0, dilation = 1;
  int64_t groups = 1;
};

// Convolves x [N, C, D, H, W] with weight [O, C / groups, kd, kh, kw] and adds bias [O] if it is
// defined. x and weight may lack D, or D and H. Returns [N, O, out...], where
//
//   out = (in + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1,
//
// after applying relu if requested. Floating dtypes only; half types multiply and accumulate in
// float. Throws Error, with PyTorch's message, for other arguments. `op` names the caller.
Tensor conv(const char* op, const Tensor& x, const Tensor& weight, const Tensor& bias,
            const ConvWindows& options, bool relu = false);
// Return the gradients of x and of weight (row-major) from dy. The caller has checked the shapes.
Tensor conv_dx(const Tensor& dy, const Tensor& weight, const Shape& x, const ConvWindows& options);
Tensor conv_dweight(const Tensor& dy, const Tensor& x, const Shape& weight,
                    const ConvWindows& options);
// Returns the shape of a transposed convolution's result. x has the shape of the ordinary
// convolution's y. For weight [C, O / groups, kernel...] and bias [O],
//
//   out = (in - 1) * stride - 2 * padding + dilation * (kernel - 1) + output_padding + 1.
//
// Throws the errors of `conv`.
Shape conv_transpose_shape(const char* op, const Tensor& x, const Tensor& weight,
                           const Tensor& bias, const ConvWindows& options,
                           const Triple& output_padding);

// Sums overlapping windows, given as columns [N, C * kh * kw, windows] (floating), at their
// positions in row-major images of shape x [N, C, H, W]. The caller has checked the sizes.
Tensor fold(const Tensor& columns, const Shape& x, Pair kernel, const ConvWindows& options);

struct ConvAxis {
  int64_t in, kernel, out, stride, padding, dilation;
  auto operator<=>(const ConvAxis&) const = default;
};
// The axis of a spatial dimension that a convolution does not have.
inline constexpr ConvAxis kNoConvAxis{1, 1, 1, 1, 0, 1};
struct ConvSizes {
  int64_t n, c, o, groups;
  ConvAxis d, h, w;
  auto operator<=>(const ConvSizes&) const = default;
  bool is_3d() const { return d != kNoConvAxis; }
  int64_t pixels() const { return d.out * h.out * w.out; }        // of one image of y
  TAPER_HD int64_t inputs() const { return d.in * h.in * w.in; }  // pixels of one image of x
  TAPER_HD int64_t positions() const { return d.kernel * h.kernel * w.kernel; }  // of the kernel
  // Returns the number of products that are summed for one element of y.
  int64_t depth() const { return c / groups * positions(); }
};

// Which of the three tensors is computed from the two others.
enum class ConvPass : uint8_t { kY, kDx, kDWeight };
// The dense tensors of a convolution: x [N, D, H, W, C], weight [O, kd, kh, kw, C / groups], y [N,
// out d, out h, out w, O]. Spatial dimensions of size 1 may be missing or merged. When y is
// computed, bias [O] is added if it is defined, and then negative elements are set to 0 if relu.
// On a GPU, the weight from which y is computed may have any strides; conv_fma() accepts them.
struct ConvTensors {
  Tensor x, weight, y, bias = {};
  bool relu = false;
};

// These functions return false without writing anything if they do not support the convolution.
namespace cpu {
// Uses oneDNN. Ignores relu, which the caller applies.
bool conv(ConvPass pass, const ConvSizes& s, const ConvTensors& t);
}  // namespace cpu
namespace cuda {
// Uses cuDNN.
bool conv(ConvPass pass, const ConvSizes& s, const ConvTensors& t);
// Uses Taper's own float32 kernels, without TF32. Returns false without writing anything if TF32 is
// allowed, for groups, and for sizes that the kernels do not support.
bool conv_fma(ConvPass pass, const ConvSizes& s, const ConvTensors& t);
// Uses matrix products, for half types and sizes for which cuDNN has no fast algorithm.
bool conv_by_rows(ConvPass pass, const ConvSizes& s, const ConvTensors& t);
// Adds t.bias if it is defined and applies t.relu, in place in t.y.
void add_bias(const ConvTensors& t);
}  // namespace cuda

// Helpers that turn a convolution into matrix products. A row of `columns`
// [images * pixels, groups, depth] contains the inputs of one output pixel, ordered by kernel
// position and then by channel. Padding is stored as zeros.
template <class Backend> struct ConvKernels {
  // Writes the columns of images [first, first + images) of x.
  static void unfold(const Tensor& columns, const Tensor& x, const ConvSizes& s, int64_t first,
                     int64_t images);
  // The transpose of unfold: sets every element of these images to the sum of its columns, in a
  // fixed order.
  static void fold(const Tensor& x, const Tensor& columns, const ConvSizes& s, int64_t first,
                   int64_t images);
};

}  // namespace taper::v0::kernels
