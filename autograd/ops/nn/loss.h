// Loss functions (https://pytorch.org/docs/stable/nn.functional.html#loss-functions).
#pragma once

#include "framework/kernels/loss/softmax.h"
#include "framework/tensor.h"

namespace taper::v0 {

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
                     Reduction reduction = Reduction::mean, IntArg ignore_index = kIgnoreIndex);
// The same for log-probabilities and classes.
Tensor nll_loss(const Tensor& logp, const Tensor& target, const NllLossOptions& options = {});

// These four refuse shapes that are not equal, of which PyTorch warns.
Tensor mse_loss(const Tensor& input, const Tensor& target, Reduction reduction = Reduction::mean);
Tensor l1_loss(const Tensor& input, const Tensor& target, Reduction reduction = Reduction::mean);
// Quadratic up to a distance of delta, linear beyond; smooth_l1_loss is huber_loss / beta.
Tensor huber_loss(const Tensor& input, const Tensor& target, Reduction reduction = Reduction::mean,
                  RealArg delta = 1);
Tensor smooth_l1_loss(const Tensor& input, const Tensor& target,
                      Reduction reduction = Reduction::mean, RealArg beta = 1);

struct BceWithLogitsOptions {
  Tensor weight = {};      // of each element, broadcast
  Tensor pos_weight = {};  // of the targets' positive part, broadcast
  Reduction reduction = Reduction::mean;
};
Tensor binary_cross_entropy_with_logits(const Tensor& input, const Tensor& target,
                                        const BceWithLogitsOptions& options = {});
struct BceOptions {
  Tensor weight = {};  // of each element, broadcast
  Reduction reduction = Reduction::mean;
};
// input: probabilities; logarithms end at -100. An input outside [0, 1] throws Error on the CPU,
// and gives nan on the GPU. Refused under autocast, as in PyTorch.
Tensor binary_cross_entropy(const Tensor& input, const Tensor& target,
                            const BceOptions& options = {});
// input: log-probabilities; target: probabilities, or their logarithms. Reduction::batchmean
// divides the sum by the first size.
Tensor kl_div(const Tensor& input, const Tensor& target, Reduction reduction = Reduction::mean,
              BoolArg log_target = false);
// log(var) / 2 + (input - target)^2 / (2 var); full: with log(2 pi) / 2. var has input's shape, or
// 1 for its last size, or lacks that; values below eps count as eps. A negative one throws
// ValueError on the CPU.
Tensor gaussian_nll_loss(const Tensor& input, const Tensor& target, const Tensor& var,
                         BoolArg full = false, RealArg eps = 1e-6,
                         Reduction reduction = Reduction::mean);

// --- of distances ---

// Of vectors along dim; a length below eps counts as eps.
Tensor cosine_similarity(const Tensor& x1, const Tensor& x2, IntArg dim = 1, RealArg eps = 1e-8);
// Vectors [N, D] with target [N], or [D] with []: 1 for pairs that are to be alike, -1 for others.
Tensor cosine_embedding_loss(const Tensor& x1, const Tensor& x2, const Tensor& target,
                             RealArg margin = 0, Reduction reduction = Reduction::mean);
// max(0, margin - target (x1 - x2)), target 1 where x1 is to be the larger, else -1.
Tensor margin_ranking_loss(const Tensor& x1, const Tensor& x2, const Tensor& target,
                           RealArg margin = 0, Reduction reduction = Reduction::mean);
struct TripletMarginOptions {
  double margin = 1;
  double p = 2;  // the norm
  double eps = 1e-6;
  bool swap = false;  // the negative's distance from the positive counts where it is less
  Reduction reduction = Reduction::mean;
};
// max(0, margin + |anchor - positive| - |anchor - negative|) of vectors [..., D].
Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           const TripletMarginOptions& options = {});

// log_probs [T, N, C], or [T, C] of one row; targets [N, S], or one after the other in one
// dimension; lengths [N] (integers). -log of the chance of all ways to write each target with
// blanks and repetitions (Graves et al. 2006); mean divides each by its length first.
// zero_infinity: where no way fits, 0 and no gradient. float32 and float64; one derivative.
// Lengths on the CPU are checked here; those on the GPU, and labels there, at the next call that
// waits for it.
Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                const Tensor& target_lengths, IntArg blank = 0,
                Reduction reduction = Reduction::mean, BoolArg zero_infinity = false);

}  // namespace taper::v0
