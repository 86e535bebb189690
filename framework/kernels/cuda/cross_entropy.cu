// Cross entropy of rows of logits, forward and backward (`=`; sums in float, in double for double).
// Forward: one read; backward: one read and one write.
#include <cstdint>

#include "framework/cuda/runtime.h"
#include "framework/kernels/cuda/rows.cuh"
#include "framework/kernels/each.h"
#include "framework/kernels/math.h"
#include "framework/kernels/softmax.h"

namespace taper::kernels::cuda {
namespace {

using taper::cuda::BadIndex;
using taper::cuda::Launch;

struct Targets {
  const int64_t* at;
  int64_t ignore_index;
  int64_t classes;
  bool log_probabilities;

  __device__ bool counts(int64_t row) const {
    return at[row] != ignore_index && at[row] >= 0 && at[row] < classes;
  }
  __device__ bool is_bad(int64_t row) const { return at[row] != ignore_index && !counts(row); }
};

// loss = (log(sum(exp(x))) - x[target]) * weight[target], without the first term for
// log-probabilities; rows that do not count get 0.
template <class T, int kVec, int kLanes>
__global__ void __launch_bounds__(kRowThreads<kLanes>)
    forward_kernel(Compute<T>* losses, Compute<T>* weights, Compute<T>* logsumexp, const T* logits,
                   Targets targets, const Compute<T>* of_class, int64_t rows, BadIndex* slot,
                   const char* op) {
  using C = Compute<T>;
  const int64_t n = targets.classes;
  for (int64_t r = first_row(); r < rows; r += row_step()) {
    C loss = 0, weight = 0, lse = 0;
    // The same for all threads of a row, so that they reduce together.
    if (targets.counts(r)) {
      const T* row = logits + r * n;
      weight = of_class ? of_class[targets.at[r]] : C(1);
      loss = -C(row[targets.at[r]]);
      if (!targets.log_probabilities) {
        const MaxSum<C> total = max_sum_of_row<T, kVec, kLanes>(row, n);
        const C log_sum = math::log(total.sum);
        lse = total.max + log_sum;
        loss = log_sum - (C(row[targets.at[r]]) - total.max);
      }
      loss *= weight;
    }
    if (threadIdx.x != 0) continue;
    losses[r] = loss;
    weights[r] = weight;
    logsumexp[r] = lse;
    if (targets.is_bad(r)) taper::cuda::report_bad_index(slot, op, targets.at[r], n);
  }
}

// dlogits = (exp(x - logsumexp) - onehot(target)) * scale * weight, without the exponential for
// log-probabilities; rows that do not count get 0.
template <class T, int kVec, int kLanes>
__global__ void __launch_bounds__(kRowThreads<kLanes>)
    backward_kernel(T* dlogits, const Compute<T>* scales, bool one_scale, const T* logits,
                    Targets targets, const Compute<T>* weights, const Compute<T>* logsumexp,
                    int64_t rows) {
  using C = Compute<T>;
  const int64_t n = targets.classes;
  for (int64_t r = first_row(); r < rows; r += row_step()) {
    const bool counts = targets.counts(r);
    const int64_t target = targets.at[r];
    const C scale = scales[one_scale ? 0 : r] * weights[r];
    const C lse = logsumexp[r];
#pragma unroll 4
    for (int64_t i = int64_t(threadIdx.x) * kVec; i < n; i += kLanes * kVec) {
      C x[kVec];
      load_row<T, kVec>(x, logits + r * n + i);
#pragma unroll
      for (int j = 0; j < kVec; ++j) {
        const C hot = i + j == target ? C(1) : C(0);
        const C p = targets.log_probabilities ? C(0) : math::exp(x[j] - lse);
        x[j] = counts ? (p - hot) * scale : C(0);
      }
      store_row<T, kVec>(dlogits + r * n + i, x);
    }
  }
}

// Calls f(kVec, kLanes), both integral constants, for rows of n logits.
template <class T, class F, class... P> void for_rows(int64_t n, F f, P*... pointers) {
  with_row_vectors<T>(
      n,
      [&](auto vec) {
        if (n <= 1024) return f(vec, std::integral_constant<int, kWarp>{});
        f(vec, std::integral_constant<int, 512>{});
      },
      pointers...);
}

}  // namespace

void cross_entropy(const NllRows& to, const Tensor& logits, const Tensor& target,
                   const NllOptions& options) {
  const int64_t rows = logits.size(0), n = logits.size(1);
  if (rows == 0) return;
  const Launch on(logits);
  BadIndex* slot = taper::cuda::bad_index_slot(on.device);
  const Targets targets{pointer<const int64_t>(target), options.ignore_index, n,
                        options.log_probabilities};
  visit_floating(logits.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = Compute<T>;
    const T* x = pointer<const T>(logits);
    const auto launch = [&](auto vec, auto lanes) {
      constexpr int kVec = decltype(vec)::value, kLanes = decltype(lanes)::value;
      forward_kernel<T, kVec, kLanes>
          <<<row_grid<kLanes>(rows), row_block<kLanes>(), 0, on.stream>>>(
              pointer<C>(to.losses), pointer<C>(to.weights), pointer<C>(to.logsumexp), x, targets,
              pointer<const C>(options.weight), rows, slot, options.name());
    };
    for_rows<T>(n, launch, x);
  });
  on.check("cross_entropy");
}

void cross_entropy_backward(const Tensor& dlogits, const Tensor& scale, const NllRows& saved,
                            const Tensor& logits, const Tensor& target, const NllOptions& options) {
  const int64_t rows = logits.size(0), n = logits.size(1);
  if (rows == 0 || n == 0) return;
  const Launch on(logits);
  const Targets targets{pointer<const int64_t>(target), options.ignore_index, n,
                        options.log_probabilities};
  visit_floating(logits.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = Compute<T>;
    const T* x = pointer<const T>(logits);
    T* dx = pointer<T>(dlogits);
    const auto launch = [&](auto vec, auto lanes) {
      constexpr int kVec = decltype(vec)::value, kLanes = decltype(lanes)::value;
      backward_kernel<T, kVec, kLanes>
          <<<row_grid<kLanes>(rows), row_block<kLanes>(), 0, on.stream>>>(
              dx, pointer<const C>(scale), scale.numel() == 1, x, targets,
              pointer<const C>(saved.weights), pointer<const C>(saved.logsumexp), rows);
    };
    for_rows<T>(n, launch, x, dx);
  });
  on.check("cross_entropy_backward");
}

}  // namespace taper::kernels::cuda
