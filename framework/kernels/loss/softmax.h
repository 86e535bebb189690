// Softmax and its logarithm along one dimension, and the fused cross entropy.
#pragma once

#include "framework/kernels/reduce/reduce.h"

namespace taper::v0 {

// What becomes of the losses of a batch. Outside kernels: argument lookup would otherwise find the
// kernel of each loss function beside the function itself.
enum class Reduction : uint8_t { none, mean, sum, batchmean };  // the last for kl_div only

}  // namespace taper::v0

namespace taper::v0::kernels {

Tensor softmax(bool log, const Tensor& x, int64_t dim);
// dx from dy and the forward's y.
Tensor softmax_backward(bool log, const Tensor& dy, const Tensor& y, int64_t dim);

// Negative log likelihood of one class a row.
struct NllOptions {
  int64_t ignore_index = -100;
  Tensor weight = {};              // [classes], of the loss's dtype; undefined: 1 for each
  bool log_probabilities = false;  // nll_loss: the logits are normalised already
  const char* name() const { return log_probabilities ? "nll_loss" : "cross_entropy"; }
};
// What each row gives, [n] in float32 (float64 for double); losses and weights are 0 where ignored.
struct NllRows {
  Tensor losses;
  Tensor weights;    // that of the row's class
  Tensor logsumexp;  // what the backward pass needs
};
struct CrossEntropy {
  Tensor loss;  // [n] for none, else 0-dim
  NllRows rows;
  Tensor total;    // 0-dim, for mean: the sum of the weights, which it divides by
  Tensor dlogits;  // where it was made along the way: the gradient for a dloss of 1
};

// logits [n, classes] (floating), target [n] int64 with values in [0, classes) or ignore_index; the
// loss has the logits' dtype, or is float32 for half logits. A target out of range throws
// IndexError: on the CPU at once, on the GPU at the next synchronising call. with_gradient: dlogits
// is made where that saves the backward pass its work.
CrossEntropy cross_entropy(const Tensor& logits, const Tensor& target, Reduction reduction,
                           const NllOptions& options, DType loss_dtype, bool with_gradient);
// dlogits = (softmax(logits) - onehot(target)) * weight * dloss (divided by the total for mean);
// without the softmax for log-probabilities. It takes the memory of forward.dlogits.
Tensor cross_entropy_backward(const Tensor& dloss, const Tensor& logits, const Tensor& target,
                              const CrossEntropy& forward, const NllOptions& options);

// Dense [outer, n, inner] tensors, along n.
namespace cpu {
void softmax(bool log, const Tensor& y, const Tensor& x, ReduceSizes sizes);
void softmax_backward(bool log, const Tensor& dx, const Tensor& dy, const Tensor& y,
                      ReduceSizes sizes);
// options.weight is dense, in the dtype of the rows.
void cross_entropy(const NllRows& rows, const Tensor& logits, const Tensor& target,
                   const NllOptions& options);
// scale: [n] or [1], in the dtype of the rows.
void cross_entropy_backward(const Tensor& dlogits, const Tensor& scale, const NllRows& rows,
                            const Tensor& logits, const Tensor& target, const NllOptions& options);
}  // namespace cpu
namespace cuda {
void softmax(bool log, const Tensor& y, const Tensor& x, ReduceSizes sizes);
void softmax_backward(bool log, const Tensor& dx, const Tensor& dy, const Tensor& y,
                      ReduceSizes sizes);
// Whether dlogits, where defined, was written.
bool cross_entropy(const CrossEntropy& out, const Tensor& logits, const Tensor& target,
                   const NllOptions& options);
// dloss: [n] or 0-dim, in the dtype of the loss.
void cross_entropy_backward(const Tensor& dlogits, const Tensor& dloss, const CrossEntropy& forward,
                            const Tensor& logits, const Tensor& target, const NllOptions& options);
}  // namespace cuda

}  // namespace taper::v0::kernels
