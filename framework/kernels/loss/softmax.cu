// Softmax and its logarithm (`=`; sums in float, in double for double).
// Rows that fit are read once into registers; longer ones are read twice. Along an outer dimension
// a block owns 32 neighbouring columns.
#include "framework/kernels/loss/softmax.h"

#include <cstdint>

#include "framework/cuda/runtime.h"
#include "framework/kernels/dispatch.h"
#include "framework/kernels/math.h"
#include "framework/kernels/row_reduce.cuh"

namespace taper::inline v0::kernels::cuda {
namespace {

using taper::cuda::Launch;

// Elements of a row that a thread keeps in registers.
template <int kLanes> inline constexpr int kHeldItems = kLanes == kWarp ? 32 : 16;
template <int kLanes> inline constexpr int64_t kHeldSize = kLanes* kHeldItems<kLanes>;

// A row of up to kHeldSize elements, spread over the threads that own it.
template <class T, int kVec, int kLanes> struct HeldRow {
  static constexpr int kPacks = kHeldItems<kLanes> / kVec;
  using C = Compute<T>;
  C at[kPacks][kVec];

  __device__ static int place(int pack) { return (pack * kLanes + int(threadIdx.x)) * kVec; }

  __device__ void load(const T* row, int n, C beyond) {
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
#pragma unroll
      for (int j = 0; j < kVec; ++j) at[p][j] = beyond;
      if (place(p) < n) load_row<T, kVec>(at[p], row + place(p));
    }
  }
  __device__ void store(T* row, int n) const {
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      if (place(p) < n) store_row<T, kVec>(row + place(p), at[p]);
    }
  }
};

template <class T, int kVec, int kLanes>
__global__ void __launch_bounds__(kRowThreads<kLanes>)
    held_forward(bool log, T* y, const T* x, int64_t rows, int n) {
  using C = Compute<T>;
  using Row = HeldRow<T, kVec, kLanes>;
  for (int64_t r = first_row(); r < rows; r += row_step()) {
    Row row;
    row.load(x + r * n, n, C(-INFINITY));
    C top = C(-INFINITY);
#pragma unroll
    for (int p = 0; p < Row::kPacks; ++p) {
#pragma unroll
      for (int j = 0; j < kVec; ++j) top = larger(top, row.at[p][j]);
    }
    top = row_max<kLanes>(top);
    C sum = 0;
#pragma unroll
    for (int p = 0; p < Row::kPacks; ++p) {
#pragma unroll
      for (int j = 0; j < kVec; ++j) {
        const C shifted = row.at[p][j] - top;
        const C e = math::exp(shifted);
        sum += e;
        row.at[p][j] = log ? shifted : e;
      }
    }
    sum = row_sum<kLanes>(sum);
    const C scale = log ? C(1) : C(1) / sum;
    const C shift = log ? math::log(sum) : C(0);
#pragma unroll
    for (int p = 0; p < Row::kPacks; ++p) {
#pragma unroll
      for (int j = 0; j < kVec; ++j) row.at[p][j] = row.at[p][j] * scale - shift;
    }
    row.store(y + r * n, n);
  }
}

template <class T, int kVec, int kLanes>
__global__ void __launch_bounds__(kRowThreads<kLanes>)
    long_forward(bool log, T* y, const T* x, int64_t rows, int64_t n) {
  using C = Compute<T>;
  for (int64_t r = first_row(); r < rows; r += row_step()) {
    const auto total = max_sum_of_row<T, kVec, kLanes>(x + r * n, n);
    const C scale = C(1) / total.sum;
    const C shift = math::log(total.sum);
#pragma unroll 4
    for (int64_t i = int64_t(threadIdx.x) * kVec; i < n; i += kLanes * kVec) {
      C v[kVec];
      load_row<T, kVec>(v, x + r * n + i);
#pragma unroll
      for (int j = 0; j < kVec; ++j) {
        const C shifted = v[j] - total.max;
        v[j] = log ? shifted - shift : math::exp(shifted) * scale;
      }
      store_row<T, kVec>(y + r * n + i, v);
    }
  }
}

// d softmax: y (dy - sum(y dy)); d log_softmax: dy - exp(y) sum(dy).
template <class C> __device__ C term(bool log, C dy, C y) { return log ? dy : dy * y; }
template <class C> __device__ C gradient(bool log, C dy, C y, C sum) {
  return log ? dy - math::exp(y) * sum : y * (dy - sum);
}

