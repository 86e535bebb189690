// Selection from rows that fit in a block: the first elements in sorted order, and medians. Nothing
// is sorted. The block keeps a row's keys in registers and finds the element of a given rank by
// bisection, which counts the elements before the middle of a range.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "framework/kernels/common/dispatch.h"
#include "framework/kernels/common/kernel_launch.h"
#include "framework/kernels/elementwise/elementwise.cuh"
#include "framework/kernels/reduce/row_reduce.cuh"
#include "framework/kernels/reduce/sort.h"
#include "framework/kernels/reduce/sort_key.h"

namespace taper::v0::kernels::cuda {
namespace {

using taper::cuda::Launch;

__device__ int warp_sum(int x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  return __reduce_add_sync(~0u, x);
#else
  return warp_reduce(x, Plus{});
#endif
}

// Elements whose key is in [first, last] and whose index is in [from, to]. Unless first equals
// last, [from, to] contains every index. The elements are therefore consecutive in sorted order.
template <class Key> struct SortedRange {
  Key first, last;
  int from, to;

  __device__ bool contains(Key key, int index) const {
    return key >= first && key <= last && index >= from && index <= to;
  }
  // Returns whether an element is in the range or precedes it in sorted order.
  __device__ bool reaches(Key key, int index) const {
    return key < first || (key <= last && index <= to);
  }
};

// A row of at most kSize elements in the registers of a block. Its order is that of a stable sort:
// by key, and by index where keys are equal. All threads of the block call its functions.
template <class T, int kItems> struct BlockRow {
  using Key = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;  // as wide as registers
  static constexpr int kSize = kThreads * kItems;
  static constexpr Key kLastKey = std::numeric_limits<SortKey<T>>::max();
  Key key[kItems];
  int turn = 0;  // selects the shared memory of a sum

  static __device__ int index(int i) { return i * kThreads + int(threadIdx.x); }

  __device__ void load(const T* x, int n, bool descending) {
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      // Missing elements come last, after equal keys.
      key[i] = index(i) < n ? sort_key(x[index(i)], descending) : kLastKey;
    }
  }

  // Returns the sum of x over the block. Consecutive sums use different shared memory, so that one
  // barrier separates the reads of a sum from the writes of the sum after the next.
  __device__ int block_sum(int x) {
    constexpr int kWarps = kThreads / kWarp;
    __shared__ int parts[2][kWarps];
    const int lane = int(threadIdx.x) % kWarp;
    turn ^= 1;
    x = warp_sum(x);
    if (lane == 0) parts[turn][threadIdx.x / kWarp] = x;
    __syncthreads();
    return warp_sum(lane < kWarps ? parts[turn][lane] : 0);
  }

  // Returns the number of elements for which f(key, index) holds.
  template <class F> __device__ int count(F f) {
    int sum = 0;
#pragma unroll
    for (int i = 0; i < kItems; ++i) sum += f(key[i], index(i));
    return block_sum(sum);
  }

