// Fused scaled dot-product attention. No matrix of scores is stored, except by cuDNN's backward
// pass while it runs. Arguments that no kernel supports are computed as a composition of other ops
// in autograd/ops/nn/attention_ops.cpp, which also documents the formula.
#pragma once

#include "framework/base/philox.h"
#include "framework/tensor/tensor.h"

namespace taper::v0::kernels {

struct AttentionArgs {
  bool causal = false;  // query i sees keys j <= i
  double scale = 1;
  // Element (b * T + i) * S + j of the random stream decides whether probability (b, i, j) is
  // dropped, as in the op dropout. b counts batch elements and heads.
  double dropout_p = 0;
  PhiloxKey key;
  bool trains = false;  // whether a backward pass may follow
};
struct AttentionResult {
  Tensor y;          // [B, H, T, Dv]: a view of memory ordered [B, T, H, Dv]
  Tensor logsumexp;  // [B, H, T] float32: of each query's scores
  // Which weights dropout has kept, a bit for each, in the order of the kernels that write and read
  // them (KeptBits). Undefined if the backward pass draws the random numbers again, as where the
  // bits would take more memory than q.
  Tensor kept;
};
struct AttentionGradients {
  Tensor dq, dk, dv;
};

// Computes attention of q [B, H, T, D], k [B, H, S, D] and v [B, H, S, Dv]. All have the same
// floating dtype and device, and any strides. Returns undefined tensors if no kernel supports the
// arguments: the GPU's kernels require a half type, the CPU's kernel float32 without dropout.
AttentionResult attention(const Tensor& q, const Tensor& k, const Tensor& v,
                          const AttentionArgs& args);
// Writes all tensors of `out` and returns true, or returns false if no kernel supports the
// arguments.
bool attention_backward(const AttentionGradients& out, const Tensor& dy, const Tensor& q,
                        const Tensor& k, const Tensor& v, const AttentionResult& forward,
                        const AttentionArgs& args);

// Returns whether the columns of x are contiguous and every row starts at a multiple of 16 bytes.
// Both kernels for half types require this of all tensors except logsumexp.
bool has_whole_rows(const Tensor& x);
// Creates [B, H, rows, columns] as a view of memory ordered [B, rows, H, columns], with like's
// dtype and device.
Tensor rows_of_heads(int64_t B, int64_t H, int64_t rows, int64_t columns, const Tensor& like);

// These functions require that each row of the tensors is contiguous.
namespace cpu {
void attention(const AttentionResult& out, const Tensor& q, const Tensor& k, const Tensor& v,
               const AttentionArgs& args);
void attention_backward(const AttentionGradients& out, const Tensor& dy, const Tensor& q,
                        const Tensor& k, const Tensor& v, const AttentionResult& forward,
                        const AttentionArgs& args);
}  // namespace cpu

// These functions use cuDNN, if available, or Taper's tensor-core kernels. They return false
// without writing anything if they do not support the arguments.
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
// For GPUs of compute capability 9.0. With dropout, requires forward.kept.
bool hopper_attention_backward(const AttentionGradients& out, const Tensor& dy, const Tensor& q,
                               const Tensor& k, const Tensor& v, const AttentionResult& forward,
                               const AttentionArgs& args);
// Returns memory for AttentionResult::kept, or an undefined tensor if no kernel needs it.
Tensor make_kept(const Tensor& q, const Tensor& k, const AttentionArgs& args);
}  // namespace cuda

}  // namespace taper::v0::kernels
