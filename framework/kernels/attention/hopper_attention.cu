// Launches the kernels of hopper_attention.cuh.
#include "framework/kernels/attention/hopper_attention.cuh"

#include <algorithm>

#include "framework/cuda/runtime.h"
#include "framework/kernels/attention/attention.h"
#include "framework/kernels/common/kernel_launch.h"
#include "framework/kernels/elementwise/elementwise.cuh"

namespace taper::v0::kernels::cuda {
namespace {

// Whether CMake lets this source be compiled for sm_90a, too.
#ifdef TAPER_WITH_SM90A
constexpr bool kIsBuilt = true;
#else
constexpr bool kIsBuilt = false;
#endif

bool can_run(const Tensor& x) {
  return kIsBuilt && taper::cuda::compute_capability(x.device().index()) == 900;
}

template <class Kernel> void allow_shared(Kernel kernel, size_t bytes) {
  TAPER_CUDA_CHECK(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(bytes)));
}

template <class T, int kD, bool kDrops>
void run(const AttentionGradients& out, const flash::Problem<T>& in, float* lse,
         const taper::cuda::Launch& on) {
  using namespace hopper;
  const int blocks = taper::cuda::multi_processor_count(on.device);
  const size_t shared = Shared<T, kD, kDrops>::bytes();
  const auto launch = [&](auto kernel, int rows, const auto&... args) {
    allow_shared(kernel, shared);
    const Schedule schedule(rows, in.batch, blocks);
    const unsigned grid = unsigned(std::min(schedule.units, blocks));
    on.run(kernel, {grid, hopper::kThreads, shared}, in, schedule, lse, args...);
  };
  launch(query_kernel<T, kD, kDrops>, in.T_, flash::matrix<T>(out.dq));
  launch(key_kernel<T, kD, kDrops>, in.S, flash::matrix<T>(out.dk), flash::matrix<T>(out.dv));
}

}  // namespace

Tensor make_kept(const Tensor& q, const Tensor& k, const AttentionArgs& args) {
  const int64_t T = q.size(2), S = k.size(2), D = q.size(3);
  const bool is_larger_than_q = S > 16 * D;  // a bit for each of T * S, and 16 for each of T * D
  if (!can_run(q) || args.dropout_p == 0 || D > 64 || is_larger_than_q) return {};
  const Shape words = {q.size(0) * q.size(1), ceil_div(T, flash::KeptBits::kQueries),
                       ceil_div(S, flash::KeptBits::kKeys), 32};
  return Tensor::make(words, kInt32, q.device());
}

bool hopper_attention_backward(const AttentionGradients& out, const Tensor& dy, const Tensor& q,
                               const Tensor& k, const Tensor& v, const AttentionResult& forward,
                               const AttentionArgs& args) {
  if (!can_run(q) || (args.dropout_p > 0 && !forward.kept.defined())) return false;
  if (!flash::suits(q, k, v, args, {&q, &k, &v, &dy, &forward.y, &out.dq, &out.dk, &out.dv})) {
    return false;
  }
  const taper::cuda::Launch on(q);
  // Both hold a number for each query.
  const size_t bytes = forward.logsumexp.nbytes();
  const taper::cuda::Scratch delta(bytes, on.device), lse(bytes, on.device);
  visit_half(q.dtype(), [&]<class T>(TypeTag<T>) {
    flash::Problem<T> in = flash::problem_of<T>(q, k, v, forward.logsumexp, forward.kept, args);
    in.y = flash::matrix<T>(forward.y), in.dy = flash::matrix<T>(dy);
    in.delta = delta.as<float>();
    if (args.dropout_p > 0) return run<T, 64, true>(out, in, lse.as<float>(), on);
    if (q.size(3) <= 64) return run<T, 64, false>(out, in, lse.as<float>(), on);
    run<T, 128, false>(out, in, lse.as<float>(), on);
  });
  on.check("scaled_dot_product_attention_backward");
  return true;
}

}  // namespace taper::v0::kernels::cuda
