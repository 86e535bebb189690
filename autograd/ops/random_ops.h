// Random functions of tensors. They draw from `generator`, or from default_generator() if it is
// null. The results have equal bits on every device. Nothing here synchronizes.
#pragma once

#include "framework/factory/generator.h"
#include "framework/tensor/tensor.h"

namespace taper::v0 {

// Zeroes each element with probability p and multiplies the others by 1 / (1 - p). Returns x itself
// if training is false or p is 0. Throws ValueError if p is outside [0, 1]. Differentiable.
Tensor dropout(const Tensor& x, RealArg p = 0.5, BoolArg training = true,
               Generator* generator = nullptr);

// Returns residual + dropout(x) with equal bits, in one pass over memory if the shapes are equal.
Tensor dropout_add(const Tensor& x, RealArg p, BoolArg training, const Tensor& residual,
                   Generator* generator = nullptr);

// Applies dropout to whole channels: each x[n, c] is kept or zeroed.
Tensor dropout2d(const Tensor& x, RealArg p = 0.5, BoolArg training = true,
                 Generator* generator = nullptr);
// The same for volumes [N, C, D, H, W]. Other tensors have no N: each x[c] is kept or zeroed.
Tensor dropout3d(const Tensor& x, RealArg p = 0.5, BoolArg training = true,
                 Generator* generator = nullptr);

struct GumbelSoftmaxOptions {
  double tau = 1;
  bool hard = false;
  int64_t dim = -1;
  Generator* generator = nullptr;
};
// Returns a random point of the simplex along dim, drawn from the distribution of Gumbel-softmax
// (https://arxiv.org/abs/1611.01144): softmax((logits + noise) / tau). A smaller tau > 0 gives
// points closer to a one-hot vector. The noise is drawn in float32 for every dtype. `hard` returns
// the one-hot vector of the largest element, with the gradient of the point. Differentiable with
// respect to logits, which have a floating dtype.
//
//   gumbel_softmax(logits, {.tau = 0.5, .hard = true});
Tensor gumbel_softmax(const Tensor& logits, const GumbelSoftmaxOptions& options);
Tensor gumbel_softmax(const Tensor& logits, RealArg tau = 1, BoolArg hard = false, IntArg dim = -1,
                      Generator* generator = nullptr);

// Returns 1 with the probability given by each element of p and 0 otherwise, in p's dtype. Throws
// Error for a probability that is NaN or outside [0, 1]: on the CPU at once, on the GPU at the next
// synchronizing call. Not differentiable.
Tensor bernoulli(const Tensor& p, Generator* generator = nullptr);

// Draws num_samples categories for each row of weights, [k] or [rows, k], and returns their
// indices, int64 [num_samples] or [rows, num_samples]. The weights of a row need not sum to 1.
// Throws Error for weights that are negative, NaN or infinite, and for a row without a positive
// weight. Without replacement it also throws Error for a row with fewer than num_samples positive
// weights. The CPU reports errors at once, the GPU at the next synchronizing call. Not
// differentiable.
//
//   multinomial(softmax(logits / temperature, -1), 1);  // samples the next token
Tensor multinomial(const Tensor& weights, IntArg num_samples, BoolArg replacement = false,
                   Generator* generator = nullptr);

}  // namespace taper::v0
