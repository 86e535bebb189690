// Cross entropy of rows of logits, forward and backward. Sums are in float (in double for double).
// The forward pass reads the logits once; the backward pass reads and writes once. If the forward
// pass also computes the gradient, it holds rows in shared memory and writes the gradient for dloss
// = 1. The backward pass then has work to do only if dloss differs from 1.
#include <algorithm>
#include <cstdint>

#include <cuda_pipeline_primitives.h>

#include "framework/cuda/runtime.h"
#include "framework/kernels/common/dispatch.h"
#include "framework/kernels/common/kernel_launch.h"
#include "framework/kernels/common/math.h"
#include "framework/kernels/loss/softmax.h"
#include "framework/kernels/reduce/row_reduce.cuh"

namespace taper::v0::kernels::cuda {
namespace {

using taper::cuda::BadIndex;
using taper::cuda::Launch;

constexpr int64_t kShortRow = 64;   // longest row for eight threads
constexpr int64_t kWarpRow = 1024;  // longest row for one warp
constexpr int64_t kLoneRows = 256;  // up to this many short rows are processed by one block

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

// The outputs of the forward pass, apart from the gradient.
template <class C> struct Outputs {
  C *losses, *weights, *logsumexp;
  void* loss;  // 0-dim; null: no reduction of the losses
  DType loss_dtype;
  C* total;  // null: the loss is a sum
  bool has_total;

  // Reduces the losses. Called by a block's first kLanes threads. The order of the sum depends only
  // on the number of rows.
  template <int kLanes> __device__ void reduce(int64_t rows) const {
    const int thread = int(threadIdx.y * blockDim.x + threadIdx.x);
    C sum = 0, all = 0;
#pragma unroll 4
    for (int64_t r = thread; r < rows; r += kLanes) {
      sum += losses[r];
      all += weights[r];
    }
    sum = row_sum<kLanes>(sum);
    all = row_sum<kLanes>(all);
    if (thread != 0) return;
    if (total && has_total) all = *total;
    if (total && !has_total) *total = all;
    store_any<C>(static_cast<char*>(loss), loss_dtype, 0, total ? sum / all : sum);
  }
};

template <class T> struct Problem {
  using C = Compute<T>;
  const T* logits;
  Targets targets;
  const C* of_class;
  int64_t rows;
  BadIndex* slot;
  const char* op;

  __device__ C weight(int64_t r) const {
    if (!targets.counts(r)) return C(0);
    return of_class ? of_class[targets.at[r]] : C(1);
  }
  // Stores the loss (log(sum(exp(x))) - x[target]) * weight[target]. For log-probabilities the
  // first term is omitted. The loss of an ignored row is 0.
  __device__ void store(const Outputs<C>& to, int64_t r, C max, C log_sum, C x) const {
    const C w = weight(r);
    to.losses[r] = targets.counts(r) ? (log_sum - (x - max)) * w : C(0);
    to.weights[r] = w;
    to.logsumexp[r] = max + log_sum;
    if (targets.is_bad(r)) {
      taper::cuda::report_bad_index(slot, op, targets.at[r], targets.classes);
    }
  }
};

template <int kLanes> inline constexpr int kForwardThreads = kLanes <= kWarp ? 1024 : kLanes;

// Computes the losses of rows. If there is only one block, it also reduces them.
template <class T, int kVec, int kLanes>
__global__ void __launch_bounds__(kForwardThreads<kLanes>)
    forward_kernel(const Problem<T> problem, const Outputs<Compute<T>> to) {
  begin_kernel();
  using C = Compute<T>;
  const int64_t n = problem.targets.classes;
  constexpr bool kShares = kLanes < kWarp;  // a warp has several rows, which it reduces together
  for (int64_t r = first_row(); kShares ? r - r % 4 < problem.rows : r < problem.rows;
       r += row_step()) {
    const bool exists = r < problem.rows;
    const int64_t row = exists ? r : problem.rows - 1;
    C max = 0, log_sum = 0, x = 0;
    const bool counts = problem.targets.counts(row);
    if (counts) x = C(problem.logits[row * n + problem.targets.at[row]]);
    if ((kShares || counts) && !problem.targets.log_probabilities) {
      const auto sums = max_sum_of_row<T, kVec, kLanes>(problem.logits + row * n, n);
      max = sums.max;
      log_sum = math::log(sums.sum);
    }
    if (threadIdx.x == 0 && exists) problem.store(to, r, max, log_sum, x);
  }
  if (kLanes > kWarp || gridDim.x > 1 || !to.loss) return;
  __syncthreads();
  if (threadIdx.y * kLanes < kWarp) to.template reduce<kWarp>(problem.rows);
}

template <class C>
__global__ void __launch_bounds__(1024) reduce_kernel(const Outputs<C> to, int64_t rows) {
  begin_kernel();
  to.template reduce<1024>(rows);
}

// Computes dlogits = (exp(x - logsumexp) - onehot(target)) * scale. For log-probabilities the
// exponential is omitted. The gradient of an ignored row is 0.
template <class T> struct RowGradient {
  using C = Compute<T>;
  int64_t target;
  C logsumexp, scale;
  bool counts, log_probabilities;

  // Computes the gradients in place, for the elements from i on.
  template <int kVec> __device__ void apply(C (&x)[kVec], int64_t i) const {
#pragma unroll
    for (int j = 0; j < kVec; ++j) {
      const C hot = i + j == target ? C(1) : C(0);
      const C p = log_probabilities ? C(0) : MaxSum<C, kIsHalf<T>>::exp(x[j] - logsumexp);
      x[j] = counts ? (p - hot) * scale : C(0);
    }
  }
};

// A row's vectors are fetched in this many parts, so that the first are processed while the others
// are loading.
constexpr int kParts = 4;

// Computes the forward pass and the gradient for dloss = 1. A block holds one row in shared memory.
// Each thread processes the vectors that it fetched itself, and replaces them with those of the
// next row.
template <class T, int kLanes>
__global__ void __launch_bounds__(kLanes)
    gradient_kernel(const Problem<T> problem, const Outputs<Compute<T>> to, T* dlogits) {
  begin_long_kernel();
  using C = Compute<T>;
  constexpr int kVec = 16 / sizeof(T);
  extern __shared__ uint4 memory[];
  T* const held = reinterpret_cast<T*>(memory);
  const Targets& targets = problem.targets;
  const int64_t n = targets.classes, rows = problem.rows;
  const int part = int((n / kVec + kLanes * kParts - 1) / (kLanes * kParts)) * kLanes * kVec;
  // Calls f(i) for this thread's vectors of a part.
  const auto each = [&](int p, const auto& f) {
    const int end = min(int(n), (p + 1) * part);
    for (int i = p * part + int(threadIdx.x) * kVec; i < end; i += kLanes * kVec) f(i);
  };
  const auto fetch = [&](int64_t r, int i) {
    __pipeline_memcpy_async(held + i, problem.logits + r * n + i, 16);
  };
#pragma unroll
  for (int p = 0; p < kParts; ++p) {
    each(p, [&](int i) { fetch(blockIdx.x, i); });
    __pipeline_commit();
  }
  C share = 1;
  if (to.total) {
    C total = 0;
    for (int64_t r = threadIdx.x; r < rows; r += kLanes) total += problem.weight(r);
    total = row_sum<kLanes>(total);
    share = C(1) / total;
    if (blockIdx.x == 0 && threadIdx.x == 0) *to.total = total;
  }
  for (int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
    const int64_t target = targets.at[r];
    MaxSum<C, kIsHalf<T>> mine;
#pragma unroll
    for (int p = 0; p < kParts; ++p) {
      __pipeline_wait_prior(kParts - 1 - p);
      each(p, [&](int i) {
        C x[kVec];
        load_row<T, kVec>(x, held + i);
        mine.add(x);
      });
    }
    const auto sums = row_max_sum<kLanes>(mine);
    const C log_sum = math::log(sums.sum);
    const bool counts = targets.counts(r);
    const int64_t known = counts ? target : 0;  // stored by the thread that holds this element
    if (known / kVec % kLanes == threadIdx.x) {
      problem.store(to, r, sums.max, log_sum, C(held[known]));
    }
    const RowGradient<T> gradient{target, sums.max + log_sum, share * problem.weight(r), counts,
                                  false};
    const int64_t next = r + gridDim.x;
#pragma unroll
    for (int p = 0; p < kParts; ++p) {
      each(p, [&](int i) {
        C x[kVec];
        load_row<T, kVec>(x, held + i);
        gradient.apply(x, i);
        store_row<T, kVec>(dlogits + r * n + i, x);
        if (next < rows) fetch(next, i);
      });
      __pipeline_commit();
    }
  }
}

// Factors of the rows' gradients: dloss * weight, divided by the total for mean.
template <class C> struct Scales {
  const char* dloss;
  DType dtype;
  bool single;     // one dloss for all rows
  const C* total;  // null for 1
  const C *weights, *logsumexp;

  __device__ C of_loss(int64_t r) const { return load_any<C>(dloss, dtype, single ? 0 : r); }
  __device__ C of_row(int64_t r) const {
    return (total ? of_loss(r) / *total : of_loss(r)) * weights[r];
  }
};

// Computes dlogits. If `made`, dlogits already contains the gradient for dloss = 1.
template <class T, int kVec, int kLanes>
__global__ void __launch_bounds__(kRowThreads<kLanes>)
    backward_kernel(T* dlogits, const Scales<Compute<T>> scales, const T* logits,
                    const Targets targets, int64_t rows, bool made) {
  begin_kernel();
  using C = Compute<T>;
  constexpr int kLoads = 4;
  const int64_t n = targets.classes;
  if (made && scales.of_loss(0) == C(1)) return;
  for (int64_t r = first_row(); r < rows; r += row_step()) {
    const RowGradient<T> gradient{targets.at[r], scales.logsumexp[r], scales.of_row(r),
                                  targets.counts(r), targets.log_probabilities};
    for (int64_t i = int64_t(threadIdx.x) * kVec; i < n; i += kLanes * kVec * kLoads) {
      C x[kLoads][kVec];
#pragma unroll
      for (int k = 0; k < kLoads; ++k) {
        const int64_t at = i + k * kLanes * kVec;
        if (at < n) load_row<T, kVec>(x[k], logits + r * n + at);
      }
#pragma unroll
      for (int k = 0; k < kLoads; ++k) {
        const int64_t at = i + k * kLanes * kVec;
        gradient.apply(x[k], at);
        if (at < n) store_row<T, kVec>(dlogits + r * n + at, x[k]);
      }
    }
  }
}

// Calls f(kVec, kLanes), both integral constants, for rows of n logits.
template <class T, class F, class... P> void for_rows(int64_t n, F f, P*... pointers) {
  with_row_vectors<T>(
      n,
      [&](auto vec) {
        if (n <= kShortRow) return f(vec, Int<8>());
        n <= kWarpRow ? f(vec, Int<kWarp>()) : f(vec, Int<512>());
      },
      pointers...);
}

int attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  TAPER_CUDA_CHECK(cudaDeviceGetAttribute(&value, which, device));
  return value;
}

// Launches gradient_kernel if it supports these rows.
template <class T>
bool run_with_gradient(const Problem<T>& problem, const Outputs<Compute<T>>& to, T* dlogits,
                       const Launch& on) {
  const int64_t bytes = problem.targets.classes * int64_t(sizeof(T));
  const int64_t most = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, on.device) - 1024;
  if (problem.targets.classes <= kWarpRow || bytes > most || bytes % 16 != 0 ||
      !is_aligned(problem.logits, 16)) {
    return false;
  }
  const auto launch = [&]<int kLanes>(Int<kLanes>) {
    const auto kernel = gradient_kernel<T, kLanes>;
    TAPER_CUDA_CHECK(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(bytes)));
    const int64_t fit =
        attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor, on.device) / (bytes + 2048);
    const int64_t blocks =
        std::clamp<int64_t>(fit, 1, 2048 / kLanes) * taper::cuda::multi_processor_count(on.device);
    on.run(kernel, {unsigned(std::min(blocks, problem.rows)), kLanes, size_t(bytes)}, problem, to,
           dlogits);
  };
  bytes > 64 * 1024 ? launch(Int<1024>()) : launch(Int<256>());
  return true;
}

