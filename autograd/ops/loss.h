// Loss functions (https://pytorch.org/docs/stable/nn.functional.html#loss-functions).
#pragma once

#include "framework/kernels/softmax.h"
#include "framework/tensor.h"

namespace taper {

inline constexpr int64_t kIgnoreIndex = -100;

// logits [N, C] (floating) and target [N] (int64 classes): log-softmax and negative log likelihood
// in one kernel. A class outside [0, C) that is not ignore_index throws IndexError: on the CPU
// here, on the GPU at the next call that waits for it.
Tensor cross_entropy(const Tensor& logits, const Tensor& target,
                     Reduction reduction = Reduction::mean, int64_t ignore_index = kIgnoreIndex);
Tensor mse_loss(const Tensor& input, const Tensor& target, Reduction reduction = Reduction::mean);

}  // namespace taper
