// Convolutions (cross-correlations) of one or two spatial dimensions, and their gradients.
//
// Shapes are logical, [N, C, H, W]; the work is done in channels-last memory, and results that have
// x's or y's shape come back in it. x, weight and dy may have any layout.
#pragma once

#include <compare>

#include "framework/kernels/common/dispatch.h"
#include "framework/tensor/tensor.h"

namespace taper::v0::kernels {

// How the windows of a convolution lie; of one dimension, the w.
struct ConvWindows {
  Pair stride = 1, padding = 0, dilation = 1;
  int64_t groups = 1;
};

// x [N, C, H, W], weight [O, C / groups, kh, kw], bias [O] or undefined; without the H dimension,
// x [N, C, L] and weight [O, C / groups, k]. Gives [N, O, out...] with
//   out = (in + 2 padding - dilation (kernel - 1) - 1) / stride + 1.
// and of that, if wanted, the positive part. Floating dtypes; half types multiply and add in float.
// Refuses the rest in PyTorch's words, where `op` names the caller.
Tensor conv(const char* op, const Tensor& x, const Tensor& weight, const Tensor& bias,
            const ConvWindows& options, bool relu = false);
// The gradients of x and of weight (row-major), from the gradient of y. The shapes are checked
// ones.
Tensor conv_dx(const Tensor& dy, const Tensor& weight, const Shape& x, const ConvWindows& options);
Tensor conv_dweight(const Tensor& dy, const Tensor& x, const Shape& weight,
                    const ConvWindows& options);
// The shape of a transposed convolution's result, for which x has the shape of that convolution's
// y:
//   out = (in - 1) stride - 2 padding + dilation (kernel - 1) + output_padding + 1
// for weight [C, O / groups, kernel...] and bias [O]. Refuses as `conv` does.
Shape conv_transpose_shape(const char* op, const Tensor& x, const Tensor& weight,
                           const Tensor& bias, const ConvWindows& options, Pair output_padding);

// Sums of windows that overlap: of columns [N, C kh kw, windows] (floating), where windows of
// kernel size (kh, kw) lie in images of shape x [N, C, H, W]; row-major. The sizes are checked
// ones.
Tensor fold(const Tensor& columns, const Shape& x, Pair kernel, const ConvWindows& options);

struct ConvAxis {
  int64_t in, kernel, out, stride, padding, dilation;
  auto operator<=>(const ConvAxis&) const = default;
};
struct ConvSizes {
  int64_t n, c, o, groups;
  ConvAxis h, w;
  auto operator<=>(const ConvSizes&) const = default;
  int64_t pixels() const { return h.out * w.out; }
  int64_t depth() const { return c / groups * h.kernel * w.kernel; }  // terms of one element of y
};

// Which of three tensors is computed from the two others.
enum class ConvPass : uint8_t { y, dx, dweight };
// Their memory, dense: x [N, H, W, C], weight [O, kh, kw, C / groups], y [N, out h, out w, O].
// Where y is computed, a bias [O] is added if defined, then negative elements become 0 if relu.
struct ConvTensors {
  Tensor x, weight, y, bias = {};
  bool relu = false;
};

// False when these do not take a convolution: then nothing was done.
namespace cpu {
// By a library; without relu.
bool conv(ConvPass pass, const ConvSizes& s, const ConvTensors& t);
}  // namespace cpu
namespace cuda {
// By cuDNN.
bool conv(ConvPass pass, const ConvSizes& s, const ConvTensors& t);
// By kernels for float32 that multiply in float32; likewise.
bool conv_fma(ConvPass pass, const ConvSizes& s, const ConvTensors& t);
// t.bias, where defined, and t.relu, applied to t.y in place.
void add_bias(const ConvTensors& t);
}  // namespace cuda

// What turns a convolution into matrix products. A row of `columns` [images * pixels, groups,
// depth] holds the inputs of one output pixel, by kernel position, then channel; zeros are padding.
template <class Backend> struct ConvKernels {
  // The columns of images [first, first + images) of x.
  static void unfold(const Tensor& columns, const Tensor& x, const ConvSizes& s, int64_t first,
                     int64_t images);
  // The transpose: each element of these images of x sums its columns, in a fixed order.
  static void fold(const Tensor& x, const Tensor& columns, const ConvSizes& s, int64_t first,
                   int64_t images);
};

}  // namespace taper::v0::kernels