Targets targets_of(const Tensor& logits, const Tensor& target, const NllOptions& options) {
  return {pointer<const int64_t>(target), options.ignore_index, logits.size(1),
          options.log_probabilities};
}

}  // namespace

bool cross_entropy(const CrossEntropy& out, const Tensor& logits, const Tensor& target,
                   const NllOptions& options) {
  const int64_t rows = logits.size(0), n = logits.size(1);
  const Launch on(logits);
  bool made = false;
  visit_floating(logits.dtype(), [&]<class T>(TypeTag<T>) {
    using C = Compute<T>;
    const bool reduces = out.loss.dim() == 0;
    const Problem<T> problem{pointer<const T>(logits),
                             targets_of(logits, target, options),
                             pointer<const C>(options.weight),
                             rows,
                             taper::cuda::bad_index_slot(on.device),
                             options.name()};
    Outputs<C> to{pointer<C>(out.rows.losses),
                  pointer<C>(out.rows.weights),
                  pointer<C>(out.rows.logsumexp),
                  reduces ? out.loss.data_ptr() : nullptr,
                  out.loss.dtype(),
                  pointer<C>(out.total),
                  false};
    made = out.dlogits.defined() && rows > 0 &&
           run_with_gradient(problem, to, pointer<T>(out.dlogits), on);
    to.has_total = made;
    const bool alone = n <= kWarpRow && rows <= kLoneRows;
    if (!made && (rows > 0 || alone)) {
      for_rows<T>(
          n,
          [&]<int kVec, int kLanes>(Int<kVec>, Int<kLanes>) {
            dim3 block = row_block<kLanes>();
            // A block uses whole warps.
            if (alone)
              block.y = unsigned(std::clamp<int64_t>(ceil_div(rows, 4) * 4, 4, 1024 / kLanes));
            const unsigned grid = alone ? 1 : row_grid<kLanes>(rows);
            on.run(forward_kernel<T, kVec, kLanes>, {grid, block}, problem, to);
          },
          problem.logits);
    }
    if (reduces && !alone) on.run(reduce_kernel<C>, {1, 1024}, to, rows);
  });
  on.check("cross_entropy");
  return made;
}

