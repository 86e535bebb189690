// Sorting, running sums and running products. One thread processes a row, or some adjacent columns,
// in order.
#include "framework/kernels/reduce/sort.h"

#include <algorithm>
#include <bit>
#include <numeric>
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

// Combines the elements of each line along n from one end to the other. Adjacent lines are
// processed together.
template <class T, class Join>
void run_along(T* y, const T* x, const T* added, ReduceSizes s, Running how, T none, Join join) {
  const int64_t step = how.backwards ? -s.inner : s.inner;
  const auto run = [&](int64_t first, auto width) {
    T before[kTileColumns];
    std::fill_n(before, width, none);
    for (int64_t t = 0, at = first; t < s.n; ++t, at += step) {
      const int64_t factor = added && how.backwards && t > 0 ? at - step : at;
      const T* const terms = added ? added + at : x + at;
      for (int64_t j = 0; j < width; ++j) {
        const T sum = join(before[j], x[factor + j], terms[j]);
        y[at + j] = how.exclusive ? before[j] : sum;
        before[j] = sum;
      }
    }
  };
  each_column_task(s, 1, s.n, [&](ColumnTask task) {
    const int64_t row = task.outer * s.n + (how.backwards ? s.n - 1 : 0);
    if (s.inner == 1) return run(row, std::integral_constant<int64_t, 1>());
    run(row * s.inner + task.column, task.width);
  });
}

}  // namespace

void argsort(const Tensor& order, const Tensor& x, SortRows how) {
  const int64_t n = how.n, work = n * std::bit_width(uint64_t(n));
  visit_computed(x.dtype(), [&]<class T>(TypeTag<T>) {
    host::parallel_each(order.numel() / n, work, [&](int64_t r) {
      const auto key = keys_of(pointer<const T>(x) + r * n, n, how.descending);
      int64_t* row = pointer<int64_t>(order) + r * n;
      std::iota(row, row + n, 0);
      const auto before = [&](int64_t a, int64_t b) {
        return key[a] != key[b] ? key[a] < key[b] : a < b;
      };
      // If few elements are requested, one pass selects them.
      if (64 * how.first <= n) return std::partial_sort(row, row + how.first, row + n, before);
      if (how.first < n) std::nth_element(row, row + how.first, row + n, before);
      std::sort(row, row + how.first, before);
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
      run_along(pointer<T>(y), pointer<const T>(x), pointer<const T>(added), sizes, how, none,
                join);
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
