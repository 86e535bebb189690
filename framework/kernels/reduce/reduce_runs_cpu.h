// Code shared by the CPU's reductions: the combining functions, one vector loop over a contiguous
// run, and reading elements in the type in which they are combined.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "framework/host/parallel.h"
#include "framework/kernels/common/arithmetic.h"
#include "framework/kernels/common/simd_cpu.h"
#include "framework/kernels/elementwise/convert_cpu.h"
#include "framework/kernels/reduce/reduce.h"

namespace taper::v0::kernels::cpu {

inline constexpr int64_t kBlock = 2048;       // elements of a row per task
inline constexpr int64_t kTileColumns = 512;  // columns per task

struct SumOf {
  template <class T> static constexpr T identity() { return T(0); }
  template <class T> T operator()(T a, T b) const { return plus(a, b); }
};
struct ProdOf {
  template <class T> static constexpr T identity() { return T(1); }
  template <class T> T operator()(T a, T b) const { return times(a, b); }
};
// The larger or smaller number in one instruction. It may lose a NaN.
struct LargerOf {
  template <class T> static constexpr T identity() {
    return std::is_integral_v<T> ? std::numeric_limits<T>::min()
                                 : -std::numeric_limits<T>::infinity();
  }
  template <class T> T operator()(T a, T b) const { return a > b ? a : b; }
};
struct SmallerOf {
  template <class T> static constexpr T identity() {
    return std::is_integral_v<T> ? std::numeric_limits<T>::max()
                                 : std::numeric_limits<T>::infinity();
  }
  template <class T> T operator()(T a, T b) const { return a < b ? a : b; }
};
// The larger or smaller number, or NaN if an operand is NaN. WithoutNan gives the same result if
// none is.
struct MaxOf : LargerOf {
  using WithoutNan = LargerOf;
  template <class T> T operator()(T a, T b) const { return ((a > b) | is_nan(a)) ? a : b; }
};
struct MinOf : SmallerOf {
  using WithoutNan = SmallerOf;
  template <class T> T operator()(T a, T b) const { return ((a < b) | is_nan(a)) ? a : b; }
};

// Combines adjacent lanes in a tree, in the same order for all vector widths.
// A recursion over the constant `half`, so that every level is a few vector instructions.
template <class F, class T, size_t kLanes, size_t half = kLanes / 2>
T joined(T (&lanes)[kLanes], F f) {
  for (size_t l = 0; l < half; ++l) lanes[l] = f(lanes[l], lanes[l + half]);
  if constexpr (half > 1) return joined<F, T, kLanes, half / 2>(lanes, f);
  return lanes[0];
}

// Combines the first `whole` elements of a run, a multiple of 64, with a function that may lose
// NaN. Writes whether there may be a NaN: a NaN makes a sum in which it is NaN, as do two
// infinities.
template <class F, class T> T combine_without_nan(const T* x, int64_t whole, bool* may_have_nan) {
  constexpr int kLanes = 64, kHalf = kLanes / 2;
  T lanes[kLanes], sums[kHalf];
  for (int l = 0; l < kLanes; ++l) lanes[l] = x[l];
  for (int l = 0; l < kHalf; ++l) sums[l] = x[l] + x[l + kHalf];
  for (int64_t i = kLanes; i < whole; i += kLanes) {
#pragma omp simd
    for (int l = 0; l < kLanes; ++l) lanes[l] = F()(lanes[l], x[i + l]);
#pragma omp simd
    for (int l = 0; l < kHalf; ++l) sums[l] += x[i + l] + x[i + l + kHalf];
  }
  int32_t found = 0;
  for (int l = 0; l < kHalf; ++l) found |= is_nan(sums[l]);
  *may_have_nan = found;
  return joined(lanes, F());
}

// Combines a run in a fixed order: 64 lanes in parallel, then the lanes, then the remaining
// elements.
template <class F, class T> TAPER_CLONES T combine_run(const T* x, int64_t n) {
  constexpr int kLanes = 64;
  const F f;
  T lanes[kLanes];
  const int64_t whole = n - n % kLanes;
  T total = F::template identity<T>();
  bool is_done = false;
  if constexpr (std::is_floating_point_v<T> && requires { typename F::WithoutNan; }) {
    if (whole > 0) {
      bool may_have_nan;
      total = combine_without_nan<typename F::WithoutNan>(x, whole, &may_have_nan);
      is_done = !may_have_nan;
    }
  }
  if (whole > 0 && !is_done) {
    for (int l = 0; l < kLanes; ++l) lanes[l] = x[l];
    for (int64_t i = kLanes; i < whole; i += kLanes) {
#pragma omp simd
      for (int l = 0; l < kLanes; ++l) lanes[l] = f(lanes[l], x[i + l]);
    }
    total = joined(lanes, f);
  }
  for (int64_t i = whole; i < n; ++i) total = f(total, x[i]);
  return total;
}

// Returns the sum of a[i] * b[i], with the bits of combine_run<SumOf> over the rounded products.
template <class T> TAPER_CLONES T sum_of_products(const T* a, const T* b, int64_t n) {
  constexpr int kLanes = 64;
  T lanes[kLanes], total = 0;
  const int64_t whole = n - n % kLanes;
  if (whole > 0) {
    for (int l = 0; l < kLanes; ++l) lanes[l] = a[l] * b[l];
    for (int64_t i = kLanes; i < whole; i += kLanes) {
#pragma omp simd
      for (int l = 0; l < kLanes; ++l) lanes[l] += a[i + l] * b[i + l];
    }
    total = joined(lanes, SumOf());
  }
  for (int64_t i = whole; i < n; ++i) total += a[i] * b[i];
  return total;
}

// A part of a [outer, n, inner] tensor: a block of n and a tile of inner.
struct ColumnTask {
  int64_t outer, block, column, width;
};
// Calls f(task) for all tasks. Each processes `rows` rows.
template <class F>
void each_column_task(ReduceSizes sizes, int64_t blocks, int64_t rows, const F& f) {
  const int64_t tiles = (sizes.inner + kTileColumns - 1) / kTileColumns;
  const int64_t work = rows * std::min(kTileColumns, sizes.inner);
  host::parallel_each(sizes.outer * blocks * tiles, work, [&](int64_t task) {
    const int64_t column = task % tiles * kTileColumns;
    f(ColumnTask{task / tiles / blocks, task / tiles % blocks, column,
                 std::min(kTileColumns, sizes.inner - column)});
  });
}

}  // namespace taper::v0::kernels::cpu
