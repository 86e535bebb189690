// The gradient of activations that ops fuse, where it must differentiate again.
#pragma once

#include "framework/kernels/elementwise/activation.h"
#include "framework/tensor.h"

namespace taper::inline v0 {

// dx of y = activation(x), by public ops.
Tensor activation_gradient(Activation activation, const Tensor& dy, const Tensor& x);

}  // namespace taper::inline v0
