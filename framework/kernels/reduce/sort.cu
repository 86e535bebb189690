// Sorting, running sums and running products. If a row fits in a block, the block sorts it, or
// selects its first elements (select.cu). Longer rows are sorted all at once by a stable sort: by
// row and key or, if these exceed 64 bits, first by key and then by row.
#include "framework/kernels/reduce/sort.h"

#include <algorithm>
#include <bit>
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/device/device_radix_sort.cuh>
#include <utility>

#include "framework/kernels/common/kernel_launch.h"
#include "framework/kernels/common/per_element.cuh"
#include "framework/kernels/elementwise/copy.h"
#include "framework/kernels/elementwise/elementwise.cuh"
#include "framework/kernels/reduce/columns.cuh"
#include "framework/kernels/reduce/sort_key.h"

namespace taper::v0::kernels::cuda {
namespace {

using taper::cuda::Launch;
using taper::cuda::Scratch;

// --- sorting ---

// Sorts rows of at most kThreads * kItems elements. `values` may be null.
template <class T, int kItems>
__global__ void __launch_bounds__(kThreads)
    sort_rows(int64_t* order, T* values, const T* x, int64_t rows, SortRows how) {
  begin_kernel();
  using Key = SortKey<T>;
  using Sort = cub::BlockRadixSort<Key, kThreads, kItems, uint16_t>;
  __shared__ typename Sort::TempStorage storage;
  const int n = int(how.n);
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    Key key[kItems];
    uint16_t place[kItems];
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      const int at = int(threadIdx.x) * kItems + i;
      place[i] = uint16_t(at);
      // Missing elements come last, after equal keys.
      key[i] = at < n ? sort_key(x[row * n + at], how.descending) : Key(~Key(0));
    }
    Sort(storage).SortBlockedToStriped(key, place);
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      const int at = int(threadIdx.x) + i * kThreads;
      if (at >= n) continue;
      order[row * n + at] = place[i];
      if (!values) continue;
      T value;
      const bool is_known = element_of_key(key[i], how.descending, value);
      values[row * n + at] = is_known ? value : x[row * n + place[i]];
    }
    __syncthreads();  // storage is reused for the next row
  }
}

constexpr int kSortItems = 16;
static_assert(kMaxBlockRow == kThreads * kSortItems);

// The sort_key() of each element. If `rows`, the row's number precedes it, for which keys of 64
// bits have no room.
template <class T> struct JoinedKey {
  uint64_t* key;
  const T* x;
  SortRows how;
  bool rows;
  TAPER_HD void operator()(int64_t i) const {
    key[i] = sort_key(x[i], how.descending);
    if constexpr (sizeof(T) < sizeof(uint64_t)) {
      if (rows) key[i] |= uint64_t(i / how.n) << (8 * sizeof(T));
    }
  }
};
// Writes the row of a position, or the index within the row.
struct SplitPosition {
  int64_t* part;
  const int64_t* position;
  int64_t n;
  bool row;
  TAPER_HD void operator()(int64_t i) const { part[i] = row ? position[i] / n : position[i] % n; }
};

// --- running sums ---

// A step of y[i] = offset + factor * y[i - 1]. Consecutive steps combine into one such step.
template <class C> struct Step { C factor, offset; };
template <class C> struct Linear {
  using Acc = Step<C>;
  static TAPER_HD Acc none() { return {C(1), C(0)}; }
  // Combines two steps. An infinite factor times an offset of 0 would give NaN, so this case is
  // treated separately.
  static TAPER_HD Acc join(Acc a, Acc b) {
    return {a.factor * b.factor, a.offset == C(0) ? b.offset : b.offset + b.factor * a.offset};
  }
};

template <class C> TAPER_HD C value_of(C acc) { return acc; }
template <class C> TAPER_HD C value_of(Step<C> acc) { return acc.offset; }

