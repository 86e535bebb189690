// Picking and placing elements by index (https://pytorch.org/docs/stable/torch.html).
#pragma once

#include "framework/tensor.h"

namespace taper {

// weight [rows, dim...], index of any shape (int64 or int32): rows of weight.
Tensor embedding(const Tensor& weight, const Tensor& index);

}  // namespace taper
