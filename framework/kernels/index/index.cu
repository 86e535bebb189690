// Gathering and combining rows by key. To combine, positions are sorted by key, and every run of
// equal keys is folded in a fixed order, in float for half types. If many rows are added to few,
// nothing is sorted. Each warp sums a piece of the positions into all target rows in shared memory,
// and then the sums of the pieces are added.
#include "framework/kernels/index/index.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cub/device/device_select.cuh>

#include <thrust/iterator/counting_iterator.h>

#include "framework/cuda/runtime.h"
#include "framework/kernels/common/kernel_launch.h"
#include "framework/kernels/common/per_element.cuh"
#include "framework/kernels/elementwise/copy.h"
#include "framework/kernels/elementwise/elementwise.cuh"
#include "framework/kernels/index/index_kernels.h"
#include "framework/kernels/reduce/reduce.h"
#include "framework/kernels/reduce/sort.h"

namespace taper::v0::kernels {

template struct IndexKernels<cuda::Backend>;

namespace cuda {
namespace {

using taper::cuda::Launch;
using taper::cuda::Scratch;

// --- gathering: a row is copied in units of 16, 8, 4, 2 or 1 bytes ---

template <class Unit> struct TakeUnit {
  Unit* y;
  const Unit* x;
  const int64_t* key;
  int64_t width;
  TAPER_HD void operator()(int64_t i) const {
    const int64_t position = width == 1 ? i : i / width, row = key[position];
    y[i] = row < 0 ? Unit{} : x[row * width + i - position * width];
  }
};

// Returns the largest unit that divides the bytes of a row and both addresses.
size_t unit_of(size_t row_bytes, const void* a, const void* b) {
  size_t unit = 16;
  while (row_bytes % unit != 0 || !is_aligned(a, unit) || !is_aligned(b, unit)) unit /= 2;
  return unit;
}

template <class F> void with_unit(size_t unit, F f) {
  if (unit == 16) return f(TypeTag<uint4>{});
  visit_size(unit, f);
}

// --- combining ---

// Positions sorted by the low bits of their keys. A run is all positions with one key. In the low
// bits, a key of -1 is all ones, which is larger than any row. Distinct keys need no sorting, and
// `positions` is null for them.
struct Runs {
  const uint64_t* keys;
  const int64_t* positions;
  int64_t count, rows;

