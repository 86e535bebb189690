// Functors of the index kernels. Each thread computes one element: row numbers from an index, the
// combination of rows, and binary search in sorted rows.
#pragma once

#include <cstdint>
#include <limits>

#include "framework/base/host_device.h"
#include "framework/kernels/common/arithmetic.h"
#include "framework/kernels/index/index.h"

namespace taper::v0::kernels {

// Sums the rows with the same key. `start` is the neutral element.
struct SumOfRows {
  template <class T> TAPER_HD T start() const { return T(0); }
  template <class T> TAPER_HD T operator()(T a, T b) const { return plus(a, b); }
};
// One kernel computes prod, amax and amin, because they are used less often.
struct FoldOfRows {
  RowOp op;
  template <class T> TAPER_HD T start() const {
    using Limits = std::numeric_limits<T>;
    if (op == RowOp::kProd) return T(1);
    if constexpr (kIsInteger<T>) {
      return op == RowOp::kAmax ? Limits::min() : Limits::max();
    } else {
      return op == RowOp::kAmax ? -Limits::infinity() : Limits::infinity();
    }
  }
  template <class T> TAPER_HD T operator()(T a, T b) const {
    if (op == RowOp::kProd) return times(a, b);
    if (is_nan(a) || is_nan(b)) return is_nan(a) ? a : b;
    return (op == RowOp::kAmax) == (a < b) ? b : a;
  }
};
// Calls f(fold, tag) for rows of a floating dtype or int64.
template <class F> void with_fold(RowOp op, DType dtype, F f) {
  const auto typed = [&](auto tag) {
    if (op == RowOp::kSum) return f(SumOfRows{}, tag);
    f(FoldOfRows{op}, tag);
  };
  if (dtype == kInt64) return typed(TypeTag<int64_t>{});
  visit_floating(dtype, typed);
}

template <class Check> struct RowKeys {
  int64_t* key;
  const int64_t* index;
  int64_t sizes[kMaxDims], strides[kMaxDims];  // sizes of the index, and strides of the tensor into
                                               // which it points
  int64_t bound;
  int dims, dim;
  bool wrap, few;  // few: positions fit in 32 bits, in which division is faster
  Check check;

  TAPER_HD void operator()(int64_t i) const {
    int64_t at = index[i];
    if (wrap && at < 0 && at >= -bound) at += bound;
    key[i] = -1;
    if (!check(at, bound)) return;
    key[i] = at * strides[dim] + (few ? of_others(uint32_t(i)) : of_others(i));
  }
  // Returns the part of the row number that depends on the indices in the other dimensions than
  // `dim`. `rest` is the flat position.
  template <class I> TAPER_HD int64_t of_others(I rest) const {
    int64_t row = 0;
    for (int d = dims - 1; d >= 0; --d) {
      const I next = rest / I(sizes[d]);
      if (d != dim) row += int64_t(rest - next * I(sizes[d])) * strides[d];
      rest = next;
    }
    return row;
  }
};

template <class Check> struct AllHold {
  const bool* holds;
  Check check;
  TAPER_HD void operator()(int64_t i) const { check.require(holds[i]); }
};

// Keeps one side of a diagonal of matrices [rows, columns]. Each index is a run of kRun elements of
// a row. T is an unsigned integer with the size of an element, and Index counts all elements.
template <class T, int kRun, class Index> struct Band {
  struct alignas(sizeof(T) * kRun) Run {
    T at[kRun];
  };
  Run* y;
  const Run* x;
  Index rows, columns;
  int64_t diagonal;
  bool lower;

  TAPER_HD bool is_kept(int64_t right) const {
    return lower ? right <= diagonal : right >= diagonal;
  }
  TAPER_HD void operator()(int64_t i) const {
    const Index first = Index(i) * kRun, row = first / columns;
    const int64_t right = int64_t(first - row * columns) - int64_t(row % rows);
    Run run{};
    if (is_kept(lower ? right : right + kRun - 1)) {
      run = x[i];
      for (int j = 0; j < kRun; ++j) {
        if (!is_kept(right + j)) run.at[j] = 0;
      }
    }
    y[i] = run;
  }
};

template <class T> struct Search {
  int64_t* y;
  const T *sorted, *x;
  int64_t n, m;
  bool right;

  TAPER_HD void operator()(int64_t i) const {
    const T *row = sorted + i / m * n, value = x[i];
    int64_t low = 0, high = n;
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      const bool beyond = right ? row[middle] > value : row[middle] >= value;
      if (beyond) high = middle;
      if (!beyond) low = middle + 1;
    }
    y[i] = low;
  }
};