// A scan by F, which is Sum, LogSum, Product or Linear.
template <class F, class T> struct Scan {
  using Acc = typename F::Acc;
  const T *x, *added;
  ReduceSizes sizes;
  int64_t from, step;  // offset of the first element, and the distance to each next one
  // The number of results that are written. An exclusive scan writes all but the last, each one
  // position further on.
  int64_t writes;
  T* y;

  Scan(T* out, const T* in, const T* terms, ReduceSizes s, Running how)
      : x(in),
        added(terms),
        sizes(s),
        from(how.backwards ? (s.n - 1) * s.inner : 0),
        step(how.backwards ? -s.inner : s.inner),
        writes(s.n - how.exclusive),
        y(how.exclusive ? out + step : out) {}

  static __device__ Acc join(Acc a, Acc b) { return F().join(a, b); }
  // Loads V columns of the scan's element t, from `base` on. Loads neutral values unless `there`.
  template <int V> __device__ void load(Acc* acc, int64_t base, int64_t t, bool there) const {
    constexpr bool kLinear = std::is_same_v<F, Linear<T>>;
#pragma unroll
    for (int j = 0; j < V; ++j) acc[j] = F::none();
    if (!there) return;
    const T* const at = x + base + from + t * step;
    const auto v = load_vec<T, V>(kLinear && step < 0 && t > 0 ? at - step : at);
    if constexpr (kLinear) {
      const auto w = load_vec<T, V>(added + base + from + t * step);
#pragma unroll
      for (int j = 0; j < V; ++j) acc[j] = {v.at[j], w.at[j]};
    } else {
#pragma unroll
      for (int j = 0; j < V; ++j) acc[j] = v.at[j];
    }
  }
  template <int V> __device__ void store(int64_t base, int64_t t, const Acc* acc) const {
    Vec<T, V> v;
#pragma unroll
    for (int j = 0; j < V; ++j) v.at[j] = value_of(acc[j]);
    if (t < writes) store_vec(y + base + from + t * step, v);
  }
  // Stores the first results of an exclusive scan, which are the neutral element.
  template <int V> __device__ void begin(int64_t base) const {
    Acc none[V];
#pragma unroll
    for (int j = 0; j < V; ++j) none[j] = F::none();
    if (writes < sizes.n) store<V>(base, -1, none);
  }
};

constexpr int kItems = 4;  // adjacent elements per thread

// Describes how rows are divided into `count` pieces of `length` elements each. The last piece is
// shorter.
template <class Acc> struct Pieces {
  int64_t length, count;
  Acc* totals;         // [outer, count]; if not null, only the total of each piece is computed
  const Acc* carried;  // result before each piece; null: neutral
};

// Scans rows. Each block scans its piece of a row. kStep is scan.step as a compile-time constant.
// The launch bounds request the maximum number of threads per multiprocessor.
template <int kStep, class F, class T>
__global__ void __launch_bounds__(kThreads, sizeof(typename F::Acc) > 4 ? 4 : 8)
    scan_rows(Scan<F, T> scan, const Pieces<typename F::Acc> pieces) {
  begin_kernel();
  scan.step = kStep;
  using Acc = typename F::Acc;
  const auto join = [](Acc a, Acc b) { return Scan<F, T>::join(a, b); };
  using Blocks = cub::BlockScan<Acc, kThreads>;
  __shared__ typename Blocks::TempStorage storage;
  const int64_t n = scan.sizes.n;
  for (int64_t piece = blockIdx.x; piece < scan.sizes.outer * pieces.count; piece += gridDim.x) {
    const int64_t row = piece / pieces.count, first = piece % pieces.count * pieces.length;
    const int64_t end = min(n, first + pieces.length);
    if (threadIdx.x == 0 && first == 0) scan.template begin<1>(row * n);
    Acc before = pieces.carried ? pieces.carried[piece] : F::none();
    for (int64_t start = first; start < end; start += kThreads * kItems) {
      const int64_t t = start + int64_t(threadIdx.x) * kItems;
      Acc v[kItems], all;
#pragma unroll
      for (int j = 0; j < kItems; ++j) scan.template load<1>(v + j, row * n, t + j, t + j < n);
      Blocks(storage).InclusiveScan(v, v, join, all);
      if (!pieces.totals) {
#pragma unroll
        for (int j = 0; j < kItems; ++j) {
          v[j] = join(before, v[j]);
          scan.template store<1>(row * n, t + j, v + j);
        }
      }
      before = join(before, all);
      __syncthreads();  // storage is reused for the next piece
    }
    if (pieces.totals && threadIdx.x == 0) pieces.totals[piece] = before;
  }
}

