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

// Writes the least key of each group. Element i belongs to group i % groups, so that neighbors are
// in neighboring groups.
template <class T>
TAPER_CLONES void write_least_keys(SortKey<T>* least, int64_t groups, const T* x, int64_t n,
                                   bool descending) {
  std::fill_n(least, groups, std::numeric_limits<SortKey<T>>::max());
  for (int64_t begin = 0; begin < n; begin += groups) {
    const int64_t width = std::min(groups, n - begin);
#pragma omp simd
    for (int64_t g = 0; g < width; ++g) {
      const SortKey<T> key = sort_key(x[begin + g], descending);
      least[g] = key < least[g] ? key : least[g];
    }
  }
}

// Writes the indices of the first `count` elements of a sorted row of n. The least keys of `count`
// groups belong to as many elements, so no element behind all of these is among the first.
template <class T>
void select_first(int64_t* order, const T* x, int64_t n, int64_t count, bool descending) {
  if (count == 0) return;
  using Key = SortKey<T>;
  const int64_t groups = std::max<int64_t>(32, n / 32 / 16 * 16);  // more than count: see selects()
  std::vector<Key> least(static_cast<size_t>(groups));
  write_least_keys(least.data(), groups, x, n, descending);
  std::vector<Key> sorted = least;
  std::ranges::nth_element(sorted, sorted.begin() + (count - 1));
  const Key bound = sorted[size_t(count - 1)];
  std::vector<std::pair<Key, int64_t>> found;
  for (int64_t g = 0; g < groups; ++g) {
    if (least[size_t(g)] > bound) continue;
    for (int64_t i = g; i < n; i += groups) {
      const Key key = sort_key(x[i], descending);
      if (key <= bound) found.emplace_back(key, i);
    }
  }
  std::ranges::partial_sort(found, found.begin() + count);
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
// Combines the elements of `width` lines along n from one end to the other. The first line starts
// at position `first`, and the others each `apart` positions later.
template <class T, class Join, class Width, class Apart>
void run_lines(const Lines<T>& l, Join join, int64_t first, Width width, Apart apart) {
  in_clones([=, &l] {
    const int64_t step = l.how.backwards ? -l.sizes.inner : l.sizes.inner;
    T before[kTileColumns];
    std::fill_n(before, width, l.none);
    for (int64_t t = 0, at = first; t < l.sizes.n; ++t, at += step) {
      const int64_t factor = l.added && l.how.backwards && t > 0 ? at - step : at;
      const T* const terms = l.added ? l.added + at : l.x + at;
      for (int64_t j = 0; j < width; ++j) {
        const int64_t i = j * apart;
        const T sum = join(before[j], l.x[factor + i], terms[i]);
        l.y[at + i] = l.how.exclusive ? before[j] : sum;
        before[j] = sum;
      }
    }
  });
}
template <int64_t kValue> using Int = std::integral_constant<int64_t, kValue>;

// Does this for all lines. A row's sums wait for one another, so four rows are computed together if
// that leaves rows for every thread.
template <class T, class Join> void run_along(const Lines<T>& l, Join join) {
  constexpr int64_t kTogether = 4;
  const ReduceSizes s = l.sizes;
  const int64_t start = l.how.backwards ? s.n - 1 : 0;
  if (s.inner > 1) {
    return each_column_task(s, 1, s.n, [&](ColumnTask task) {
      const int64_t first = (task.outer * s.n + start) * s.inner + task.column;
      run_lines(l, join, first, task.width, Int<1>());
    });
  }
  const int64_t together = s.outer >= kTogether * get_num_threads() ? kTogether : 1;
  host::parallel_each((s.outer + together - 1) / together, together * s.n, [&](int64_t i) {
    const int64_t row = i * together, end = std::min(row + together, s.outer);
    if (end - row == kTogether) return run_lines(l, join, row * s.n + start, Int<kTogether>(), s.n);
    for (int64_t r = row; r < end; ++r) run_lines(l, join, r * s.n + start, Int<1>(), s.n);
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
