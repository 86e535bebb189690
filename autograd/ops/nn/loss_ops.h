// Loss functions (https://pytorch.org/docs/stable/nn.functional.html#loss-functions).
//
// They are differentiable with respect to input, and return one element unless the reduction is
// Reduction::kNone. Unless noted, they throw Error for shapes that do not match and do not
// synchronize.
#pragma once

#include "framework/kernels/loss/softmax.h"
#include "framework/tensor/tensor.h"

namespace taper::v0 {

inline constexpr int64_t kIgnoreIndex = -100;

struct NllLossOptions {
  Tensor weight = {};  // [C]: weight of each class; mean divides by the sum of the targets' weights
  int64_t ignore_index = kIgnoreIndex;
  Reduction reduction = Reduction::kMean;
};
struct CrossEntropyOptions {
  Tensor weight = {};
  int64_t ignore_index = kIgnoreIndex;
  Reduction reduction = Reduction::kMean;
  double label_smoothing = 0;  // in [0, 1]: this fraction of each target is spread over all classes
};

// Returns the negative log-likelihood of log_softmax(logits), computed in one kernel. logits are
// [N, C], [N, C, d1, ...] or [C] (floating). target holds int64 classes [N], [N, d1, ...] or [], or
// floating probabilities of the logits' shape. A class outside [0, C) other than ignore_index
// throws IndexError: on the CPU at once, on the GPU at the next synchronizing call.
//
//   cross_entropy(logits, labels, {.label_smoothing = 0.1});
Tensor cross_entropy(const Tensor& logits, const Tensor& target,
                     const CrossEntropyOptions& options);
Tensor cross_entropy(const Tensor& logits, const Tensor& target,
                     Reduction reduction = Reduction::kMean, IntArg ignore_index = kIgnoreIndex);
// The most bytes that linear_cross_entropy() stores of the logits at a time, by default: 640 MiB.
inline constexpr int64_t kLossBlockBytes = int64_t(640) << 20;
// Returns cross_entropy(linear(x, weight), target, options), for x [N, C], weight [V, C] and target
// [N]. Logits [N, V] of more than max_block_bytes are computed in blocks of rows, each of about
// that size or of 128 rows, and never exist as a whole. The forward pass then also computes the
// gradients, which differ from those of the two functions by rounding. Other cases (class weights,
// label smoothing, Reduction::kNone, probabilities as targets) call the two functions. Throws their
// errors.
//
//   linear_cross_entropy(hidden.flatten(0, 1), head.weight, targets.flatten());
Tensor linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& target,
                            const CrossEntropyOptions& options = {},
                            IntArg max_block_bytes = kLossBlockBytes);
// Like cross_entropy, but takes log-probabilities and requires classes as the target.
Tensor nll_loss(const Tensor& logp, const Tensor& target, const NllLossOptions& options = {});

// Return the mean, sum or elements of (input - target)^2 or |input - target|. These and the
// following two functions throw ValueError if the shapes differ. (PyTorch prints a warning and
// broadcasts.)
Tensor mse_loss(const Tensor& input, const Tensor& target, Reduction reduction = Reduction::kMean);
Tensor l1_loss(const Tensor& input, const Tensor& target, Reduction reduction = Reduction::kMean);
// Return losses that are quadratic up to a distance of delta (or beta) and linear beyond it.
// smooth_l1_loss is huber_loss / beta.
Tensor huber_loss(const Tensor& input, const Tensor& target, Reduction reduction = Reduction::kMean,
                  RealArg delta = 1);
Tensor smooth_l1_loss(const Tensor& input, const Tensor& target,
                      Reduction reduction = Reduction::kMean, RealArg beta = 1);

struct BceWithLogitsOptions {
  Tensor weight = {};      // factor of each element; broadcasts
  Tensor pos_weight = {};  // factor of the positive part of the loss; broadcasts
  Reduction reduction = Reduction::kMean;
};
Tensor binary_cross_entropy_with_logits(const Tensor& input, const Tensor& target,
                                        const BceWithLogitsOptions& options = {});
struct BceOptions {
  Tensor weight = {};  // factor of each element; broadcasts
  Reduction reduction = Reduction::kMean;
};
// Returns the binary cross-entropy of probabilities. Logarithms are clamped at -100. An input
// outside [0, 1] throws Error on the CPU and gives NaN on the GPU. Throws Error under autocast, as
// in PyTorch.
Tensor binary_cross_entropy(const Tensor& input, const Tensor& target,
                            const BceOptions& options = {});
// Returns the Kullback-Leibler divergence. input holds log-probabilities; target holds
// probabilities, or their logarithms if log_target. Reduction::kBatchmean divides the sum by the
// first size.
Tensor kl_div(const Tensor& input, const Tensor& target, Reduction reduction = Reduction::kMean,
              BoolArg log_target = false);
struct GaussianNllOptions {
  bool full = false;
  double eps = 1e-6;
  Reduction reduction = Reduction::kMean;
};
// Returns log(var) / 2 + (input - target)^2 / (2 var), plus log(2 pi) / 2 if `full`. var has
// input's shape, or that shape with the last size 1 or removed. Values of var below eps count as
// eps. A negative var throws ValueError on the CPU.
Tensor gaussian_nll_loss(const Tensor& input, const Tensor& target, const Tensor& var,
                         const GaussianNllOptions& options = {});
// A template, so that options in braces select the function above.
template <class = void>
Tensor gaussian_nll_loss(const Tensor& input, const Tensor& target, const Tensor& var, BoolArg full,
                         RealArg eps = 1e-6, Reduction reduction = Reduction::kMean) {
  return gaussian_nll_loss(input, target, var, GaussianNllOptions{full, eps, reduction});
}

