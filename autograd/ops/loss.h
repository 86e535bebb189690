// Loss functions (https://pytorch.org/docs/stable/nn.functional.html#loss-functions).
#pragma once

#include "framework/kernels/loss/softmax.h"
#include "framework/tensor.h"

namespace taper::inline v0 {

inline constexpr int64_t kIgnoreIndex = -100;

struct NllLossOptions {
  Tensor weight = {};  // [C]: of each class; mean divides by the sum of those that it met
  int64_t ignore_index = kIgnoreIndex;
  Reduction reduction = Reduction::mean;
};
struct CrossEntropyOptions {
  Tensor weight = {};
  int64_t ignore_index = kIgnoreIndex;
  Reduction reduction = Reduction::mean;
  double label_smoothing = 0;  // in [0, 1]: this part of each target is spread over all classes
};

// logits [N, C], [N, C, d1, ...] or [C] (floating) and classes target [N], [N, d1, ...] or []
// (int64), or target probabilities of the logits' shape (floating). Log-softmax and negative log
// likelihood in one kernel. A class outside [0, C) that is not ignore_index throws IndexError: on
// the CPU here, on the GPU at the next call that waits for it.
Tensor cross_entropy(const Tensor& logits, const Tensor& target,
                     const CrossEntropyOptions& options);
Tensor cross_entropy(const Tensor& logits, const Tensor& target,
                     Reduction reduction = Reduction::mean, int64_t ignore_index = kIgnoreIndex);
// The same for log-probabilities and classes.
Tensor nll_loss(const Tensor& logp, const Tensor& target, const NllLossOptions& options = {});

// These four refuse shapes that are not equal, of which PyTorch warns.
Tensor mse_loss(const Tensor& input, const Tensor& target, Reduction reduction = Reduction::mean);
Tensor l1_loss(const Tensor& input, const Tensor& target, Reduction reduction = Reduction::mean);
// Quadratic up to a distance of delta, linear beyond; smooth_l1_loss is huber_loss / beta.
Tensor huber_loss(const Tensor& input, const Tensor& target, Reduction reduction = Reduction::mean,
                  double delta = 1);
Tensor smooth_l1_loss(const Tensor& input, const Tensor& target,
                      Reduction reduction = Reduction::mean, double beta = 1);

struct BceWithLogitsOptions {
  Tensor weight = {};      // of each element, broadcast
  Tensor pos_weight = {};  // of the targets' positive part, broadcast
  Reduction reduction = Reduction::mean;
};
Tensor binary_cross_entropy_with_logits(const Tensor& input, const Tensor& target,
                                        const BceWithLogitsOptions& options = {});
// input: log-probabilities; target: probabilities, or their logarithms. Reduction::batchmean
// divides the sum by the first size.
Tensor kl_div(const Tensor& input, const Tensor& target, Reduction reduction = Reduction::mean,
              bool log_target = false);

}  // namespace taper::inline v0
