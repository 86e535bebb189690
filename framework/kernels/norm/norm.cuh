// Code shared by the normalization kernels.
#pragma once

#include "framework/kernels/common/kernel_launch.h"
#include "framework/kernels/norm/norm.h"
#include "framework/kernels/reduce/row_reduce.cuh"

namespace taper::v0::kernels::cuda {

// The arguments of one kernel call: y is computed from x, or dx if dy is given. G is the type of y
// and dy.
template <class T, class G = T> struct NormArgs {
  using C = Compute<T>;
  NormSizes sizes;
  C eps;
  bool rms;
  C *mean, *rstd;
  const C *weight, *bias, *dots, *sums;
  G* y;
  T* dx;
  const G* dy;
  const T* x;
  const T *residual, *result;
  T* dz;
  bool relu;
  const T* added = nullptr;  // null: nothing is added to dx

  NormArgs(const Norm& n, const Tensor& out, const Tensor& gradient, const Tensor& input,
           const ChannelSums& of_channels)
      : sizes(n.sizes), eps(C(n.eps)), rms(n.rms) {
    mean = pointer<C>(n.mean);
    rstd = pointer<C>(n.rstd);
    weight = pointer<C>(n.weight);
    bias = pointer<C>(n.bias);
    dots = pointer<C>(of_channels.dots);
    sums = pointer<C>(of_channels.sums);
    y = gradient.defined() ? nullptr : pointer<G>(out);
    dx = gradient.defined() ? pointer<T>(out) : nullptr;
    dy = pointer<G>(gradient);
    x = pointer<T>(input);
    residual = pointer<T>(n.residual);
    result = pointer<T>(n.result);
    dz = pointer<T>(n.dz);
    relu = n.relu;
  }
};

// Calls f(Int<kVec>) with a vector width. No vector extends over two channels or, if inner is 1,
// over two groups.
template <class T, class G, class F> void with_vectors(const NormArgs<T, G>& a, F f) {
  const NormSizes& s = a.sizes;
  const int64_t run = s.inner > 1 ? s.inner : s.groups > 0 ? s.per_group() : s.channels;
  with_row_vectors<T>(run, f, a.mean, a.rstd, a.weight, a.bias, a.dots, a.sums, a.y, a.dx, a.dy,
                      a.x, a.residual, a.result, a.dz, a.added);
}

// Loads the parameters of a vector's elements: one for each element if `own`, otherwise one for
// all. `none` is used if p is null.
template <int kVec, class C>
__device__ void load_numbers(C (&out)[kVec], const C* p, int64_t at, bool own, C none) {
  if (p && own) return load_row<C, kVec>(out, p + at);
  const C one = p ? p[at] : none;
#pragma unroll
  for (int j = 0; j < kVec; ++j) out[j] = one;
}

// --- sums over the parts that blocks have written ---

constexpr int kJoinColumns = 8;  // a sector of memory
constexpr int kJoinThreads = 1024;

// Returns the sum of column first + w of parts [count, n] in the first lane of warp w, for the
// first kJoinColumns warps. All kJoinThreads threads of the block must call it.
template <class C>
__device__ C join_columns(const C* parts, int64_t count, int64_t n, int64_t first) {
  __shared__ C joined[kWarp][kJoinColumns + 1];
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int64_t c = first + threadIdx.x % kJoinColumns;
  C sum = 0;
#pragma unroll 4
  for (int64_t p = threadIdx.x / kJoinColumns; p < count; p += kJoinThreads / kJoinColumns) {
    if (c < n) sum += parts[p * n + c];
  }
#pragma unroll
  for (int step = kJoinColumns; step < kWarp; step *= 2) sum += __shfl_xor_sync(~0u, sum, step);
  __syncthreads();  // the sums of the previous call have been read
  if (lane < kJoinColumns) joined[warp][lane] = sum;
  __syncthreads();
  return warp < kJoinColumns ? warp_reduce(joined[lane][warp], Plus{}) : C(0);
}

// Computes dots[c], the sum of parts[0][...][c], if blockIdx.y is 0, and sums[c], that of
// parts[1][...][c], if it is 1.
template <class C>
__global__ void __launch_bounds__(kJoinThreads)
    join_kernel(C* dots, C* sums, const C* parts, int64_t count, int64_t n) {
  begin_kernel();
  const int64_t first = int64_t(blockIdx.x) * kJoinColumns, k = blockIdx.y;
  const int64_t c = first + threadIdx.x / kWarp;
  const C sum = join_columns(parts + k * count * n, count, n, first);
  if (threadIdx.x % kWarp == 0 && threadIdx.x / kWarp < kJoinColumns && c < n) {
    (k == 0 ? dots : sums)[c] = sum;
  }
}

// Sums parts [2, count, n] into `own`.
template <class C>
void join(const taper::cuda::Launch& on, const ChannelSums& own, const C* parts, int64_t count,
          int64_t n) {
  on.run(join_kernel<C>, {dim3(unsigned(ceil_div(n, kJoinColumns)), 2), kJoinThreads},
         pointer<C>(own.dots), pointer<C>(own.sums), parts, count, n);
}

// Normalizes rows (Norm::sizes.groups > 0).
void norm_rows(const Norm& norm, const Tensor& out, const Tensor& dy, const Tensor& x);

}  // namespace taper::v0::kernels::cuda
