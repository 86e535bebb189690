// Softmax and its logarithm along one dimension, and the fused cross entropy.
#pragma once

#include "framework/base/text_enum.h"
#include "framework/kernels/reduce/reduce.h"

namespace taper::v0 {

// How the losses of a batch are combined. Declared outside kernels, because argument-dependent
// lookup would otherwise find the kernel of a loss function next to the function itself.
// kBatchmean is for kl_div only.
struct ReductionValues {
  enum class Value : uint8_t { kNone, kMean, kSum, kBatchmean };
  static constexpr Value kNone = Value::kNone, kMean = Value::kMean, kSum = Value::kSum,
                         kBatchmean = Value::kBatchmean;
  static constexpr const char* kOption = "reduction";
  static constexpr const char* kWords[] = {"none", "mean", "sum", "batchmean"};
};
using Reduction = TextEnum<ReductionValues>;

}  // namespace taper::v0

namespace taper::v0::kernels {

Tensor softmax(bool log, const Tensor& x, int64_t dim);
// Returns dx from dy and the forward pass's y.
Tensor softmax_backward(bool log, const Tensor& dy, const Tensor& y, int64_t dim);

// Negative log-likelihood with one class per row.
struct NllOptions {
  int64_t ignore_index = -100;
  Tensor weight = {};              // [classes], of the loss's dtype; undefined: 1 for each
  bool log_probabilities = false;  // true for nll_loss: the logits are normalized already
  const char* name() const { return log_probabilities ? "nll_loss" : "cross_entropy"; }
};
// The results for each row, [n] in float32 (float64 for float64). losses and weights are 0 for
// ignored rows.
struct NllRows {
  Tensor losses;
  Tensor weights;    // weight of the row's class
  Tensor logsumexp;  // saved for the backward pass
};
struct CrossEntropy {
  Tensor loss;  // [n] for Reduction::kNone, otherwise 0-dim
  NllRows rows;
  Tensor total;    // 0-dim, for kMean: the sum of the weights, by which the loss is divided
  Tensor dlogits;  // defined if computed in the forward pass: the gradient for dloss = 1
};

// Computes the loss of logits [n, classes] (floating) for target [n] int64, with values in [0,
// classes) or ignore_index. The loss has dtype loss_dtype: the logits' dtype, or float32 for half
// logits. A target out of range throws IndexError: on the CPU at once, on the GPU at the next
// synchronizing call. with_gradient computes dlogits if that saves work in the backward pass.
CrossEntropy cross_entropy(const Tensor& logits, const Tensor& target, Reduction reduction,
                           const NllOptions& options, DType loss_dtype, bool with_gradient);
// Returns dlogits = (softmax(logits) - onehot(target)) * weight * dloss, divided by the total for
// mean. For log-probabilities the softmax is omitted. Reuses the memory of forward.dlogits.
Tensor cross_entropy_backward(const Tensor& dloss, const Tensor& logits, const Tensor& target,
                              const CrossEntropy& forward, const NllOptions& options);

// The functions of both backends work along n. Tensors are dense [outer, n, inner].
namespace cpu {
void softmax(bool log, const Tensor& y, const Tensor& x, ReduceSizes sizes);
void softmax_backward(bool log, const Tensor& dx, const Tensor& dy, const Tensor& y,
                      ReduceSizes sizes);
// options.weight is dense, in the dtype of the rows.
void cross_entropy(const NllRows& rows, const Tensor& logits, const Tensor& target,
                   const NllOptions& options);
// scale is [n] or [1], in the dtype of the rows.
void cross_entropy_backward(const Tensor& dlogits, const Tensor& scale, const NllRows& rows,
                            const Tensor& logits, const Tensor& target, const NllOptions& options);
}  // namespace cpu
namespace cuda {
void softmax(bool log, const Tensor& y, const Tensor& x, ReduceSizes sizes);
void softmax_backward(bool log, const Tensor& dx, const Tensor& dy, const Tensor& y,
                      ReduceSizes sizes);
// Returns whether it has written dlogits, which may be undefined.
bool cross_entropy(const CrossEntropy& out, const Tensor& logits, const Tensor& target,
                   const NllOptions& options);
// dloss is [n] or 0-dim, in the dtype of the loss.
void cross_entropy_backward(const Tensor& dlogits, const Tensor& dloss, const CrossEntropy& forward,
                            const Tensor& logits, const Tensor& target, const NllOptions& options);
}  // namespace cuda

}  // namespace taper::v0::kernels
