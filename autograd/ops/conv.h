// Convolutions (https://pytorch.org/docs/stable/nn.functional.html#convolution-functions). The
// result lies in channels-last memory; contiguous() gives row-major.
#pragma once

#include "framework/kernels/conv/conv.h"
#include "framework/kernels/elementwise/activation.h"
#include "framework/tensor.h"

namespace taper::inline v0 {

struct Conv1dOptions {
  int64_t stride = 1, padding = 0, dilation = 1, groups = 1;
};

// x [N, C, L] or [C, L], weight [O, C / groups, k], bias [O].
Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              const Conv1dOptions& options = {});
// x [N, C, H, W] or [C, H, W], weight [O, C / groups, kh, kw], bias [O]; `activation` of that,
// for relu in one kernel where the device has one.
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              const Conv2dOptions& options = {}, Activation activation = Activation::none);

}  // namespace taper::inline v0
