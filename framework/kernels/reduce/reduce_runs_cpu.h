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
struct MaxOf {
  template <class T> static constexpr T identity() {
    return std::is_integral_v<T> ? std::numeric_limits<T>::min()
                                 : -std::numeric_limits<T>::infinity();
  }
  // Returns NaN if an operand is NaN.
  template <class T> T operator()(T a, T b) const { return ((a > b) | is_nan(a)) ? a : b; }
};
struct MinOf {
  template <class T> static constexpr T identity() {
    return std::is_integral_v<T> ? std::numeric_limits<T>::max()
                                 : std::numeric_limits<T>::infinity();
  }
  template <class T> T operator()(T a, T b) const { return ((a < b) | is_nan(a)) ? a : b; }
};

// Combines adjacent lanes in a tree, in the same order for all vector widths.
template <class F, class T, size_t kLanes> T joined(T (&lanes)[kLanes], F f) {
  for (size_t half = kLanes / 2; half > 0; half /= 2) {
    for (size_t l = 0; l < half; ++l) lanes[l] = f(lanes[l], lanes[l + half]);
  }
  return lanes[0];
}

// Combines a run in a fixed order: 64 lanes in parallel, then the lanes, then the remaining
// elements.
template <class F, class T> TAPER_CLONES T combine_run(const T* x, int64_t n) {
  constexpr int kLanes = 64;
  const F f;
  T lanes[kLanes];
  const int64_t whole = n - n % kLanes;
  T total = F::template identity<T>();
  if (whole > 0) {
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
