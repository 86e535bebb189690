// Kernels along dense rows. A group of kLanes threads (one warp or a whole block) processes a row,
// and the order of its sums depends only on the row's length.
#pragma once

#include <algorithm>
#include <cstdint>

#include "framework/kernels/common/arithmetic.h"
#include "framework/kernels/common/math.h"
#include "framework/kernels/elementwise/elementwise.cuh"

namespace taper::v0::kernels::cuda {

inline constexpr int kRowsPerBlock = 8;  // if a warp processes a row

__device__ inline float larger(float a, float b) { return fmaxf(a, b); }
__device__ inline double larger(double a, double b) { return fmax(a, b); }

struct Larger {
  template <class C> __device__ C operator()(C a, C b) const { return larger(a, b); }
};
struct Plus {
  template <class C> __device__ C operator()(C a, C b) const { return a + b; }
};

// Reduces over groups of kLanes lanes. Every lane gets the same bits, because f commutes.
template <int kLanes = kWarp, class C, class F> __device__ C warp_reduce(C x, F f) {
#pragma unroll
  for (int step = kLanes / 2; step > 0; step /= 2) x = f(x, __shfl_xor_sync(~0u, x, step));
  return x;
}

// Reduces x over the kLanes threads of a row. `none` is f's neutral element. All threads of the
// block must call it.
template <int kLanes, class C, class F> __device__ C row_reduce(C x, C none, F f) {
  x = warp_reduce<std::min(kLanes, kWarp)>(x, f);
  if constexpr (kLanes <= kWarp) {
    return x;
  } else {
    __shared__ C parts[kLanes / kWarp];
    __syncthreads();  // the parts of the previous call have been read
    const int lane = threadIdx.x % kWarp;
    if (lane == 0) parts[threadIdx.x / kWarp] = x;
    __syncthreads();
    return warp_reduce(lane < kLanes / kWarp ? parts[lane] : none, f);
  }
}
template <int kLanes, class C> __device__ C row_max(C x) {
  return row_reduce<kLanes>(x, C(-INFINITY), Larger{});
}
template <int kLanes, class C> __device__ C row_sum(C x) {
  return row_reduce<kLanes>(x, C(0), Plus{});
}

// The maximum of the elements seen so far and the sum of exp(x - max) over them, computed in one
// pass (Milakov and Gimelshein 2018). kFast uses the GPU's approximate exponential, for half types.
template <class C, bool kFast = false> struct MaxSum {
  C max = C(-INFINITY);
  C sum = 0;

  // Returns the origin of the exponents. It stays finite while only -inf has been seen.
  __device__ C origin() const { return max == C(-INFINITY) ? C(0) : max; }

  __device__ static C exp(C x) {
    if constexpr (kFast) return fast_exp2(x * C(1.44269504f));
    return math::exp(x);
  }

  template <int N> __device__ void add(const C (&x)[N]) {
    const C before = max;
#pragma unroll
    for (int j = 0; j < N; ++j) max = larger(max, x[j]);
    const C from = origin();
    sum *= exp(before - from);
#pragma unroll
    for (int j = 0; j < N; ++j) sum += exp(x[j] - from);
  }
};

template <class T, int kVec> __device__ void load_row(Compute<T> (&x)[kVec], const T* p) {
  const Vec<T, kVec> v = load_vec<T, kVec>(p);
#pragma unroll
  for (int j = 0; j < kVec; ++j) x[j] = Compute<T>(v.at[j]);
}
template <class T, int kVec> __device__ void store_row(T* p, const Compute<T> (&x)[kVec]) {
  Vec<T, kVec> v;
#pragma unroll
  for (int j = 0; j < kVec; ++j) v.at[j] = convert<T>(x[j]);
  store_vec(p, v);
}

// Combines the results of the kLanes threads of a row; every lane gets the same result.
template <int kLanes, class C, bool kFast>
__device__ MaxSum<C, kFast> row_max_sum(const MaxSum<C, kFast>& mine) {
  MaxSum<C, kFast> all;
  all.max = row_max<kLanes>(mine.max);
  all.sum = row_sum<kLanes>(mine.sum * all.exp(mine.max - all.origin()));
  return all;
}

// Computes MaxSum of a whole row. n is a multiple of kVec.
template <class T, int kVec, int kLanes>
__device__ MaxSum<Compute<T>, kIsHalf<T>> max_sum_of_row(const T* row, int64_t n) {
  using C = Compute<T>;
  constexpr int kLoads = 4;  // loads in flight
  constexpr int64_t kStep = kLanes * kVec;
  MaxSum<C, kIsHalf<T>> mine;
  int64_t i = int64_t(threadIdx.x) * kVec;
  for (; i + (kLoads - 1) * kStep < n; i += kLoads * kStep) {
    C x[kLoads][kVec];
#pragma unroll
    for (int k = 0; k < kLoads; ++k) load_row<T, kVec>(x[k], row + i + k * kStep);
#pragma unroll
    for (int k = 0; k < kLoads; ++k) mine.add(x[k]);
  }
  for (; i < n; i += kStep) {
    C x[kVec];
    load_row<T, kVec>(x, row + i);
    mine.add(x);
  }
  return row_max_sum<kLanes>(mine);
}

// --- launches of blocks (kLanes, rows): a row takes part of a warp, a warp, or a block ---

template <int kLanes>
inline constexpr int kRowThreads = kLanes <= kWarp ? kWarp* kRowsPerBlock : kLanes;
template <int kLanes> dim3 row_block() { return dim3(kLanes, kRowThreads<kLanes> / kLanes); }
template <int kLanes> unsigned row_grid(int64_t rows) {
  return unsigned(std::min(ceil_div(rows, row_block<kLanes>().y), kMaxPiece));
}

// Return the first row of this thread's group, and the distance to its next row.
__device__ inline int64_t first_row() { return int64_t(blockIdx.x) * blockDim.y + threadIdx.y; }
__device__ inline int64_t row_step() { return int64_t(gridDim.x) * blockDim.y; }

// Calls f(Int<kVec>) with the width of 16-byte vectors if all rows of n elements at these pointers
// are aligned, and with 1 otherwise.
template <class T, class F, class... P>
void with_row_vectors(int64_t n, F f, const P*... pointers) {
  constexpr int kVec = 16 / sizeof(T);
  const bool aligned = n % kVec == 0 && (is_aligned(pointers, 16) && ...);
  aligned ? f(Int<kVec>()) : f(Int<1>());
}

}  // namespace taper::v0::kernels::cuda