template <class Backend>
void IndexKernels<Backend>::row_keys(const IndexRules& rules, const Tensor& key,
                                     const Tensor& index, const Shape& shape, int dim) {
  using Check = decltype(Backend::check(rules.op, index));
  RowKeys<Check> f{.key = pointer<int64_t>(key),
                   .index = pointer<const int64_t>(index),
                   .sizes = {},
                   .strides = {},
                   .bound = shape[dim],
                   .dims = shape.size(),
                   .dim = dim,
                   .wrap = rules.wrap,
                   .few = index.numel() <= std::numeric_limits<int32_t>::max(),
                   .check = Backend::check(rules.op, index)};
  const Shape strides = contiguous_strides(shape);
  for (int d = 0; d < f.dims; ++d) {
    f.sizes[d] = index.shape()[d];
    f.strides[d] = strides[d];
  }
  Backend::run(rules.op, key, key.numel(), 4 * f.dims, f);
}

template <class Backend>
void IndexKernels<Backend>::require_all(const char* sentence, const Tensor& holds) {
  const auto check = Backend::check(sentence, holds);
  Backend::run("require_all", holds, holds.numel(), 1,
               AllHold<decltype(check)>{pointer<const bool>(holds), check});
}

template <class Backend>
void IndexKernels<Backend>::band(const Tensor& y, const Tensor& x, int64_t diagonal, bool lower) {
  constexpr int kBytes = 16;  // the widest access of a GPU
  const auto is_aligned = [](const void* p) {
    return reinterpret_cast<uintptr_t>(p) % kBytes == 0;
  };
  visit_size(x.element_size(), [&]<class Word>(TypeTag<Word>) {
    constexpr int kWide = kBytes / sizeof(Word);
    const auto run = [&]<int kRun, class Index>(Band<Word, kRun, Index> f) {
      using Run = typename Band<Word, kRun, Index>::Run;
      f.y = static_cast<Run*>(y.data_ptr());
      f.x = static_cast<const Run*>(x.data_ptr());
      f.rows = Index(x.size(-2));
      f.columns = Index(x.size(-1));
      f.diagonal = diagonal;
      f.lower = lower;
      Backend::run("band", y, y.numel() / kRun, 4, f);
    };
    const bool is_wide = x.size(-1) % kWide == 0 && is_aligned(y.data_ptr()) &&
                         is_aligned(x.data_ptr()) &&
                         y.numel() <= std::numeric_limits<int32_t>::max();
    is_wide ? run(Band<Word, kWide, uint32_t>()) : run(Band<Word, 1, int64_t>());
  });
}

template <class Backend>
void IndexKernels<Backend>::search(const Tensor& y, const Tensor& sorted, const Tensor& x,
                                   int64_t n, int64_t m, bool right) {
  const auto run = [&]<class T>(TypeTag<T>) {
    Backend::run(
        "searchsorted", y, y.numel(), 64,
        Search<T>{pointer<int64_t>(y), pointer<const T>(sorted), pointer<const T>(x), n, m, right});
  };
  if (x.dtype() == kInt64) return run(TypeTag<int64_t>{});
  run(TypeTag<double>{});
}

}  // namespace taper::v0::kernels
