// Launches the kernels of flash_attention.cuh: attention of half types on the tensor cores. Sums
// are in float, and the weights are rounded to the half type.
#include "framework/kernels/attention/flash_attention.cuh"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <initializer_list>

#include "framework/cuda/runtime.h"
#include "framework/kernels/attention/attention.h"
#include "framework/kernels/common/dispatch.h"
#include "framework/kernels/common/kernel_launch.h"
#include "framework/kernels/elementwise/elementwise.cuh"

namespace taper::v0::kernels::cuda {
namespace {

using namespace flash;

bool takes(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionArgs& args,
           std::initializer_list<const Tensor*> all) {
  if (!suits(q, k, v, args, all)) return false;
  cudaFuncAttributes built;
  const taper::cuda::Launch on(q);
  TAPER_CUDA_CHECK(cudaFuncGetAttributes(&built, forward_kernel<Half, 32, false>));
  return built.ptxVersion >= 80;
}

unsigned blocks_of(const Tensor& rows) {
  const int64_t blocks = rows.size(0) * rows.size(1) * ceil_div(rows.size(2), kRows);
  assert(blocks <= kMaxPiece);
  return unsigned(blocks);
}

template <bool drops> using Drops = std::bool_constant<drops>;

// Calls f(TypeTag<T>, Int<columns including padding>, Drops).
template <class F> void visit(const Tensor& q, const AttentionArgs& args, F f) {
  const auto with_columns = [&](auto columns) {
    visit_half(q.dtype(), [&](auto tag) {
      args.dropout_p > 0 ? f(tag, columns, Drops<true>()) : f(tag, columns, Drops<false>());
    });
  };
  if (q.size(3) <= 32) return with_columns(Int<32>());
  if (q.size(3) <= 64) return with_columns(Int<64>());
  if (q.size(3) <= 96) return with_columns(Int<96>());
  with_columns(Int<128>());
}

}  // namespace

bool flash_attention(const AttentionResult& out, const Tensor& q, const Tensor& k, const Tensor& v,
                     const AttentionArgs& args) {
  if (!takes(q, k, v, args, {&q, &k, &v, &out.y})) return false;
  const taper::cuda::Launch on(q);
  visit(q, args, [&]<class T, int kD, bool kDrops>(TypeTag<T>, Int<kD>, Drops<kDrops>) {
    on.run(forward_kernel<T, kD, kDrops>, {blocks_of(q), flash::kThreads},
           problem_of<T>(q, k, v, out.logsumexp, out.kept, args), matrix<T>(out.y));
  });
  on.check("scaled_dot_product_attention");
  return true;
}

bool flash_attention_backward(const AttentionGradients& out, const Tensor& dy, const Tensor& q,
                              const Tensor& k, const Tensor& v, const AttentionResult& forward,
                              const AttentionArgs& args) {
  if (!takes(q, k, v, args, {&q, &k, &v, &dy, &forward.y, &out.dq, &out.dk, &out.dv})) return false;
  const taper::cuda::Launch on(q);
  const taper::cuda::Scratch delta(forward.logsumexp.nbytes(), on.device);
  visit(q, args, [&]<class T, int kD, bool kDrops>(TypeTag<T>, Int<kD>, Drops<kDrops>) {
    Problem<T> in = problem_of<T>(q, k, v, forward.logsumexp, {}, args);
    in.y = matrix<T>(forward.y), in.dy = matrix<T>(dy);
    in.delta = delta.as<float>();
    on.run(query_kernel<T, kD, kDrops>, {blocks_of(q), flash::kThreads}, in, matrix<T>(out.dq));
    on.run(key_kernel<T, kD, kDrops>, {blocks_of(k), flash::kThreads}, in, matrix<T>(out.dk),
           matrix<T>(out.dv));
  });
  on.check("scaled_dot_product_attention_backward");
  return true;
}

}  // namespace taper::v0::kernels::cuda
