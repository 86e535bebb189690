#include "framework/kernels/attention/attention.h"

#include "framework/cuda/cuda.h"
#include "framework/kernels/dispatch.h"
#include "framework/kernels/elementwise/copy.h"
#include "framework/kernels/matmul/matmul.h"

namespace taper::inline v0::kernels {
namespace {

Tensor readable(const Tensor& x) {
  const bool as_it_is = x.is_cuda() ? has_whole_rows(x) : x.stride(3) == 1;
  return as_it_is ? x : dense(x);
}

}  // namespace

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
  const bool suits =
      q.is_cuda() ? is_half(q.dtype()) : q.dtype() == kFloat32 && args.dropout_p == 0;
  if (!suits || q.numel() == 0 || k.numel() == 0 || v.numel() == 0) return {};
  const int64_t B = q.size(0), H = q.size(1), T = q.size(2);
  const AttentionResult out = {rows_of_heads(B, H, T, v.size(3), q),
                               Tensor::make({B, H, T}, kFloat32, q.device())};
  const Tensor queries = readable(q), keys = readable(k), values = readable(v);
  bool done = q.is_cpu();
  if (done) cpu::attention(out, queries, keys, values, args);
  if constexpr (kHasCudnn) {
    done = done || cuda::cudnn_attention(out, queries, keys, values, args);
  }
  if constexpr (kHasCuda) {
    done = done || cuda::flash_attention(out, queries, keys, values, args);
  }
  if (!done) return {};
  multiply_adds += B * H * T * k.size(2) * (q.size(3) + v.size(3));
  return out;
}

bool attention_backward(const AttentionGradients& out, const Tensor& dy, const Tensor& q,
                        const Tensor& k, const Tensor& v, const AttentionResult& forward,
                        const AttentionArgs& args) {
  const Tensor given = readable(dy), queries = readable(q), keys = readable(k),
               values = readable(v);
  bool done = q.is_cpu();
  if (done) {
    cpu::attention_backward(out, given, queries, keys, values, forward.logsumexp, args);
  }
  if constexpr (kHasCudnn) {
    done = done || cuda::cudnn_attention_backward(out, given, queries, keys, values, forward, args);
  }
  if constexpr (kHasCuda) {
    done = done || cuda::flash_attention_backward(out, given, queries, keys, values, forward, args);
  }
  return done;
}

}  // namespace taper::inline v0::kernels
