// Random functions of tensors; equal bits on every device.
#pragma once

#include "framework/random.h"
#include "framework/tensor.h"

namespace taper::v0 {

// Zeroes each element with probability p and scales the others by 1 / (1 - p); x itself when not
// training or p is 0.
Tensor dropout(const Tensor& x, RealArg p = 0.5, BoolArg training = true,
               Generator* generator = nullptr);

// residual + dropout(x), bit by bit, in one pass where shapes are equal.
Tensor dropout_add(const Tensor& x, RealArg p, BoolArg training, const Tensor& residual,
                   Generator* generator = nullptr);

// dropout for whole channels: each x[n, c] is kept or zeroed.
Tensor dropout2d(const Tensor& x, RealArg p = 0.5, BoolArg training = true,
                 Generator* generator = nullptr);

// Returns 1 with the probability that each element of p gives, else 0, in p's dtype. Throws Error
// for a probability that is nan or outside [0, 1]: on the CPU at once, on the GPU at the next
// synchronizing call. Not differentiable.
Tensor bernoulli(const Tensor& p, Generator* generator = nullptr);

// Draws num_samples categories for each row of weights, [k] or [rows, k]; returns their numbers,
// int64 [num_samples] or [rows, num_samples]. Weights need no sum of 1. Throws Error for weights
// that are negative, nan or infinite, for a row without a weight above 0 and, without replacement,
// for one with fewer than num_samples such weights: on the CPU at once, on the GPU at the next
// synchronizing call. Not differentiable.
Tensor multinomial(const Tensor& weights, IntArg num_samples, BoolArg replacement = false,
                   Generator* generator = nullptr);

}  // namespace taper::v0