  // Returns a range that contains only the element of the given rank. Bisects the keys and then, if
  // several elements have the same key, their indices.
  __device__ SortedRange<Key> find(int rank) {
    SortedRange<Key> range{0, kLastKey, 0, kSize - 1};
    int before = 0, until = kSize;  // the ranks of the range's elements
    for (Key bit = kLastKey ^ (kLastKey >> 1); bit != 0 && until - before > 1; bit >>= 1) {
      const Key middle = range.first | bit;
      const int less = count([=](Key k, int) { return k < middle; });
      if (less <= rank) {
        range.first = middle;
        before = less;
      } else {
        range.last = middle - 1;
        until = less;
      }
    }
    const int lesser = before;  // elements with lesser keys
    for (int bit = kSize / 2; bit != 0 && until - before > 1; bit /= 2) {
      const int middle = range.from + bit;
      const int less =
          lesser + count([&](Key k, int at) { return k == range.first && at < middle; });
      if (less <= rank) {
        range.from = middle;
        before = less;
      } else {
        range.to = middle - 1;
        until = less;
      }
    }
    return range;
  }
};

// Returns the rank of the thread's element among `count` elements, which have different places.
template <class Key> __device__ int rank_among(const Key* keys, const int* places, int count) {
  const Key key = keys[threadIdx.x];
  const int place = places[threadIdx.x];
  int rank = 0;
  for (int j = 0; j < count; ++j) {
    rank += keys[j] < key || (keys[j] == key && places[j] < place);
  }
  return rank;
}

// Writes the indices of the first elements of each row in sorted order, and the elements unless
// `values` is null.
template <class T, int kItems>
__global__ void __launch_bounds__(kThreads)
    select_rows(int64_t* order, T* values, const T* x, int64_t rows, SortRows how) {
  begin_kernel();
  using Row = BlockRow<T, kItems>;
  using Key = typename Row::Key;
  static_assert(kMaxSelected <= kThreads);
  __shared__ Key keys[kMaxSelected];
  __shared__ int places[kMaxSelected], found;
  const int n = int(how.n), count = int(how.first);
  Row elements;
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const T* const from = x + row * n;
    if (threadIdx.x == 0) found = 0;
    elements.load(from, n, how.descending);
    const SortedRange<Key> last = elements.find(count - 1);
    __syncthreads();  // the elements of the previous row have been read, and `found` is 0
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      if (!last.reaches(elements.key[i], Row::index(i))) continue;
      const int slot = atomicAdd(&found, 1);
      keys[slot] = elements.key[i];
      places[slot] = Row::index(i);
    }
    __syncthreads();
    if (int(threadIdx.x) < count) {
      // The slots may differ between runs, but the ranks do not.
      const int place = places[threadIdx.x], rank = rank_among(keys, places, count);
      order[row * count + rank] = place;
      if (values) values[row * count + rank] = from[place];
    }
  }
}

template <class T, int kItems>
__global__ void __launch_bounds__(kThreads)
    find_medians(int64_t* place, T* values, const T* x, int64_t rows, int n) {
  begin_kernel();
  using Row = BlockRow<T, kItems>;
  using Key = typename Row::Key;
  Row elements;
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const T* const from = x + row * n;
    elements.load(from, n, false);
    int rank = (n - 1) / 2;
    if constexpr (!std::is_integral_v<T>) {
      // NaNs have the last key, and the first of them follows all numbers.
      const int numbers = elements.count([](Key k, int) { return k < Row::kLastKey; });
      if (numbers < n) rank = numbers;
    }
    const SortedRange<Key> median = elements.find(rank);
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      if (!median.contains(elements.key[i], Row::index(i))) continue;
      place[row] = Row::index(i);
      values[row] = from[Row::index(i)];
    }
  }
}

constexpr int kFewItems = 4, kItems = int(kMaxBlockRow) / kThreads;

unsigned grid_of(int64_t rows) { return unsigned(std::min(rows, kMaxPiece)); }

}  // namespace

void select_first(const Tensor& order, const Tensor& values, const Tensor& x, SortRows how) {
  const Launch on(x);
  const int64_t rows = x.numel() / how.n;
  visit_sorted(x.dtype(), [&]<class T>(TypeTag<T>) {
    const bool is_short = how.n <= kThreads * kFewItems;
    const auto kernel = is_short ? select_rows<T, kFewItems> : select_rows<T, kItems>;
    on.run(kernel, {grid_of(rows), kThreads}, pointer<int64_t>(order), pointer<T>(values),
           pointer<const T>(x), rows, how);
  });
  on.check("sort");
}

void place_of_median(const Tensor& place, const Tensor& values, const Tensor& x) {
  const Launch on(x);
  const int64_t n = x.size(-1), rows = place.numel();
  visit_sorted(x.dtype(), [&]<class T>(TypeTag<T>) {
    const bool is_short = n <= kThreads * kFewItems;
    const auto kernel = is_short ? find_medians<T, kFewItems> : find_medians<T, kItems>;
    on.run(kernel, {grid_of(rows), kThreads}, pointer<int64_t>(place), pointer<T>(values),
           pointer<const T>(x), rows, int(n));
  });
  on.check("median");
}

}  // namespace taper::v0::kernels::cuda
