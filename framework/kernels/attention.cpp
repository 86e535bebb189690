#include "framework/kernels/attention.h"

#include "framework/cuda.h"
#include "framework/kernels/binary.h"
#include "framework/kernels/copy.h"
#include "framework/kernels/dispatch.h"
#include "framework/kernels/multiply_adds.h"
#include "framework/kernels/reduce.h"

namespace taper::kernels {

AttentionResult attention(const Tensor& q, const Tensor& k, const Tensor& v,
                          const AttentionArgs& args) {
  const int64_t B = q.size(0), T = q.size(1);
  multiply_adds += B * T * k.size(1) * (q.size(2) + v.size(2));
  const AttentionResult out = {Tensor::make({B, T, v.size(2)}, q.dtype(), q.device()),
                               Tensor::make({B, T}, compute_type(q.dtype()), q.device())};
  const Tensor queries = dense(q), keys = dense(k), values = dense(v);
  if constexpr (kHasCudnn) {
    if (cuda::cudnn_attention(out, queries, keys, values, args)) return out;
  }
  if constexpr (kHasCuda) cuda::attention(out, queries, keys, values, args);
  return out;
}

AttentionGradients attention_backward(const Tensor& dy, const Tensor& q, const Tensor& k,
                                      const Tensor& v, const AttentionResult& forward,
                                      const AttentionArgs& args) {
  const Tensor given = dense(dy), queries = dense(q), keys = dense(k), values = dense(v);
  const auto like = [](const Tensor& x) { return Tensor::make(x.shape(), x.dtype(), x.device()); };
  const AttentionGradients out = {like(q), like(k), like(v)};
  if constexpr (kHasCudnn) {
    if (cuda::cudnn_attention_backward(out, given, queries, keys, values, forward, args))
      return out;
  }
  const DType wide = compute_type(q.dtype());
  const Tensor products = binary(BinaryOp::mul, packed(dy, wide), packed(forward.y, wide));
  const Tensor delta = reduce(ReduceOp::sum, products, {2});
  if constexpr (kHasCuda) {
    cuda::attention_backward(out, given, queries, keys, values, forward.logsumexp, delta, args);
  }
  return out;
}

}  // namespace taper::kernels
