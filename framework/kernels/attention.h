// Scaled dot product attention on the GPU, fused: no matrix of scores is kept, and only cuDNN's
// backward pass has one for a moment. On the CPU it is a composition of other ops
// (autograd/ops/attention.cpp), which also says what is computed.
#pragma once

#include "framework/philox.h"
#include "framework/tensor.h"

namespace taper::kernels {

struct AttentionArgs {
  // Added to the scores: undefined, or [batch..., T, S] of any strides and of compute_type(q).
  Tensor mask;
  bool causal = false;  // query i sees keys j <= i
  double scale = 1;
  // Element (b T + i) S + j of the draw decides on probability (b, i, j), as `dropout` has it.
  double dropout_p = 0;
  PhiloxKey key;
};
struct AttentionResult {
  Tensor y;          // [B, T, Dv]
  Tensor logsumexp;  // of each query's scores, [B, T] of compute_type(q); +inf where all are masked
};
struct AttentionGradients {
  Tensor dq, dk, dv;
};

// q [B, T, D], k [B, S, D], v [B, S, Dv] of one floating dtype on one GPU, where B is the product
// of the batch sizes.
AttentionResult attention(const Tensor& q, const Tensor& k, const Tensor& v,
                          const AttentionArgs& args);
AttentionGradients attention_backward(const Tensor& dy, const Tensor& q, const Tensor& k,
                                      const Tensor& v, const AttentionResult& forward,
                                      const AttentionArgs& args);

// Dense tensors; delta [B, T] is the sum of dy * y over Dv, in compute_type(q).
namespace cuda {
void attention(const AttentionResult& out, const Tensor& q, const Tensor& k, const Tensor& v,
               const AttentionArgs& args);
void attention_backward(const AttentionGradients& out, const Tensor& dy, const Tensor& q,
                        const Tensor& k, const Tensor& v, const Tensor& logsumexp,
                        const Tensor& delta, const AttentionArgs& args);
// By cuDNN, where there is one; false, with nothing done, for what it does not take.
bool cudnn_attention(const AttentionResult& out, const Tensor& q, const Tensor& k, const Tensor& v,
                     const AttentionArgs& args);
bool cudnn_attention_backward(const AttentionGradients& out, const Tensor& dy, const Tensor& q,
                              const Tensor& k, const Tensor& v, const AttentionResult& forward,
                              const AttentionArgs& args);
}  // namespace cuda

}  // namespace taper::kernels
