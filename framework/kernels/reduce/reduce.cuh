// The three kernels of a reduction: for short rows, long rows and columns. Every thread accumulates
// several partial results, which are combined in a tree. The order depends only on sizes and dtype,
// not on the GPU or the alignment.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "framework/kernels/common/kernel_launch.h"
#include "framework/kernels/elementwise/elementwise.cuh"
#include "framework/kernels/reduce/reduce.h"
#include "framework/kernels/reduce/reduce_functors.cuh"

namespace taper::v0::kernels::cuda {

// --- geometry ---

template <class T> inline constexpr int kVec = sizeof(T) < 2 ? 8 : int(16 / sizeof(T));

// How a block of width * height threads covers columns (a vector per thread) and rows.
struct ColumnBlock {
  int width, height;  // powers of two
  int64_t tiles;      // of columns
};

// One warp reduces rows up to this length: kShortRow elements, or 4 * kShortRow if there are at
// least kManyRows rows of 1- or 2-byte elements.
inline constexpr int64_t kShortRow = 1024, kManyRows = 2048;
// This number of blocks fills any current GPU. With fewer blocks, a second launch pays off.
inline constexpr int64_t kFewBlocks = 512;

inline int power_of_two_from(int64_t n, int most) {
  int p = 1;
  while (p < n && p < most) p *= 2;
  return p;
}

inline ColumnBlock column_block(ReduceSizes sizes, int vec) {
  int width = power_of_two_from(ceil_div(sizes.inner, vec), kWarp);
  // If there are few rows, they are not split. Narrower blocks, down to 128 bytes, then occupy more
  // multiprocessors.
  constexpr int64_t kFewRows = 512, kWanted = 64;
  while (width > 8 && sizes.n <= kFewRows &&
         sizes.outer * ceil_div(sizes.inner, int64_t(width) * vec) < kWanted) {
    width /= 2;
  }
  return {width, power_of_two_from(sizes.n, kThreads / width),
          ceil_div(sizes.inner, int64_t(width) * vec)};
}

// Returns the length of the parts into which n is split, which depends only on sizes and dtype.
// Columns are split into `finer` times as many parts as for a plain sum.
inline int64_t chunk_of(ReduceSizes sizes, int vec, int finer = 1) {
  if (sizes.inner == 1) {
    constexpr int64_t kBlockVectors = kThreads * 8;  // a multiple of the vectors of every block
    if (sizes.n <= kShortRow || sizes.outer >= kFewBlocks) return sizes.n;
    const int64_t chunks =
        std::min(ceil_div(sizes.n, 4 * kBlockVectors), ceil_div(4 * kFewBlocks, sizes.outer));
    return ceil_div(ceil_div(sizes.n, chunks), kBlockVectors) * kBlockVectors;
  }
  const ColumnBlock block = column_block(sizes, vec);
  constexpr int kRows = 4;  // minimum number per thread
  const int64_t blocks = sizes.outer * block.tiles, rows = int64_t(block.height) * kRows;
  if (blocks >= kFewBlocks) return sizes.n;
  const int64_t chunks =
      std::min(ceil_div(sizes.n, 4 * rows / finer), ceil_div(2 * finer * kFewBlocks, blocks));
  return ceil_div(ceil_div(sizes.n, std::max<int64_t>(chunks, 1)), rows) * rows;
}

// --- kernels ---

template <class Op, class T> struct ReduceArgs {
  using Acc = typename Op::Acc;
  Op op;
  const T* x;
  int64_t outer, n, inner;
  int64_t chunk, chunks;    // n is split into parts of `chunk`
  bool aligned = false;     // whether only whole, aligned vectors are read
  Acc* partials = nullptr;  // [outer, chunks, inner]; null if out is written directly
  char* out;                // [outer, inner]
  DType out_dtype;

  __device__ void emit(int64_t at, Acc acc) const {
    if (partials) {
      partials[at] = acc;
    } else {
      store_any(out, out_dtype, at, op.result(acc));
      if constexpr (requires { op.values; }) {
        if (op.values) store_any(op.values, op.dtype, at, acc.value);
      }
    }
  }
};

template <class T> __device__ inline T shuffle_xor(T x, int mask) {
  return __shfl_xor_sync(~0u, x, mask);
}
// Shuffles accumulators with two members.
template <class P>
requires(!std::is_arithmetic_v<P>) __device__ inline P shuffle_xor(P x, int mask) {
  const auto [first, second] = x;
  return {shuffle_xor(first, mask), shuffle_xor(second, mask)};
}

// Combines aligned groups of `lanes` (a power of two) adjacent lanes. The whole warp must call it.
template <class Op>
__device__ inline typename Op::Acc join_lanes(const Op& op, typename Op::Acc acc, int lanes) {
  for (int mask = lanes / 2; mask > 0; mask /= 2) acc = op.join(acc, shuffle_xor(acc, mask));
  return acc;
}

// Returns how many elements of a vector are within the remaining `left` elements.
template <class T> __device__ inline int clip(int64_t left) {
  return left < kVec<T> ? int(left < 0 ? 0 : left) : kVec<T>;
}

// Loads the first `count` elements at p (at most a vector). The other elements are unset.
template <class T>
__device__ inline Vec<T, kVec<T>> load_some(const T* p, int count, bool aligned) {
  if (aligned && count > 0) return load_vec<T, kVec<T>>(p);
  Vec<T, kVec<T>> v;
#pragma unroll
  for (int j = 0; j < kVec<T>; ++j) {
    if (j < count) v.at[j] = p[j];
  }
  return v;
}

// Number of vectors of V elements that a thread loads at once. It is lower if partial results are
// large. The order of sums does not depend on it.
template <class Op, int V>
inline constexpr int kLoadsOf = V > 4 && Op::kSets == 1 && sizeof(typename Op::Acc) > sizeof(float)
                                    ? 2
                                    : 4;

// Reduces x[begin, end) by `lanes` threads, which take vectors in turn. Returns this thread's part.
template <class Op, class T>
__device__ typename Op::Acc reduce_run(const ReduceArgs<Op, T>& args, const T* x, int64_t begin,
                                       int64_t end, int lane, int lanes) {
  constexpr int V = kVec<T>, kLoads = kLoadsOf<Op, V>;
  const Op& op = args.op;
  typename Op::Acc acc[V];
#pragma unroll
  for (int j = 0; j < V; ++j) acc[j] = Op::none();

  const int64_t step = int64_t(lanes) * V;
  const auto origin = origin_of(op, x);
  // Whole vectors are loaded without a bounds check, so that the loads overlap.
  const auto take = [&](int64_t i, auto whole) {
    Vec<T, V> v[kLoads];
#pragma unroll
    for (int k = 0; k < kLoads; ++k) {
      const T* from = x + i + k * step;
      v[k] =
          whole ? load_vec<T, V>(from) : load_some(from, clip<T>(end - i - k * step), args.aligned);
    }
#pragma unroll
    for (int k = 0; k < kLoads; ++k) {
      const int64_t at = i + k * step;
      const int count = whole ? V : clip<T>(end - at);
#pragma unroll
      for (int j = 0; j < V; ++j) {
        if (j < count) acc[j] = joined(op, acc[j], v[k].at[j], at + j, origin);
      }
    }
  };
  for (int64_t i = begin + int64_t(lane) * V; i < end; i += step * kLoads) {
    if (args.aligned && i + step * (kLoads - 1) < end) {
      take(i, std::true_type{});
    } else {
      take(i, std::false_type{});
    }
  }
#pragma unroll
  for (int half = V / 2; half > 0; half /= 2) {
#pragma unroll
    for (int j = 0; j < half; ++j) acc[j] = op.join(acc[j], acc[j + half]);
  }
  return acc[0];
}

// Reduces short rows (inner is 1). `lanes` adjacent threads reduce a row.
template <class Op, class T>
__global__ void __launch_bounds__(kThreads)
    reduce_rows_kernel(const __grid_constant__ ReduceArgs<Op, T> args, int lanes) {
  begin_kernel();
  const int rows = kThreads / lanes, lane = int(threadIdx.x) % lanes;
  for (int64_t first = int64_t(blockIdx.x) * rows; first < args.outer;
       first += int64_t(gridDim.x) * rows) {
    const int64_t row = first + int(threadIdx.x) / lanes;
    typename Op::Acc acc = Op::none();
    if (row < args.outer) acc = reduce_run(args, args.x + row * args.n, 0, args.n, lane, lanes);
    acc = join_lanes(args.op, acc, lanes);
    if (lane == 0 && row < args.outer) args.emit(row, acc);
  }
}

// Reduces long rows (inner is 1). A block reduces a chunk of a row.
template <class Op, class T>
__global__ void __launch_bounds__(kThreads)
    reduce_long_rows_kernel(const __grid_constant__ ReduceArgs<Op, T> args) {
  begin_kernel();
  constexpr int kWarps = kThreads / kWarp;
  __shared__ typename Op::Acc of_warp[kWarps];
  const int tid = int(threadIdx.x), lane = tid % kWarp;
  for (int64_t job = blockIdx.x; job < args.outer * args.chunks; job += gridDim.x) {
    const int64_t row = job / args.chunks, begin = job % args.chunks * args.chunk;
    const int64_t end = begin + args.chunk < args.n ? begin + args.chunk : args.n;
    typename Op::Acc acc = reduce_run(args, args.x + row * args.n, begin, end, tid, kThreads);
    acc = join_lanes(args.op, acc, kWarp);
    if (lane == 0) of_warp[tid / kWarp] = acc;
    __syncthreads();
    if (tid < kWarp) {
      acc = join_lanes(args.op, lane < kWarps ? of_warp[lane] : Op::none(), kWarps);
      if (tid == 0) args.emit(job, acc);
    }
    __syncthreads();
  }
}

// Combines the partial results of the block's rows of threads and returns the result to all of
// them. All threads of the block, at most kMost, must call it.
template <int kMost = kThreads, class Op, int V>
__device__ void join_rows(const Op& op, typename Op::Acc (&acc)[V], ColumnBlock block) {
  __shared__ typename Op::Acc part[V][kMost];
  const int tid = int(threadIdx.x), y = tid / block.width;
  __syncthreads();  // the parts of the previous call have been read
#pragma unroll
  for (int j = 0; j < V; ++j) part[j][tid] = acc[j];
  for (int half = block.height / 2; half > 0; half /= 2) {
    __syncthreads();
    if (y >= half) continue;
#pragma unroll
    for (int j = 0; j < V; ++j) {
      acc[j] = op.join(acc[j], part[j][tid + half * block.width]);
      part[j][tid] = acc[j];
    }
  }
  __syncthreads();
#pragma unroll
  for (int j = 0; j < V; ++j) acc[j] = part[j][tid % block.width];
}

// Columns (inner > 1): adjacent threads process adjacent columns, and the block's height extends
// along n.
template <class Op, class T>
__global__ void __launch_bounds__(kThreads)
    reduce_columns_kernel(const __grid_constant__ ReduceArgs<Op, T> args, ColumnBlock block) {
  begin_kernel();
  using Acc = typename Op::Acc;
  constexpr int V = kVec<T>, kLoads = kLoadsOf<Op, V>;
  // Wide vectors already provide enough independent sums.
  constexpr int kSets = V > 4 ? 1 : Op::kSets;
  const Op& op = args.op;
  const int tid = int(threadIdx.x), x = tid % block.width, y = tid / block.width;

  for (int64_t job = blockIdx.x; job < args.outer * args.chunks * block.tiles; job += gridDim.x) {
    const int64_t column = (job % block.tiles * block.width + x) * V;
    const int64_t part_of_out = job / block.tiles;  // outer * chunks + chunk
    const int64_t o = part_of_out / args.chunks, begin = part_of_out % args.chunks * args.chunk;
    const int64_t end = begin + args.chunk < args.n ? begin + args.chunk : args.n;
    const int columns = clip<T>(args.inner - column);
    const T* from = args.x + o * args.n * args.inner + column;

    Acc acc[kSets][V];
    decltype(origin_of(op, from)) origin[V] = {};
#pragma unroll
    for (int j = 0; j < V; ++j) {
      if (j < columns) origin[j] = origin_of(op, from + j);
    }
#pragma unroll
    for (int s = 0; s < kSets; ++s) {
#pragma unroll
      for (int j = 0; j < V; ++j) acc[s][j] = Op::none();
    }
    const auto take = [&](int64_t row, auto whole) {
      Vec<T, V> v[kLoads];
#pragma unroll
      for (int k = 0; k < kLoads; ++k) {
        const int64_t r = row + k * block.height;
        const T* p = from + r * args.inner;
        v[k] = whole ? load_vec<T, V>(p) : load_some(p, r < end ? columns : 0, args.aligned);
      }
#pragma unroll
      for (int k = 0; k < kLoads; ++k) {
        const int64_t r = row + k * block.height;
        const int count = whole ? V : r < end ? columns : 0;
#pragma unroll
        for (int j = 0; j < V; ++j) {
          Acc& here = acc[k % kSets][j];
          if (j < count) here = joined(op, here, v[k].at[j], r, origin[j]);
        }
      }
    };
    for (int64_t row = begin + y; row < end; row += int64_t(block.height) * kLoads) {
      if (args.aligned && columns == V && row + int64_t(block.height) * (kLoads - 1) < end) {
        take(row, std::true_type{});
      } else {
        take(row, std::false_type{});
      }
    }

#pragma unroll
    for (int half = kSets / 2; half > 0; half /= 2) {
#pragma unroll
      for (int s = 0; s < half; ++s) {
#pragma unroll
        for (int j = 0; j < V; ++j) acc[s][j] = op.join(acc[s][j], acc[s + half][j]);
      }
    }
    join_rows(op, acc[0], block);
    if (y == 0) {
#pragma unroll
      for (int j = 0; j < V; ++j) {
        if (j < columns) args.emit(part_of_out * args.inner + column + j, acc[0][j]);
      }
    }
  }
}

}  // namespace taper::v0::kernels::cuda
