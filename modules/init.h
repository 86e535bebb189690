// Initial values of parameters (https://pytorch.org/docs/stable/nn.init.html), drawn by the default
// generator: the same bits on every device.
#pragma once

#include "framework/tensor.h"

namespace taper {

// float32, from U(-bound, bound).
Tensor uniform_within(double bound, const Shape& shape, Device device);
// 1 / sqrt(fan_in) for a weight [out, in...].
double fan_in_bound(const Shape& weight);
// PyTorch's kaiming_uniform(a = sqrt(5)), the default of Linear and the convolutions.
Tensor fan_in_uniform(const Shape& weight, Device device);

}  // namespace taper
