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

// 1 with the probability that stands in each element of p, else 0, in p's dtype; no gradient. A
// probability out of [0, 1] is the caller's mistake: it counts as the nearer of the two.
Tensor bernoulli(const Tensor& p, Generator* generator = nullptr);

// Rows of weights, [k] or [rows, k], not negative and not all 0: the numbers (int64) of num_samples
// categories for each. Weights need no sum of 1; they are not read on the host, so bad ones are the
// caller's mistake and give some category. Without replacement a row needs num_samples weights
// above 0.
Tensor multinomial(const Tensor& weights, int64_t num_samples, bool replacement = false,
                   Generator* generator = nullptr);

}  // namespace taper::v0
