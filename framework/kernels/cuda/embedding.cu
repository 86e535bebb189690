// Rows of a table by index (`=`), and the gradient of the table (`=`): positions sorted by index,
// then every run of equal indices summed in float (double for double) in a fixed order.
#include "framework/kernels/embedding.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

#include "framework/cuda/runtime.h"
#include "framework/error.h"
#include "framework/kernels/cuda/elementwise.cuh"
#include "framework/kernels/cuda/sort.h"

namespace taper::kernels::cuda {
namespace {

using taper::cuda::BadIndex;
using taper::cuda::Launch;
using taper::cuda::Scratch;

// --- forward: a row is copied in units of 16, 8, 4, 2 or 1 bytes ---

// Block (x: units of a row, y: positions).
template <class Unit, class Index>
__global__ void __launch_bounds__(kThreads)
    take_rows_kernel(Unit* out, const Unit* table, const Index* index, int64_t count, int64_t rows,
                     int64_t width, BadIndex* slot, const char* op) {
  const int64_t step = int64_t(gridDim.x) * blockDim.y;
  for (int64_t p = int64_t(blockIdx.x) * blockDim.y + threadIdx.y; p < count; p += step) {
    const int64_t row = index[p];
    const bool good = row >= 0 && row < rows;
    if (!good && threadIdx.x == 0) taper::cuda::report_bad_index(slot, op, row, rows);
    for (int64_t i = threadIdx.x; i < width; i += blockDim.x) {
      out[p * width + i] = good ? table[row * width + i] : Unit{};
    }
  }
}

// The largest unit that divides a row's bytes and both addresses.
size_t unit_of(size_t row_bytes, const void* a, const void* b) {
  size_t unit = 16;
  while (row_bytes % unit != 0 || !is_aligned(a, unit) || !is_aligned(b, unit)) unit /= 2;
  return unit;
}

template <class F> void with_unit(size_t unit, F f) {
  switch (unit) {
    case 16: return f(TypeTag<uint4>{});
    case 8: return f(TypeTag<uint64_t>{});
    case 4: return f(TypeTag<uint32_t>{});
    case 2: return f(TypeTag<uint16_t>{});
    default: return f(TypeTag<uint8_t>{});
  }
}

template <class F> void with_index(const Tensor& index, F f) {
  if (index.dtype() == kInt32) return f(static_cast<const int32_t*>(index.data_ptr()));
  f(static_cast<const int64_t*>(index.data_ptr()));
}

// --- backward ---

// An index out of range sorts behind all rows.
template <class Index>
__global__ void __launch_bounds__(kThreads)
    make_keys(uint32_t* keys, int64_t* positions, const Index* index, int64_t count, int64_t rows) {
  const int64_t step = int64_t(gridDim.x) * kThreads;
  for (int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x; i < count; i += step) {
    const int64_t row = index[i];
    keys[i] = uint32_t(row >= 0 && row < rows ? row : rows);
    positions[i] = i;
  }
}

// The end of the run of equal keys that starts at `first`: steps that double, then halve.
__device__ int64_t end_of_run(const uint32_t* keys, int64_t first, int64_t count) {
  const uint32_t key = keys[first];
  int64_t inside = first, step = 1;
  while (inside + step < count && keys[inside + step] == key) {
    inside += step;
    step *= 2;
  }
  for (; step > 0; step /= 2) {
    if (inside + step < count && keys[inside + step] == key) inside += step;
  }
  return inside + 1;
}

constexpr int kColumns = 32;   // threads along a row
constexpr int kMaxParts = 32;  // parts of a run, summed side by side

// Few rows make long runs, which many threads share.
int parts_for(int64_t count, int64_t rows) { return count / rows >= 16 ? kMaxParts : 8; }

// The sum of dy's rows at positions[begin, end), kVec elements from column `at` on.
template <class T, int kVec>
__device__ Vec<Compute<T>, kVec> sum_rows(const T* dy, const int64_t* positions, int64_t begin,
                                          int64_t end, int64_t width, int64_t at) {
  Vec<Compute<T>, kVec> sum{};
#pragma unroll 4
  for (int64_t i = begin; i < end; ++i) {
    const Vec<T, kVec> v = load_vec<T, kVec>(dy + positions[i] * width + at);
#pragma unroll
    for (int j = 0; j < kVec; ++j) sum.at[j] += Compute<T>(v.at[j]);
  }
  return sum;
}

// Block (kColumns, parts). blockIdx.x: a sorted position, at work where a run starts;
// blockIdx.y: a tile of columns. Every part of a run is summed in order, then the parts in order.
template <class T, int kVec>
__global__ void __launch_bounds__(kColumns* kMaxParts)
    sum_runs(T* dtable, const T* dy, const uint32_t* keys, const int64_t* positions, int64_t count,
             int64_t rows, int64_t width) {
  using C = Compute<T>;
  __shared__ C parts[kMaxParts][kColumns * kVec];
  const int64_t first = blockIdx.x;
  const int64_t row = keys[first];
  if (row >= rows || (first > 0 && keys[first - 1] == row)) return;
  const int64_t end = end_of_run(keys, first, count);
  const int64_t part = (end - first + blockDim.y - 1) / blockDim.y;
  const int64_t begin = min(first + threadIdx.y * part, end);
  constexpr int kTile = kColumns * kVec;
  for (int64_t tile = blockIdx.y; tile * kTile < width; tile += gridDim.y) {
    const int64_t at = tile * kTile + threadIdx.x * kVec;
    Vec<C, kVec> sum{};
    if (at < width) {
      sum = sum_rows<T, kVec>(dy, positions, begin, min(begin + part, end), width, at);
    }
    __syncthreads();  // the former tile's parts have been read
#pragma unroll
    for (int j = 0; j < kVec; ++j) parts[threadIdx.y][j * kColumns + threadIdx.x] = sum.at[j];
    __syncthreads();
    if (threadIdx.y != 0 || at >= width) continue;
    Vec<T, kVec> out;
#pragma unroll
    for (int j = 0; j < kVec; ++j) {
      C total = sum.at[j];
      for (int p = 1; p < int(blockDim.y); ++p) total += parts[p][j * kColumns + threadIdx.x];
      out.at[j] = T(total);
    }
    store_vec(dtable + row * width + at, out);
  }
}

template <class T>
void launch_sum_runs(const Launch& on, T* dtable, const T* dy, const uint32_t* keys,
                     const int64_t* positions, int64_t count, int64_t rows, int64_t width) {
  const auto launch = [&](auto vec) {
    constexpr int kVec = decltype(vec)::value;
    const int64_t tiles = std::min<int64_t>(ceil_div(width, kColumns * kVec), 65535);
    sum_runs<T, kVec>
        <<<dim3(unsigned(count), unsigned(tiles)), dim3(kColumns, parts_for(count, rows)), 0,
           on.stream>>>(dtable, dy, keys, positions, count, rows, width);
  };
  constexpr size_t kAlign = alignof(Vec<T, 4>);
  if (width % 4 == 0 && is_aligned(dtable, kAlign) && is_aligned(dy, kAlign)) {
    launch(std::integral_constant<int, 4>{});
  } else {
    launch(std::integral_constant<int, 1>{});
  }
}

}  // namespace

void take_rows(const char* op, const Tensor& out, const Tensor& table, const Tensor& index) {
  if (out.numel() == 0) return;
  const Launch on(out);
  const int64_t count = index.numel(), rows = table.size(0);
  const size_t row_bytes = size_t(out.numel() / count) * size_of(out.dtype());
  const size_t unit = unit_of(row_bytes, out.data_ptr(), table.data_ptr());
  const int64_t width = int64_t(row_bytes / unit);
  const auto across = unsigned(std::min<uint64_t>(std::bit_ceil(uint64_t(width)), kThreads));
  const dim3 block(across, kThreads / across);
  const auto grid = unsigned(std::min(ceil_div(count, block.y), kMaxPiece));
  BadIndex* slot = taper::cuda::bad_index_slot(on.device);
  with_unit(unit, [&](auto tag) {
    using Unit = typename decltype(tag)::type;
    with_index(index, [&](const auto* at) {
      take_rows_kernel<<<grid, block, 0, on.stream>>>(static_cast<Unit*>(out.data_ptr()),
                                                      static_cast<const Unit*>(table.data_ptr()),
                                                      at, count, rows, width, slot, op);
    });
  });
  on.check(op);
}

void take_rows_backward(const Tensor& dtable, const Tensor& dy, const Tensor& index) {
  if (dtable.numel() == 0) return;
  const Launch on(dtable);
  // Rows without an index stay zero.
  TAPER_CUDA_CHECK(cudaMemsetAsync(dtable.data_ptr(), 0, dtable.nbytes(), on.stream));
  const int64_t count = index.numel(), rows = dtable.size(0);
  if (count == 0) return;
  if (rows >= std::numeric_limits<uint32_t>::max() || count > kMaxPiece) {
    throw NotImplementedError(cat("embedding_backward on cuda takes fewer than 2^32 rows and 2^31 ",
                                  "indices, got ", rows, " and ", count));
  }
  const Scratch keys(size_t(count) * sizeof(uint32_t), on.device);
  const Scratch sorted_keys(size_t(count) * sizeof(uint32_t), on.device);
  const Scratch positions(size_t(count) * sizeof(int64_t), on.device);
  const Scratch sorted(size_t(count) * sizeof(int64_t), on.device);
  with_index(index, [&](const auto* at) {
    make_keys<<<unsigned(ceil_div(count, kThreads)), kThreads, 0, on.stream>>>(
        keys.as<uint32_t>(), positions.as<int64_t>(), at, count, rows);
  });
  on.check("embedding_backward");
  sort_pairs(on, keys.as<uint32_t>(), positions.as<int64_t>(), sorted_keys.as<uint32_t>(),
             sorted.as<int64_t>(), count, std::bit_width(uint64_t(rows)));
  visit_floating(dy.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch_sum_runs(on, static_cast<T*>(dtable.data_ptr()), static_cast<const T*>(dy.data_ptr()),
                    sorted_keys.as<uint32_t>(), sorted.as<int64_t>(), count, rows,
                    dtable.numel() / rows);
  });
  on.check("embedding_backward");
}

}  // namespace taper::kernels::cuda