// Computes the result before each of at most kThreads * kItems pieces of a row.
template <class F, class Acc>
__global__ void __launch_bounds__(kThreads) carry(Acc* totals, int n) {
  begin_kernel();
  const auto join = [](Acc a, Acc b) { return F().join(a, b); };
  using Blocks = cub::BlockScan<Acc, kThreads>;
  __shared__ typename Blocks::TempStorage storage;
  Acc* const row = totals + int64_t(blockIdx.x) * n;
  Acc v[kItems];
#pragma unroll
  for (int j = 0; j < kItems; ++j) {
    const int at = int(threadIdx.x) * kItems + j;
    v[j] = at < n ? row[at] : F::none();
  }
  Blocks(storage).ExclusiveScan(v, v, F::none(), join);
#pragma unroll
  for (int j = 0; j < kItems; ++j) {
    const int at = int(threadIdx.x) * kItems + j;
    if (at < n) row[at] = v[j];
  }
}

template <class F, class T> constexpr int kRun = sizeof(typename F::Acc) > sizeof(T) ? 4 : 8;

// Scans columns. A thread scans kRun consecutive rows of its columns, and the block combines the
// results along its height.
template <class F, class T, int V>
__global__ void __launch_bounds__(kTileThreads, 2)
    scan_columns(const __grid_constant__ Scan<F, T> scan, ColumnBlock block) {
  begin_kernel();
  using Acc = typename F::Acc;
  constexpr int kRows = kRun<F, T>;
  __shared__ Acc part[2][V][kTileThreads];
  const int tid = int(threadIdx.x), y = tid / block.width, x = tid % block.width;
  const int64_t n = scan.sizes.n;
  for (int64_t tile = blockIdx.x; tile < block.tiles; tile += gridDim.x) {
    const Column column = column_at<V>(tile, block, scan.sizes);
    Acc before[V];
#pragma unroll
    for (int j = 0; j < V; ++j) before[j] = F::none();
    if (y == 0 && column.exists) scan.template begin<V>(column.base);
    for (int64_t start = 0; start < n; start += int64_t(block.height) * kRows) {
      const int64_t first = start + y * kRows;
      Acc v[kRows][V], sum[V];
#pragma unroll
      for (int k = 0; k < kRows; ++k) {
        scan.template load<V>(v[k], column.base, first + k, column.exists && first + k < n);
      }
#pragma unroll
      for (int j = 0; j < V; ++j) {
#pragma unroll
        for (int k = 1; k < kRows; ++k) v[k][j] = scan.join(v[k - 1][j], v[k][j]);
        sum[j] = v[kRows - 1][j];
        part[0][j][tid] = sum[j];
      }
      __syncthreads();
      int side = 0;
      for (int step = 1; step < block.height; step *= 2, side ^= 1) {
#pragma unroll
        for (int j = 0; j < V; ++j) {
          if (y >= step) sum[j] = scan.join(part[side][j][tid - step * block.width], sum[j]);
          part[side ^ 1][j][tid] = sum[j];
        }
        __syncthreads();
      }
#pragma unroll
      for (int j = 0; j < V; ++j) {
        Acc here = before[j];
        if (y > 0) here = scan.join(here, part[side][j][tid - block.width]);
#pragma unroll
        for (int k = 0; k < kRows; ++k) v[k][j] = scan.join(here, v[k][j]);
        before[j] = scan.join(before[j], part[side][j][(block.height - 1) * block.width + x]);
      }
#pragma unroll
      for (int k = 0; k < kRows; ++k) {
        if (column.exists) scan.template store<V>(column.base, first + k, v[k]);
      }
      __syncthreads();  // the parts have been read
    }
  }
}