struct PoissonNllOptions {
  bool log_input = true;  // input holds logarithms of the expected counts
  bool full = false;      // add Stirling's approximation of log(target!) where target > 1
  double eps = 1e-8;      // added to input before its logarithm, if log_input is false
  Reduction reduction = Reduction::kMean;
};
// Returns the negative log-likelihood of counts: exp(input) - target * input, or input - target *
// log(input + eps) without log_input.
Tensor poisson_nll_loss(const Tensor& input, const Tensor& target,
                        const PoissonNllOptions& options = {});

// --- margins ---

struct MultiMarginOptions {
  int64_t p = 1;  // power of the distances, 1 or 2
  double margin = 1;
  Tensor weight = {};  // [C]: factor of each target class
  Reduction reduction = Reduction::kMean;
};
// Returns the sum over the other classes of max(0, margin - x[target] + x[class])^p / C. input is
// [N, C] with int64 targets [N], or [C] with []. A class outside [0, C) throws Error: on the CPU at
// once, on the GPU at the next synchronizing call.
Tensor multi_margin_loss(const Tensor& input, const Tensor& target,
                         const MultiMarginOptions& options = {});
// Returns the sum over the target classes and over all others of max(0, 1 - x[target] + x[other]) /
// C. input and the int64 target are [N, C] or [C]. A row of target lists classes; those from the
// first -1 on are ignored. Stores N * C * C elements. A class outside [-1, C) throws Error like
// that of multi_margin_loss.
Tensor multilabel_margin_loss(const Tensor& input, const Tensor& target,
                              Reduction reduction = Reduction::kMean);
// Returns log(1 + exp(-target * input)) for targets of 1 and -1. target broadcasts to input.
Tensor soft_margin_loss(const Tensor& input, const Tensor& target,
                        Reduction reduction = Reduction::kMean);
struct MultilabelSoftMarginOptions {
  Tensor weight = {};  // factor of each class; broadcasts
  Reduction reduction = Reduction::kMean;
};
// Returns the mean over the classes of the binary cross-entropy of logits [..., C] and targets in
// [0, 1].
Tensor multilabel_soft_margin_loss(const Tensor& input, const Tensor& target,
                                   const MultilabelSoftMarginOptions& options = {});
// Returns input where target is 1, and max(0, margin - input) where it is -1. input is a distance.
Tensor hinge_embedding_loss(const Tensor& input, const Tensor& target, RealArg margin = 1,
                            Reduction reduction = Reduction::kMean);

// --- distances ---

// Returns the cosine similarity of vectors along dim. A norm below eps counts as eps.
Tensor cosine_similarity(const Tensor& x1, const Tensor& x2, IntArg dim = 1, RealArg eps = 1e-8);
struct PairwiseDistanceOptions {
  double p = 2;
  double eps = 1e-6;
  bool keepdim = false;
};
// Returns the p-norms of x1 - x2 + eps along the last dimension. The shapes broadcast.
//
//   pairwise_distance(x1, x2, {.p = 1, .keepdim = true});
Tensor pairwise_distance(const Tensor& x1, const Tensor& x2,
                         const PairwiseDistanceOptions& options);
Tensor pairwise_distance(const Tensor& x1, const Tensor& x2, RealArg p = 2, RealArg eps = 1e-6,
                         BoolArg keepdim = false);
// Returns 1 - cosine similarity for pairs that should be similar (target 1), and max(0, cosine
// similarity - margin) for others (target -1). x1 and x2 are [N, D] with target [N], or [D] with
// [].
Tensor cosine_embedding_loss(const Tensor& x1, const Tensor& x2, const Tensor& target,
                             RealArg margin = 0, Reduction reduction = Reduction::kMean);
// Returns max(0, margin - target * (x1 - x2)). The target is 1 where x1 should be larger and -1
// otherwise.
Tensor margin_ranking_loss(const Tensor& x1, const Tensor& x2, const Tensor& target,
                           RealArg margin = 0, Reduction reduction = Reduction::kMean);
struct TripletMarginOptions {
  double margin = 1;
  double p = 2;  // order of the norm
  double eps = 1e-6;
  bool swap = false;  // use the distance of positive and negative if it is smaller
  Reduction reduction = Reduction::kMean;
};
// Returns max(0, margin + |anchor - positive| - |anchor - negative|) for vectors [..., D].
Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           const TripletMarginOptions& options = {});

struct CtcLossOptions {
  int64_t blank = 0;
  Reduction reduction = Reduction::kMean;
  bool zero_infinity = false;
};
// Returns the loss of connectionist temporal classification (Graves et al. 2006): -log of the total
// probability of all alignments of each target, with blanks and repetitions.
//
// log_probs is [T, N, C], or [T, C] for one sequence. targets is [N, S], or 1-d with all targets
// concatenated. The lengths are integers [N]. Reduction::kMean divides each loss by its target
// length first. zero_infinity replaces the infinite losses of targets that do not fit by 0, without
// a gradient. float32 and float64 only. Differentiable once.
//
// Throws Error for invalid lengths and labels: on the CPU at once, on the GPU at the next
// synchronizing call.
Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                const Tensor& target_lengths, const CtcLossOptions& options = {});
// A template, so that options in braces select the function above.
template <class = void>
Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                const Tensor& target_lengths, IntArg blank, Reduction reduction = Reduction::kMean,
                BoolArg zero_infinity = false) {
  return ctc_loss(log_probs, targets, input_lengths, target_lengths,
                  CtcLossOptions{blank, reduction, zero_infinity});
}

}  // namespace taper::v0
