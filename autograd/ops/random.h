// Random functions of tensors; equal bits on every device.
#pragma once

#include "framework/random.h"
#include "framework/tensor.h"

namespace taper {

// Zeroes each element with probability p and scales the others by 1 / (1 - p); x itself when not
// training or p is 0.
Tensor dropout(const Tensor& x, double p = 0.5, bool training = true,
               Generator* generator = nullptr);

}  // namespace taper