  TAPER_HD int64_t position(int64_t i) const { return positions ? positions[i] : i; }
  TAPER_HD bool starts_at(int64_t i) const {
    return keys[i] < uint64_t(rows) && (i == 0 || keys[i - 1] != keys[i]);
  }
  TAPER_HD bool ends_at(int64_t i) const {
    return keys[i] < uint64_t(rows) && (i + 1 == count || keys[i + 1] != keys[i]);
  }
  // Returns the end of the run that starts at `first`, by doubling and then halving steps.
  TAPER_HD int64_t end_of(int64_t first) const {
    int64_t inside = first, step = 1;
    while (inside + step < count && keys[inside + step] == keys[first]) {
      inside += step;
      step *= 2;
    }
    for (; step > 0; step /= 2) {
      if (inside + step < count && keys[inside + step] == keys[first]) inside += step;
    }
    return inside + 1;
  }
};

// Copies the last row of each run, in the units used for gathering.
template <class Unit> struct PutRun {
  Unit* y;
  const Unit* src;
  Runs runs;
  int64_t width;
  TAPER_HD void operator()(int64_t i) const {
    const int64_t last = width == 1 ? i : i / width, column = i - last * width;
    if (!runs.ends_at(last)) return;
    y[int64_t(runs.keys[last]) * width + column] = src[runs.position(last) * width + column];
  }
};

// Combines short runs of narrow rows. One thread computes one element of a run's row.
template <class T, class Fold> struct FoldRun {
  T* y;
  const T* src;
  Runs runs;
  int64_t width;
  Fold fold;
  TAPER_HD void operator()(int64_t i) const {
    const int64_t first = i / width, column = i - first * width;
    if (!runs.starts_at(first)) return;
    const uint64_t key = runs.keys[first];
    T* out = y + int64_t(key) * width + column;
    Compute<T> sum = Compute<T>(*out);
    for (int64_t p = first; p < runs.count && runs.keys[p] == key; ++p) {
      sum = fold(sum, Compute<T>(src[runs.position(p) * width + column]));
    }
    *out = T(sum);
  }
};

constexpr int64_t kFewRows = 384;
constexpr int64_t kSharedBytes = 48 * 1024;

// Sums pieces of the positions. A block has one warp for each of its pieces, and each lane sums one
// column. A piece consists of `piece` consecutive positions. blockIdx.x selects the block's pieces,
// in order, and blockIdx.y a tile of columns. parts: [gridDim.x, rows, width].
template <class T>
__global__ void sum_pieces(float* parts, const T* src, const int64_t* keys, int64_t count,
                           int piece, int rows, int64_t width) {
  begin_long_kernel();
  constexpr int kLoads = 8;
  extern __shared__ float sums[];  // [pieces, rows, kWarp]
  const int lane = int(threadIdx.x), size = rows * kWarp;
  const int64_t column = int64_t(blockIdx.y) * kWarp + lane;
  const int64_t begin = (int64_t(blockIdx.x) * blockDim.y + threadIdx.y) * piece;
  const int64_t end = min(begin + piece, count);
  float* const own = sums + threadIdx.y * size;
  for (int i = lane; i < size; i += kWarp) own[i] = 0;
  for (int64_t first = begin; first < end; first += kLoads) {
    float v[kLoads];
    int64_t key[kLoads];
#pragma unroll
    for (int k = 0; k < kLoads; ++k) {
      const bool exists = first + k < end;
      key[k] = exists ? keys[first + k] : -1;
      v[k] = exists && column < width ? float(src[(first + k) * width + column]) : 0;
    }
#pragma unroll
    for (int k = 0; k < kLoads; ++k) {
      if (key[k] >= 0) own[key[k] * kWarp + lane] += v[k];
    }
  }
  __syncthreads();
  if (column >= width) return;
  for (int row = int(threadIdx.y); row < rows; row += int(blockDim.y)) {
    float sum = 0;
    for (int p = 0; p < int(blockDim.y); ++p) sum += sums[p * size + row * kWarp + lane];
    parts[(int64_t(blockIdx.x) * rows + row) * width + column] = sum;
  }
}

template <class T> struct AddParts {
  T* y;
  const float* parts;
  int64_t count, size;
  __device__ void operator()(int64_t i) const {
    float sum = 0;
#pragma unroll 8
    for (int64_t p = 0; p < count; ++p) sum += parts[p * size + i];
    y[i] = T(float(y[i]) + sum);
  }
};

template <class T>
void add_to_few(const Launch& on, const Tensor& y, const T* src, const int64_t* keys, int64_t count,
                int64_t rows, int64_t width) {
  const int64_t piece = std::max<int64_t>(64, rows);
  const int64_t height = std::clamp<int64_t>(kSharedBytes / (rows * kWarp * 4), 1, 4);
  const int64_t blocks = ceil_div(count, piece * height);
  const Scratch parts(size_t(blocks * rows * width) * sizeof(float), on.device);
  const dim3 grid{unsigned(blocks), unsigned(ceil_div(width, kWarp))};
  on.run(sum_pieces<T>, {grid, dim3(kWarp, unsigned(height)), size_t(height * rows * kWarp * 4)},
         parts.as<float>(), src, keys, count, int(piece), int(rows), width);
  on.check("fold_rows");
  Backend::run("fold_rows", y, rows * width, blocks,
               AddParts<T>{pointer<T>(y), parts.as<float>(), blocks, rows * width});
}

constexpr int kColumns = 32;   // threads along a row
constexpr int kMaxParts = 32;  // parts of a run, folded in parallel
constexpr int kLongRun = 16;   // few rows give long runs, which many threads process

template <class C, int kVec, class Fold> __device__ Vec<C, kVec> start_of(Fold fold) {
  Vec<C, kVec> sum;
#pragma unroll
  for (int j = 0; j < kVec; ++j) sum.at[j] = fold.template start<C>();
  return sum;
}

// Folds src's rows at positions[begin, end), kVec elements from column `at` on.
template <class T, int kVec, class Fold>
__device__ Vec<Compute<T>, kVec> folded_rows(Fold fold, const T* src, const int64_t* positions,
                                             int64_t begin, int64_t end, int64_t width,
                                             int64_t at) {
  Vec<Compute<T>, kVec> sum = start_of<Compute<T>, kVec>(fold);
#pragma unroll 4
  for (int64_t i = begin; i < end; ++i) {
    const Vec<T, kVec> v = load_vec<T, kVec>(src + positions[i] * width + at);
#pragma unroll
    for (int j = 0; j < kVec; ++j) sum.at[j] = fold(sum.at[j], Compute<T>(v.at[j]));
  }
  return sum;
}

// Combines the rows of long runs. A block is kColumns threads wide and has a row of threads for
// each part of a run. blockIdx.x is a sorted position; the block works only if a run starts there.
// blockIdx.y is a tile of columns. Each part of the run is folded in order, and then the results of
// the parts are folded in order.
template <class T, int kVec, class Fold>
__global__ void __launch_bounds__(kColumns* kMaxParts)
    fold_runs(T* y, const T* src, Runs runs, int64_t width, Fold fold) {
  begin_kernel();
  using C = Compute<T>;
  __shared__ C parts[kMaxParts][kColumns * kVec];
  const int64_t first = blockIdx.x;
  if (!runs.starts_at(first)) return;
  const int64_t row = int64_t(runs.keys[first]), end = runs.end_of(first);
  const int64_t part = (end - first + blockDim.y - 1) / blockDim.y;
  const int64_t begin = min(first + threadIdx.y * part, end);
  constexpr int kTile = kColumns * kVec;
  for (int64_t tile = blockIdx.y; tile * kTile < width; tile += gridDim.y) {
    const int64_t at = tile * kTile + threadIdx.x * kVec;
    Vec<C, kVec> sum = start_of<C, kVec>(fold);
    if (at < width) {
      const int64_t stop = min(begin + part, end);
      sum = folded_rows<T, kVec>(fold, src, runs.positions, begin, stop, width, at);
    }
    __syncthreads();  // the parts of the previous tile have been read
#pragma unroll
    for (int j = 0; j < kVec; ++j) parts[threadIdx.y][j * kColumns + threadIdx.x] = sum.at[j];
    __syncthreads();
    if (threadIdx.y != 0 || at >= width) continue;
    Vec<T, kVec> out = load_vec<T, kVec>(y + row * width + at);
#pragma unroll
    for (int j = 0; j < kVec; ++j) {
      C total = sum.at[j];
      for (int p = 1; p < int(blockDim.y); ++p) {
        total = fold(total, parts[p][j * kColumns + threadIdx.x]);
      }
      out.at[j] = T(fold(C(out.at[j]), total));
    }
    store_vec(y + row * width + at, out);
  }
}

template <class T, class Fold>
void launch_fold_runs(const Launch& on, T* y, const T* src, const Runs& runs, int64_t width,
                      Fold fold) {
  const auto launch = [&]<int kVec>(Int<kVec>) {
    const int64_t tiles = std::min<int64_t>(ceil_div(width, kColumns * kVec), 65535);
    const int parts = runs.count / runs.rows >= kLongRun ? kMaxParts : 8;
    on.run(fold_runs<T, kVec, Fold>,
           {dim3(unsigned(runs.count), unsigned(tiles)), dim3(kColumns, parts)}, y, src, runs,
           width, fold);
  };
  constexpr size_t kAlign = alignof(Vec<T, 4>);
  if (width % 4 == 0 && is_aligned(y, kAlign) && is_aligned(src, kAlign)) {
    launch(Int<4>());
  } else {
    launch(Int<1>());
  }
  on.check("fold_rows");
}

}  // namespace

void take_rows(const Tensor& y, const Tensor& x, const Tensor& key, int64_t width) {
  const size_t row_bytes = size_t(width) * x.element_size();
  const size_t unit = unit_of(row_bytes, y.data_ptr(), x.data_ptr());
  with_unit(unit, [&]<class Unit>(TypeTag<Unit>) {
    Backend::run("take_rows", y, int64_t(y.nbytes() / unit), 1,
                 TakeUnit<Unit>{pointer<Unit>(y), pointer<const Unit>(x),
                                pointer<const int64_t>(key), int64_t(row_bytes / unit)});
  });
}

void fold_rows(RowOp op, const Tensor& y, const Tensor& key, int64_t width, const Tensor& src,
               bool distinct) {
  const Launch on(y);
  const int64_t count = key.numel(), rows = y.numel() / width;
  const bool few = op == RowOp::kSum && !distinct && rows <= kFewRows && count / rows >= kLongRun &&
                   width >= kWarp / 2 && ceil_div(width, kWarp) <= 65535;
  if (few && (y.dtype() == kFloat32 || is_half(y.dtype()))) {
    return visit_floating(y.dtype(), [&]<class T>(TypeTag<T>) {
      if constexpr (sizeof(Compute<T>) == sizeof(float)) {
        add_to_few<T>(on, y, pointer<const T>(src), pointer<const int64_t>(key), count, rows,
                      width);
      }
    });
  }
  const bool narrow = distinct || (width < kColumns && count / rows < kLongRun);
  if (!narrow && op != RowOp::kPut && count > kMaxPiece) {
    throw NotImplementedError(
        concat_to_string("combining more than 2^31 rows on cuda, got ", count));
  }
  Tensor keys = key, positions;
  if (!distinct) {
    const Tensor unsorted = Tensor::make({count}, kInt64, y.device());
    arange(unsorted, 0, 1);
    keys = empty_like_layout(unsorted, kInt64);
    positions = empty_like_layout(unsorted, kInt64);
    sort_pairs(keys, positions, key, unsorted, std::bit_width(uint64_t(rows)));
  }
  const Runs runs{pointer<uint64_t>(keys), pointer<int64_t>(positions), count, rows};
  if (op == RowOp::kPut) {
    const size_t row_bytes = size_t(width) * y.element_size();
    const size_t unit = unit_of(row_bytes, y.data_ptr(), src.data_ptr());
    return with_unit(unit, [&]<class Unit>(TypeTag<Unit>) {
      const int64_t units = int64_t(row_bytes / unit);
      Backend::run("fold_rows", y, count * units, 1,
                   PutRun<Unit>{pointer<Unit>(y), pointer<const Unit>(src), runs, units});
    });
  }
  with_fold(op, y.dtype(), [&]<class T>(auto fold, TypeTag<T>) {
    T* to = pointer<T>(y);
    const T* from = pointer<const T>(src);
    if (!narrow) return launch_fold_runs(on, to, from, runs, width, fold);
    Backend::run("fold_rows", y, count * width, 1,
                 FoldRun<T, decltype(fold)>{to, from, runs, width, fold});
  });
}

Tensor nonzero(const Tensor& mask) {
  const Launch on(mask);
  const int64_t n = mask.numel();
  if (n > kMaxPiece)
    throw NotImplementedError(concat_to_string("nonzero of more than 2^31 on cuda, got ", n));
  const Tensor count = Tensor::make({}, kInt64, mask.device());
  reduce(ReductionOp::kSum, count, mask, {1, n, 1}, ReduceMap::kNonzero);
  const Tensor places = Tensor::make({count.item<int64_t>()}, kInt64, mask.device());
  size_t bytes = 0;
  const auto select = [&](void* scratch) {
    return cub::DeviceSelect::Flagged(scratch, bytes, thrust::counting_iterator<int64_t>(0),
                                      pointer<const bool>(mask), pointer<int64_t>(places),
                                      pointer<int64_t>(count), int(n), on.stream);
  };
  TAPER_CUDA_CHECK(select(nullptr));
  const Scratch scratch(bytes, on.device);
  TAPER_CUDA_CHECK(select(scratch.data()));
  return places;
}

}  // namespace cuda
}  // namespace taper::v0::kernels
