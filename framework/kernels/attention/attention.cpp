#include "framework/kernels/attention/attention.h"

#include "framework/cuda.h"
#include "framework/kernels/dispatch.h"
#include "framework/kernels/elementwise/binary.h"
#include "framework/kernels/elementwise/copy.h"
#include "framework/kernels/matmul/matmul.h"
#include "framework/kernels/reduce/reduce.h"

namespace taper::kernels {
namespace {

Tensor readable(const Tensor& x) {
  if (!x.is_cuda()) return x.stride(3) == 1 ? x : dense(x);
  return x.element_size() > 2 || has_whole_rows(x) ? x : dense(x);
}

}  // namespace

bool takes_attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionArgs& args) {
  if (q.is_cuda()) return true;
  return q.dtype() == kFloat32 && !args.mask.defined() && args.dropout_p == 0 && q.numel() > 0 &&
         k.numel() > 0 && v.numel() > 0;
}

bool has_whole_rows(const Tensor& x) {
  const int64_t size = int64_t(x.element_size());
  bool whole = x.stride(3) == 1 && reinterpret_cast<uintptr_t>(x.data_ptr()) % 16 == 0;
  for (int d = 0; d < 3; ++d) {
    whole &= x.size(d) == 1 || (x.stride(d) > 0 && x.stride(d) * size % 16 == 0);
  }
  return whole;
}

Tensor rows_of_heads(int64_t B, int64_t H, int64_t rows, int64_t columns, const Tensor& like) {
  const Tensor memory = Tensor::make({B, rows, H, columns}, like.dtype(), like.device());
  return Tensor::make(memory.storage(), {B, H, rows, columns},
                      {rows * H * columns, columns, H * columns, 1}, 0, like.dtype());
}

AttentionResult attention(const Tensor& q, const Tensor& k, const Tensor& v,
                          const AttentionArgs& args) {
  const int64_t B = q.size(0), H = q.size(1), T = q.size(2);
  multiply_adds += B * H * T * k.size(2) * (q.size(3) + v.size(3));
  const AttentionResult out = {rows_of_heads(B, H, T, v.size(3), q),
                               Tensor::make({B, H, T}, compute_type(q.dtype()), q.device())};
  const Tensor queries = readable(q), keys = readable(k), values = readable(v);
  if (!q.is_cuda()) {
    cpu::attention(out, queries, keys, values, args);
    return out;
  }
  if constexpr (kHasCudnn) {
    if (cuda::cudnn_attention(out, queries, keys, values, args)) return out;
  }
  if constexpr (kHasCuda) {
    if (!cuda::flash_attention(out, queries, keys, values, args)) {
      cuda::attention(out, queries, keys, values, args);
    }
  }
  return out;
}

void attention_backward(const AttentionGradients& out, const Tensor& dy, const Tensor& q,
                        const Tensor& k, const Tensor& v, const AttentionResult& forward,
                        const AttentionArgs& args) {
  const Tensor given = readable(dy), queries = readable(q), keys = readable(k),
               values = readable(v);
  if (!q.is_cuda()) {
    return cpu::attention_backward(out, given, queries, keys, values, forward.logsumexp, args);
  }
  if constexpr (kHasCudnn) {
    if (cuda::cudnn_attention_backward(out, given, queries, keys, values, forward, args)) return;
  }
  if constexpr (kHasCuda) {
    if (cuda::flash_attention_backward(out, given, queries, keys, values, forward, args)) return;
    const DType wide = compute_type(q.dtype());
    const Tensor products = binary(BinaryOp::mul, packed(dy, wide), packed(forward.y, wide));
    const Tensor delta = reduce(ReduceOp::sum, products, {3});
    cuda::attention_backward(out, given, queries, keys, values, forward.logsumexp, delta, args);
  }
}

}  // namespace taper::kernels
