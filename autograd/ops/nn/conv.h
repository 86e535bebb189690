// Convolutions (https://pytorch.org/docs/stable/nn.functional.html#convolution-functions). The
// result lies in channels-last memory; contiguous() gives row-major.
#pragma once

#include <string>

#include "framework/kernels/elementwise/activation.h"
#include "framework/tensor.h"

namespace taper::v0 {

// .padding = 1, {1, 2}, "valid" (none) or "same" (the output has the input's size; where the
// padding cannot be the same on both sides, one more behind). The stride is 1 then.
struct ConvPadding : Pair {
  template <std::convertible_to<IntArg> T> ConvPadding(T both) : Pair(both) {}
  ConvPadding(IntArg height, IntArg width) : Pair(height, width) {}
  ConvPadding(Pair p) : Pair(p) {}
  template <size_t N> ConvPadding(const char (&text)[N]) : name(text) {}

  std::string name = {};  // empty for a size
};

struct Conv1dOptions {
  int64_t stride = 1;
  ConvPadding padding = 0;  // its w
  int64_t dilation = 1, groups = 1;
};
// One number stands for both dimensions: {.stride = 2, .padding = {0, 1}}.
struct Conv2dOptions {
  Pair stride = 1;
  ConvPadding padding = 0;
  Pair dilation = 1;
  int64_t groups = 1;
};

// x [N, C, L] or [C, L], weight [O, C / groups, k], bias [O].
Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              const Conv1dOptions& options = {});
// x [N, C, H, W] or [C, H, W], weight [O, C / groups, kh, kw], bias [O]; `activation` of that,
// for relu in one kernel where the device has one.
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              const Conv2dOptions& options = {}, Activation activation = Activation::none);

struct ConvTranspose1dOptions {
  int64_t stride = 1, padding = 0, output_padding = 0, groups = 1, dilation = 1;
};
struct ConvTranspose2dOptions {
  Pair stride = 1, padding = 0;
  Pair output_padding = 0;  // added to the size of the result, behind; less than stride or dilation
  int64_t groups = 1;
  Pair dilation = 1;
};
// The gradients of those with respect to their input, as functions of their own: x [N, C, L] or
// [C, L], weight [C, O / groups, k], bias [O], to [N, O, (L - 1) stride - 2 padding +
// dilation (k - 1) + output_padding + 1].
Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const ConvTranspose1dOptions& options = {});
// x [N, C, H, W] or [C, H, W], weight [C, O / groups, kh, kw], bias [O].
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const ConvTranspose2dOptions& options = {});

}  // namespace taper::v0
