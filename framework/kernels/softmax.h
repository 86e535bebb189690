// Softmax and its logarithm along one dimension, and the fused cross entropy.
#pragma once

#include "framework/kernels/reduce.h"

namespace taper {

// What becomes of the losses of a batch. Outside kernels: argument lookup would otherwise find the
// kernel of each loss function beside the function itself.
enum class Reduction : uint8_t { none, mean, sum };

}  // namespace taper

namespace taper::kernels {

Tensor softmax(const Tensor& x, int64_t dim);
Tensor log_softmax(const Tensor& x, int64_t dim);
// dx from dy and the forward's y.
Tensor softmax_backward(const Tensor& dy, const Tensor& y, int64_t dim);
Tensor log_softmax_backward(const Tensor& dy, const Tensor& y, int64_t dim);

struct CrossEntropy {
  Tensor loss;       // [n] for none, else 0-dim; in the logits' dtype
  Tensor logsumexp;  // [n] float32 (float64 for double): what the backward pass needs
};

// logits [n, classes] (floating), target [n] int64 with values in [0, classes) or ignore_index.
// mean divides by the number of targets that are not ignored. A target out of range throws
// IndexError: on the CPU at once, on the GPU at the next synchronising call.
CrossEntropy cross_entropy(const Tensor& logits, const Tensor& target, Reduction reduction,
                           int64_t ignore_index);
// dlogits = (softmax(logits) - onehot(target)) * dloss (divided by the count for mean).
Tensor cross_entropy_backward(const Tensor& dloss, const Tensor& logits, const Tensor& target,
                              const Tensor& logsumexp, Reduction reduction, int64_t ignore_index);

// Dense [outer, n, inner] tensors, along n.
namespace cpu {
void softmax(bool log, const Tensor& y, const Tensor& x, ReduceSizes sizes);
void softmax_backward(bool log, const Tensor& dx, const Tensor& dy, const Tensor& y,
                      ReduceSizes sizes);
// losses [n] float32 (float64 for double), 0 where ignored.
void cross_entropy(const Tensor& losses, const Tensor& logsumexp, const Tensor& logits,
                   const Tensor& target, int64_t ignore_index);
// scale: [n] or [1], in the dtype of logsumexp.
void cross_entropy_backward(const Tensor& dlogits, const Tensor& scale, const Tensor& logits,
                            const Tensor& target, const Tensor& logsumexp, int64_t ignore_index);
}  // namespace cpu
namespace cuda {
void softmax(bool log, const Tensor& y, const Tensor& x, ReduceSizes sizes);
void softmax_backward(bool log, const Tensor& dx, const Tensor& dy, const Tensor& y,
                      ReduceSizes sizes);
void cross_entropy(const Tensor& losses, const Tensor& logsumexp, const Tensor& logits,
                   const Tensor& target, int64_t ignore_index);
void cross_entropy_backward(const Tensor& dlogits, const Tensor& scale, const Tensor& logits,
                            const Tensor& target, const Tensor& logsumexp, int64_t ignore_index);
}  // namespace cuda

}  // namespace taper::kernels
