// Functions of networks (https://pytorch.org/docs/stable/nn.functional.html).
#pragma once

#include "framework/kernels/softmax.h"
#include "framework/random.h"
#include "framework/tensor.h"

namespace taper {

Tensor softmax(const Tensor& x, int64_t dim);
Tensor log_softmax(const Tensor& x, int64_t dim);

inline constexpr int64_t kIgnoreIndex = -100;

// logits [N, C] (floating) and target [N] (int64 classes): log-softmax and negative log likelihood
// in one kernel. A class outside [0, C) that is not ignore_index throws IndexError: on the CPU
// here, on the GPU at the next call that waits for it.
Tensor cross_entropy(const Tensor& logits, const Tensor& target,
                     Reduction reduction = Reduction::mean, int64_t ignore_index = kIgnoreIndex);
Tensor mse_loss(const Tensor& input, const Tensor& target, Reduction reduction = Reduction::mean);

// Zeroes each element with probability p and scales the others by 1 / (1 - p); x itself when not
// training or p is 0.
Tensor dropout(const Tensor& x, double p = 0.5, bool training = true,
               Generator* generator = nullptr);

// weight [rows, dim...], index of any shape (int64 or int32): rows of weight.
Tensor embedding(const Tensor& weight, const Tensor& index);

}  // namespace taper
