// Scaled dot product attention, fused: no matrix of scores is kept, and only cuDNN's backward pass
// has one for a moment. What no kernel takes is a composition of other ops
// (autograd/ops/nn/attention_ops.cpp), which also says what is computed.
#pragma once

#include "framework/base/philox.h"
#include "framework/tensor/tensor.h"

namespace taper::v0::kernels {

struct AttentionArgs {
  bool causal = false;  // query i sees keys j <= i
  double scale = 1;
  // Element (b T + i) S + j of the draw decides on probability (b, i, j), as `dropout` has it; b
  // counts batch elements and heads.
  double dropout_p = 0;
  PhiloxKey key;
};
struct AttentionResult {
  Tensor y;          // [B, H, T, Dv]: a view of memory [B, T, H, Dv]
  Tensor logsumexp;  // of each query's scores, [B, H, T] of float32
};
struct AttentionGradients {
  Tensor dq, dk, dv;
};

// q [B, H, T, D], k [B, H, S, D], v [B, H, S, Dv] of one floating dtype on one device, of any
// strides, as all tensors here. Undefined where no kernel takes it: those of the GPU are for half
// types, that of the CPU for float32 without dropout.
AttentionResult attention(const Tensor& q, const Tensor& k, const Tensor& v,
                          const AttentionArgs& args);
// Writes all of `out`, or says that no kernel takes it.
bool attention_backward(const AttentionGradients& out, const Tensor& dy, const Tensor& q,
                        const Tensor& k, const Tensor& v, const AttentionResult& forward,
                        const AttentionArgs& args);

// Whether the columns of x are side by side, and every row at a multiple of 16 bytes: what the two
// kernels for half types want of all tensors but the logsumexp.
bool has_whole_rows(const Tensor& x);
// [B, H, rows, columns] as a view of memory [B, rows, H, columns].
Tensor rows_of_heads(int64_t B, int64_t H, int64_t rows, int64_t columns, const Tensor& like);

// Rows are dense.
namespace cpu {
void attention(const AttentionResult& out, const Tensor& q, const Tensor& k, const Tensor& v,
               const AttentionArgs& args);
void attention_backward(const AttentionGradients& out, const Tensor& dy, const Tensor& q,
                        const Tensor& k, const Tensor& v, const AttentionResult& forward,
                        const AttentionArgs& args);
}  // namespace cpu

// By cuDNN, where there is one, and by our own kernels on the tensor cores; false, with nothing
// done, for what they do not take.
namespace cuda {
bool cudnn_attention(const AttentionResult& out, const Tensor& q, const Tensor& k, const Tensor& v,
                     const AttentionArgs& args);
bool cudnn_attention_backward(const AttentionGradients& out, const Tensor& dy, const Tensor& q,
                              const Tensor& k, const Tensor& v, const AttentionResult& forward,
                              const AttentionArgs& args);
bool flash_attention(const AttentionResult& out, const Tensor& q, const Tensor& k, const Tensor& v,
                     const AttentionArgs& args);
bool flash_attention_backward(const AttentionGradients& out, const Tensor& dy, const Tensor& q,
                              const Tensor& k, const Tensor& v, const AttentionResult& forward,
                              const AttentionArgs& args);
}  // namespace cuda

}  // namespace taper::v0::kernels
