// Sorting, running sums and running products. One thread processes a row, or some adjacent columns,
// in order.
#include "framework/kernels/reduce/sort.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "framework/host/parallel.h"
#include "framework/kernels/common/dispatch.h"
#include "framework/kernels/reduce/reduce_runs_cpu.h"
#include "framework/kernels/reduce/sort_key.h"

namespace taper::v0::kernels::cpu {

namespace {

template <class T> std::vector<SortKey<T>> keys_of(const T* x, int64_t n, bool descending) {
  std::vector<SortKey<T>> key(n);
  std::transform(x, x + n, key.begin(), [=](T number) { return sort_key(number, descending); });
  return key;
}

// Writes the keys of n elements, and returns the least one.
template <class T>
TAPER_CLONES SortKey<T> write_keys(SortKey<T>* key, const T* x, int64_t n, bool descending) {
  SortKey<T> least = std::numeric_limits<SortKey<T>>::max();
#pragma omp simd reduction(min : least)
  for (int64_t i = 0; i < n; ++i) {
    key[i] = sort_key(x[i], descending);
    least = std::min(least, key[i]);
  }
  return least;
}

// Writes the indices of the first `count` elements of a sorted row of n. Most blocks have no
// element that comes before those found so far.
template <class T>
void select_first(int64_t* order, const T* x, int64_t n, int64_t count, bool descending) {
  constexpr int64_t kKeys = 32;
  std::vector<std::pair<SortKey<T>, int64_t>> found;  // a heap with the last one on top
  found.reserve(size_t(count) + 1);
  for (int64_t begin = 0; begin < n; begin += kKeys) {
    SortKey<T> key[kKeys];
    const int64_t size = std::min(kKeys, n - begin);
    const SortKey<T> least = write_keys(key, x + begin, size, descending);
    const bool is_full = std::ssize(found) == count;
    if (is_full && (count == 0 || least >= found.front().first)) continue;
    for (int64_t i = 0; i < size; ++i) {
      if (std::ssize(found) == count && key[i] >= found.front().first) continue;
      found.emplace_back(key[i], begin + i);
      std::ranges::push_heap(found);
      if (std::ssize(found) <= count) continue;
      std::ranges::pop_heap(found);
      found.pop_back();
    }
  }
  std::ranges::sort_heap(found);
  for (int64_t i = 0; i < count; ++i) order[i] = found[size_t(i)].second;
}

// Sorts a row of n elements by the bytes of their keys, from the lowest one. Each step is stable
// and takes constant time for an element, which is several times as fast as comparisons.
template <class T> void sort_by_bytes(int64_t* order, const T* x, int64_t n, bool descending) {
  struct Entry {
    SortKey<T> key;
    uint32_t at;
    size_t byte(size_t i) const { return size_t(key >> (8 * i)) & 255; }
  };
  std::vector<Entry> from(n), to(n);
  std::array<std::array<uint32_t, 256>, sizeof(SortKey<T>)> counts = {};
  for (int64_t i = 0; i < n; ++i) {
    const Entry entry{sort_key(x[i], descending), uint32_t(i)};
    for (size_t b = 0; b < counts.size(); ++b) ++counts[b][entry.byte(b)];
    from[size_t(i)] = entry;
  }
  for (size_t b = 0; b < counts.size(); ++b) {
    auto& place = counts[b];
    if (place[from[0].byte(b)] == n) continue;  // the same for all
    std::exclusive_scan(place.begin(), place.end(), place.begin(), uint32_t(0));
    for (const Entry& entry : from) to[place[entry.byte(b)]++] = entry;
    from.swap(to);
  }
  std::ranges::transform(from, order, &Entry::at);
}

// The operands of run_lines().
template <class T> struct Lines {
  T* y;
  const T *x, *added;
  ReduceSizes sizes;
  Running how;
  T none;
};
// Combines the elements of `width` adjacent lines along n from one end to the other. The first line
// starts at position `first`.
template <class T, class Join, class Width>
void run_lines(const Lines<T>& l, Join join, int64_t first, Width width) {
  in_clones([=, &l] {
    const int64_t step = l.how.backwards ? -l.sizes.inner : l.sizes.inner;
    T before[kTileColumns];
    std::fill_n(before, width, l.none);
    for (int64_t t = 0, at = first; t < l.sizes.n; ++t, at += step) {
      const int64_t factor = l.added && l.how.backwards && t > 0 ? at - step : at;
      const T* const terms = l.added ? l.added + at : l.x + at;
      for (int64_t j = 0; j < width; ++j) {
        const T sum = join(before[j], l.x[factor + j], terms[j]);
        l.y[at + j] = l.how.exclusive ? before[j] : sum;
        before[j] = sum;
      }
    }
  });
}
// Does this for all lines.
template <class T, class Join> void run_along(const Lines<T>& l, Join join) {
  const ReduceSizes s = l.sizes;
  each_column_task(s, 1, s.n, [&](ColumnTask task) {
    const int64_t row = task.outer * s.n + (l.how.backwards ? s.n - 1 : 0);
    if (s.inner == 1) return run_lines(l, join, row, std::integral_constant<int64_t, 1>());
    run_lines(l, join, row * s.inner + task.column, task.width);
  });
}

}  // namespace

void argsort(const Tensor& order, const Tensor& x, SortRows how) {
  const int64_t n = how.n, work = n * std::bit_width(uint64_t(n)), rows = x.numel() / n;
  visit_computed(x.dtype(), [&]<class T>(TypeTag<T>) {
    host::parallel_each(rows, work, [&](int64_t r) {
      const T* from = pointer<const T>(x) + r * n;
      int64_t* row = pointer<int64_t>(order) + r * (order.numel() / rows);
      if (selects(how)) return select_first(row, from, n, how.first, how.descending);
      // The counts of the bytes would take longer than a short row.
      if (n >= 128 && n <= std::numeric_limits<uint32_t>::max()) {
        return sort_by_bytes(row, from, n, how.descending);
      }
      const auto key = keys_of(from, n, how.descending);
      std::iota(row, row + n, 0);
      std::sort(row, row + n,
                [&](int64_t a, int64_t b) { return key[a] != key[b] ? key[a] < key[b] : a < b; });
    });
  });
}

void place_of_rank(const Tensor& place, const Tensor& x, const Tensor& rank) {
  const int64_t n = x.numel() / place.numel();
  visit_computed(x.dtype(), [&]<class T>(TypeTag<T>) {
    host::parallel_each(place.numel(), 8 * n, [&](int64_t r) {
      const auto key = keys_of(pointer<const T>(x) + r * n, n, false);
      auto split = key;
      const int64_t at = pointer<const int64_t>(rank)[r];
      std::ranges::nth_element(split, split.begin() + at);
      // Equal elements keep their order in the row, so the loop skips the equal elements that come
      // before.
      int64_t equals = at - std::ranges::count_if(split, [&](auto k) { return k < split[at]; });
      int64_t i = 0;
      while (key[i] != split[at] || equals-- > 0) ++i;
      pointer<int64_t>(place)[r] = i;
    });
  });
}

void cumulate(ReductionOp op, const Tensor& y, const Tensor& x, const Tensor& added,
              ReduceSizes sizes, Running how) {
  visit_computed(y.dtype(), [&]<class T>(TypeTag<T>) {
    const auto run = [&](T none, auto join) {
      const Lines<T> lines{pointer<T>(y), pointer<const T>(x), pointer<const T>(added), sizes, how,
                           none};
      run_along(lines, join);
    };
    if (added.defined())
      return run(T(0), [](T a, T f, T b) { return a == 0 ? b : plus(b, times(f, a)); });
    if (op == ReductionOp::kProd) return run(T(1), [](T a, T x_at, T) { return times(a, x_at); });
    if constexpr (std::is_floating_point_v<T>) {
      if (how.of_logarithms) {
        return run(LogSum<T>::none(), [](T a, T x_at, T) { return LogSum<T>::join(a, x_at); });
      }
    }
    run(T(0), [](T a, T x_at, T) { return plus(a, x_at); });
  });
}

}  // namespace taper::v0::kernels::cpu