template <class T, int kVec, int kLanes>
__global__ void __launch_bounds__(kRowThreads<kLanes>)
    held_backward(bool log, T* dx, const T* dy, const T* y, int64_t rows, int n) {
  using C = Compute<T>;
  using Row = HeldRow<T, kVec, kLanes>;
  for (int64_t r = first_row(); r < rows; r += row_step()) {
    Row row_dy, row_y;
    row_dy.load(dy + r * n, n, C(0));
    row_y.load(y + r * n, n, C(0));
    C sum = 0;
#pragma unroll
    for (int p = 0; p < Row::kPacks; ++p) {
#pragma unroll
      for (int j = 0; j < kVec; ++j) sum += term(log, row_dy.at[p][j], row_y.at[p][j]);
    }
    sum = row_sum<kLanes>(sum);
#pragma unroll
    for (int p = 0; p < Row::kPacks; ++p) {
#pragma unroll
      for (int j = 0; j < kVec; ++j) {
        row_dy.at[p][j] = gradient(log, row_dy.at[p][j], row_y.at[p][j], sum);
      }
    }
    row_dy.store(dx + r * n, n);
  }
}

template <class T, int kVec, int kLanes>
__global__ void __launch_bounds__(kRowThreads<kLanes>)
    long_backward(bool log, T* dx, const T* dy, const T* y, int64_t rows, int64_t n) {
  using C = Compute<T>;
  for (int64_t r = first_row(); r < rows; r += row_step()) {
    C sum = 0;
#pragma unroll 4
    for (int64_t i = int64_t(threadIdx.x) * kVec; i < n; i += kLanes * kVec) {
      C g[kVec], v[kVec];
      load_row<T, kVec>(g, dy + r * n + i);
      load_row<T, kVec>(v, y + r * n + i);
#pragma unroll
      for (int j = 0; j < kVec; ++j) sum += term(log, g[j], v[j]);
    }
    sum = row_sum<kLanes>(sum);
#pragma unroll 4
    for (int64_t i = int64_t(threadIdx.x) * kVec; i < n; i += kLanes * kVec) {
      C g[kVec], v[kVec];
      load_row<T, kVec>(g, dy + r * n + i);
      load_row<T, kVec>(v, y + r * n + i);
#pragma unroll
      for (int j = 0; j < kVec; ++j) g[j] = gradient(log, g[j], v[j], sum);
      store_row<T, kVec>(dx + r * n + i, g);
    }
  }
}

// --- along an outer dimension: block (32 columns, kSlices parts of n) ---

constexpr int kSlices = 8;

// Where a thread works: its column's first element, and whether there is one.
struct Column {
  int64_t base;
  bool exists;
};
__device__ Column column_at(int64_t tile, ReduceSizes sizes) {
  const int64_t c = tile * kWarp + threadIdx.x;
  return {c / sizes.inner * sizes.n * sizes.inner + c % sizes.inner, c < sizes.outer * sizes.inner};
}

template <class T>
__global__ void __launch_bounds__(kWarp* kSlices)
    column_forward(bool log, T* y, const T* x, ReduceSizes sizes, int64_t tiles) {
  using C = Compute<T>;
  __shared__ C maxima[kSlices][kWarp], sums[kSlices][kWarp];
  for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const Column column = column_at(tile, sizes);
    const int64_t end = column.exists ? sizes.n : 0;
    MaxSum<C> mine;
    for (int64_t i = threadIdx.y; i < end; i += kSlices) {
      const C v[1] = {C(x[column.base + i * sizes.inner])};
      mine.add(v);
    }
    __syncthreads();  // the former tile's parts have been read
    maxima[threadIdx.y][threadIdx.x] = mine.max;
    sums[threadIdx.y][threadIdx.x] = mine.sum;
    __syncthreads();
    MaxSum<C> total;
    for (int s = 0; s < kSlices; ++s) total.max = larger(total.max, maxima[s][threadIdx.x]);
    for (int s = 0; s < kSlices; ++s) {
      const C scale = math::exp(maxima[s][threadIdx.x] - total.origin());
      total.sum += sums[s][threadIdx.x] * scale;
    }
    const C shift = math::log(total.sum);
    for (int64_t i = threadIdx.y; i < end; i += kSlices) {
      const int64_t at = column.base + i * sizes.inner;
      const C shifted = C(x[at]) - total.max;
      y[at] = T(log ? shifted - shift : math::exp(shifted) / total.sum);
    }
  }
}