template <class F, class T> void run(const Scan<F, T>& scan, const Launch& on) {
  const ReduceSizes s = scan.sizes;
  if (s.inner == 1) {
    // If there are few long rows, they are cut into pieces, which depend only on the sizes.
    constexpr int64_t kFewRows = 128, kLength = 8 * kThreads * kItems, kMost = kThreads * kItems;
    using Acc = typename F::Acc;
    const bool cut = s.outer < kFewRows && s.n > 2 * kLength;
    const int64_t length = cut ? ceil_div(ceil_div(s.n, kMost), kLength) * kLength : s.n;
    Pieces<Acc> pieces{length, std::max<int64_t>(1, ceil_div(s.n, length)), nullptr, nullptr};
    const auto kernel = scan.step > 0 ? scan_rows<1, F, T> : scan_rows<-1, F, T>;
    const auto grid = unsigned(std::min(s.outer * pieces.count, kMaxPiece));
    const Scratch totals(cut ? size_t(s.outer * pieces.count) * sizeof(Acc) : 0, on.device);
    if (cut) {
      pieces.totals = totals.as<Acc>();
      on.run(kernel, {grid, kThreads}, scan, pieces);
      on.run(carry<F, Acc>, {unsigned(s.outer), kThreads}, pieces.totals, int(pieces.count));
      pieces.carried = std::exchange(pieces.totals, nullptr);
    }
    on.run(kernel, {grid, kThreads}, scan, pieces);
  } else {
    const auto launch = [&]<int V>(Int<V>, ColumnBlock block, unsigned grid) {
      on.run(scan_columns<F, T, V>, {grid, block.width * block.height}, scan, block);
    };
    for_tiles<T>(s, kRun<F, T>, launch, scan.y, scan.x, scan.added);
  }
  on.check("cumulate");
}

}  // namespace

void sort_pairs(const Tensor& sorted_keys, const Tensor& sorted_numbers, const Tensor& keys,
                const Tensor& numbers, int bits) {
  const Launch on(keys);
  size_t bytes = 0;
  const auto sort = [&](void* scratch) {
    return cub::DeviceRadixSort::SortPairs(
        scratch, bytes, pointer<const uint64_t>(keys), pointer<uint64_t>(sorted_keys),
        pointer<const int64_t>(numbers), pointer<int64_t>(sorted_numbers), keys.numel(), 0, bits,
        on.stream);
  };
  TAPER_CUDA_CHECK(sort(nullptr));
  const Scratch scratch(bytes, on.device);
  TAPER_CUDA_CHECK(sort(scratch.data()));
}

void argsort(const Tensor& order, const Tensor& values, const Tensor& x, SortRows how) {
  if (selects(how)) return select_first(order, values, x, how);
  const int64_t n = how.n, count = order.numel(), rows = count / n;
  if (fits_block(n)) {
    const Launch on(x);
    visit_sorted(x.dtype(), [&]<class T>(TypeTag<T>) {
      const auto kernel = n <= kThreads * 4 ? sort_rows<T, 4> : sort_rows<T, kSortItems>;
      on.run(kernel, {unsigned(std::min(rows, kMaxPiece)), kThreads}, pointer<int64_t>(order),
             pointer<T>(values), pointer<const T>(x), rows, how);
    });
    return on.check("sort");
  }
  const Tensor position = empty_like_layout(order, kInt64), keys = empty_like_layout(order, kInt64),
               sorted = empty_like_layout(order, kInt64);
  arange(position, 0, 1);
  const int row_bits = std::bit_width(uint64_t(rows - 1)), key_bits = 8 * int(size_of(x.dtype()));
  const bool joined = row_bits + key_bits <= 64;
  visit_sorted(x.dtype(), [&]<class T>(TypeTag<T>) {
    Backend::run(
        "sort", order, count, 1,
        JoinedKey<T>{pointer<uint64_t>(keys), pointer<const T>(x), how, joined && rows > 1});
  });
  sort_pairs(sorted, order, keys, position, joined ? row_bits + key_bits : 64);
  if (rows == 1) return;
  const auto split = [&](const Tensor& part, const Tensor& of, bool row) {
    Backend::run("sort", order, count, 1,
                 SplitPosition{pointer<int64_t>(part), pointer<const int64_t>(of), n, row});
  };
  if (!joined) {
    const Tensor& row = keys;
    split(row, order, true);
    sort_pairs(sorted, position, row, order, row_bits);
  }
  split(order, joined ? order : position, false);
}

void cumulate(ReductionOp op, const Tensor& y, const Tensor& x, const Tensor& added,
              ReduceSizes sizes, Running how) {
  const Launch on(y);
  visit_computed(y.dtype(), [&]<class T>(TypeTag<T>) {
    const auto with = [&]<class F>(F) {
      run(Scan<F, T>{pointer<T>(y), pointer<const T>(x), pointer<const T>(added), sizes, how}, on);
    };
    if constexpr (std::is_floating_point_v<T>) {
      if (added.defined()) return with(Linear<T>());
      if (how.of_logarithms) return with(LogSum<T>());
    }
    if (op == ReductionOp::kProd) return with(Product<T>());
    with(Sum<T>());
  });
}

}  // namespace taper::v0::kernels::cuda
