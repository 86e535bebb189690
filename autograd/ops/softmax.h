// Softmax along one dimension (https://pytorch.org/docs/stable/nn.functional.html).
#pragma once

#include "framework/tensor.h"

namespace taper {

Tensor softmax(const Tensor& x, int64_t dim);
Tensor log_softmax(const Tensor& x, int64_t dim);

}  // namespace taper