template <class T>
__global__ void __launch_bounds__(kWarp* kSlices)
    column_backward(bool log, T* dx, const T* dy, const T* y, ReduceSizes sizes, int64_t tiles) {
  using C = Compute<T>;
  __shared__ C parts[kSlices][kWarp];
  for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const Column column = column_at(tile, sizes);
    const int64_t end = column.exists ? sizes.n : 0;
    C mine = 0;
    for (int64_t i = threadIdx.y; i < end; i += kSlices) {
      const int64_t at = column.base + i * sizes.inner;
      mine += term(log, C(dy[at]), C(y[at]));
    }
    __syncthreads();  // the former tile's parts have been read
    parts[threadIdx.y][threadIdx.x] = mine;
    __syncthreads();
    C sum = 0;
    for (int s = 0; s < kSlices; ++s) sum += parts[s][threadIdx.x];
    for (int64_t i = threadIdx.y; i < end; i += kSlices) {
      const int64_t at = column.base + i * sizes.inner;
      dx[at] = T(gradient(log, C(dy[at]), C(y[at]), sum));
    }
  }
}

// --- launchers ---

// Calls f(Int<kVec>, Int<kLanes>, bool constant: whether a thread holds its part) for rows of n
// elements, which kLanes threads own.
template <class T, class F, class... P> void for_rows(int64_t n, F f, P*... pointers) {
  with_row_vectors<T>(
      n,
      [&](auto vec) {
        if (n <= kHeldSize<32>) return f(vec, Int<32>(), std::true_type());
        if (n <= kHeldSize<256>) return f(vec, Int<256>(), std::true_type());
        if (n <= kHeldSize<1024>) return f(vec, Int<1024>(), std::true_type());
        f(vec, Int<512>(), std::false_type());
      },
      pointers...);
}

int64_t tiles_of(ReduceSizes sizes) { return ceil_div(sizes.outer * sizes.inner, kWarp); }
unsigned tile_grid(int64_t tiles) { return unsigned(std::min(tiles, kMaxPiece)); }

template <class T> void forward(const Launch& on, bool log, T* y, const T* x, ReduceSizes s) {
  if (s.inner > 1) {
    const int64_t tiles = tiles_of(s);
    column_forward<<<tile_grid(tiles), dim3(kWarp, kSlices), 0, on.stream>>>(log, y, x, s, tiles);
    return;
  }
  const auto launch = [&]<int kVec, int kLanes>(Int<kVec>, Int<kLanes>, auto held) {
    const unsigned grid = row_grid<kLanes>(s.outer);
    const dim3 block = row_block<kLanes>();
    if constexpr (held) {
      held_forward<T, kVec, kLanes><<<grid, block, 0, on.stream>>>(log, y, x, s.outer, int(s.n));
    } else {
      long_forward<T, kVec, kLanes><<<grid, block, 0, on.stream>>>(log, y, x, s.outer, s.n);
    }
  };
  for_rows<T>(s.n, launch, x, y);
}

template <class T>
void backward(const Launch& on, bool log, T* dx, const T* dy, const T* y, ReduceSizes s) {
  if (s.inner > 1) {
    const int64_t tiles = tiles_of(s);
    const dim3 block(kWarp, kSlices);
    column_backward<<<tile_grid(tiles), block, 0, on.stream>>>(log, dx, dy, y, s, tiles);
    return;
  }
  const auto launch = [&]<int kVec, int kLanes>(Int<kVec>, Int<kLanes>, auto held) {
    const unsigned grid = row_grid<kLanes>(s.outer);
    const dim3 block = row_block<kLanes>();
    if constexpr (held) {
      held_backward<T, kVec, kLanes>
          <<<grid, block, 0, on.stream>>>(log, dx, dy, y, s.outer, int(s.n));
    } else {
      long_backward<T, kVec, kLanes><<<grid, block, 0, on.stream>>>(log, dx, dy, y, s.outer, s.n);
    }
  };
  for_rows<T>(s.n, launch, dx, dy, y);
}

}  // namespace

void softmax(bool log, const Tensor& y, const Tensor& x, ReduceSizes sizes) {
  if (y.numel() == 0) return;
  const Launch on(x);
  visit_floating(x.dtype(), [&]<class T>(TypeTag<T>) {
    forward(on, log, pointer<T>(y), pointer<const T>(x), sizes);
  });
  on.check(log ? "log_softmax" : "softmax");
}

void softmax_backward(bool log, const Tensor& dx, const Tensor& dy, const Tensor& y,
                      ReduceSizes sizes) {
  if (dx.numel() == 0) return;
  const Launch on(y);
  visit_floating(y.dtype(), [&]<class T>(TypeTag<T>) {
    backward(on, log, pointer<T>(dx), pointer<const T>(dy), pointer<const T>(y), sizes);
  });
  on.check(log ? "log_softmax_backward" : "softmax_backward");
}

}  // namespace taper::inline v0::kernels::cuda
