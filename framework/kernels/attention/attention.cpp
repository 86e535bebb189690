#include "framework/kernels/attention/attention.h"

#include <algorithm>

#include "framework/cuda/cuda.h"
#include "framework/kernels/common/dispatch.h"
#include "framework/kernels/elementwise/copy.h"
#include "framework/kernels/matmul/matmul.h"

namespace taper::v0::kernels {
namespace {

Tensor readable(const Tensor& x) {
  const bool as_it_is = x.is_cuda() ? has_whole_rows(x) : x.stride(3) == 1;
  return as_it_is ? x : dense(x);
}

// Whether the kernels for compute capability 9.0 are faster than the others: they compute with 64
// or 128 columns, and 128 rows at a time.
bool pays_on_hopper(const Tensor& q, const Tensor& k) {
  return q.size(3) > 32 && std::max(q.size(2), k.size(2)) > 64;
}

// These try implementations in the order of their speed on an H200, and return whether one supports
// the arguments.
bool compute(const AttentionResult& out, const Tensor& q, const Tensor& k, const Tensor& v,
             const AttentionArgs& args) {
  if (q.is_cpu()) {
    cpu::attention(out, q, k, v, args);
    return true;
  }
  if constexpr (kHasCudnn) {
    if (cuda::cudnn_attention(out, q, k, v, args)) return true;
  }
  if constexpr (kHasCuda) return cuda::flash_attention(out, q, k, v, args);
  return false;
}
bool compute_backward(const AttentionGradients& out, const Tensor& dy, const Tensor& q,
                      const Tensor& k, const Tensor& v, const AttentionResult& forward,
                      const AttentionArgs& args) {
  if (q.is_cpu()) {
    cpu::attention_backward(out, dy, q, k, v, forward, args);
    return true;
  }
  const auto by = [&](auto implementation) {
    return implementation(out, dy, q, k, v, forward, args);
  };
  const bool suits_hopper = pays_on_hopper(q, k);
  if constexpr (kHasCuda) {
    if (suits_hopper && q.size(3) <= 64 && by(cuda::hopper_attention_backward)) return true;
  }
  if constexpr (kHasCudnn) {
    if (by(cuda::cudnn_attention_backward)) return true;
  }
  if constexpr (kHasCuda) {
    if (suits_hopper && by(cuda::hopper_attention_backward)) return true;
    return by(cuda::flash_attention_backward);
  }
  return false;
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
  // Like PyTorch's, the result has the layout of q if that is dense.
  const Tensor y = q.is_contiguous() ? Tensor::make({B, H, T, v.size(3)}, q.dtype(), q.device())
                                     : rows_of_heads(B, H, T, v.size(3), q);
  AttentionResult out = {y, Tensor::make({B, H, T}, kFloat32, q.device()), {}};
  if constexpr (kHasCuda) {
    if (args.dropout_p > 0 && args.trains && pays_on_hopper(q, k)) {
      out.kept = cuda::make_kept(q, k, args);
    }
  }
  if (!compute(out, readable(q), readable(k), readable(v), args)) return {};
  multiply_adds += B * H * T * k.size(2) * (q.size(3) + v.size(3));
  return out;
}

bool attention_backward(const AttentionGradients& out, const Tensor& dy, const Tensor& q,
                        const Tensor& k, const Tensor& v, const AttentionResult& forward,
                        const AttentionArgs& args) {
  return compute_backward(out, readable(dy), readable(q), readable(k), readable(v), forward, args);
}

}  // namespace taper::v0::kernels