void cross_entropy_backward(const Tensor& dlogits, const Tensor& dloss, const CrossEntropy& saved,
                            const Tensor& logits, const Tensor& target, const NllOptions& options) {
  const int64_t rows = logits.size(0), n = logits.size(1);
  const Launch on(logits);
  visit_floating(logits.dtype(), [&]<class T>(TypeTag<T>) {
    using C = Compute<T>;
    const T* x = pointer<const T>(logits);
    T* dx = pointer<T>(dlogits);
    const bool made = saved.dlogits.defined();
    const Scales<C> scales{pointer<const char>(dloss),
                           dloss.dtype(),
                           dloss.dim() == 0,
                           pointer<const C>(saved.total),
                           pointer<const C>(saved.rows.weights),
                           pointer<const C>(saved.rows.logsumexp)};
    for_rows<T>(
        n,
        [&]<int kVec, int kLanes>(Int<kVec>, Int<kLanes>) {
          unsigned grid = row_grid<kLanes>(rows);
          // Few blocks are enough, because they usually have no work.
          if (made) {
            grid = std::min(grid, 4u * unsigned(taper::cuda::multi_processor_count(on.device)));
          }
          on.run(backward_kernel<T, kVec, kLanes>, {grid, row_block<kLanes>()}, dx, scales, x,
                 targets_of(logits, target, options), rows, made);
        },
        x, dx);
  });
  on.check("cross_entropy_backward");
}

}  // namespace taper::v0::kernels::cuda
