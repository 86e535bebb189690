#include <algorithm>

#include "framework/kernels/parallel_cpu.h"
#include "framework/kernels/reduce/reduce_runs_cpu.h"

namespace taper::kernels::cpu {
namespace {

// x comes before the best so far: only when it is strictly better, or the first nan.
template <class F, class T> bool beats(T x, T best) {
  if (is_nan(best)) return false;
  return is_nan(x) || (std::is_same_v<F, MaxOf> ? x > best : x < best);
}

template <class F, class T> int64_t arg_of_row(const Reader<T>& x, int64_t start, int64_t n) {
  T buffer[kBlock];
  T best = *x.read(start, 1, buffer);
  int64_t index = 0;
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t size = std::min(kBlock, n - begin);
    const T* run = x.read(start + begin, size, buffer);
    const T here = combine_run<F, T>(run, size);
    if (!beats<F, T>(here, best)) continue;
    const T* at = std::find_if(run, run + size, [&](T v) { return v == here || is_nan(v); });
    best = here;
    index = begin + (at - run);
  }
  return index;
}

template <class F, class T>
void arg_of_columns(const Reader<T>& x, int64_t* out, ReduceSizes sizes, ColumnTask task) {
  T buffer[kTileColumns], best[kTileColumns];
  for (int64_t row = 0; row < sizes.n; ++row) {
    const int64_t at = (task.outer * sizes.n + row) * sizes.inner + task.column;
    const T* here = x.read(at, task.width, buffer);
    for (int64_t i = 0; i < task.width; ++i) {
      const bool better = row == 0 || beats<F, T>(here[i], best[i]);
      best[i] = better ? here[i] : best[i];
      out[i] = better ? row : out[i];
    }
  }
}

template <class F, class T>
void arg_reduce_as(const Tensor& out, const Tensor& tensor, ReduceSizes sizes) {
  const Reader<T> x(tensor, dtype_of<T>);
  auto* indices = static_cast<int64_t*>(out.data_ptr());
  if (sizes.inner == 1) {
    parallel_each(sizes.outer, sizes.n,
                  [&](int64_t i) { indices[i] = arg_of_row<F, T>(x, i * sizes.n, sizes.n); });
    return;
  }
  const int64_t tiles = (sizes.inner + kTileColumns - 1) / kTileColumns;
  const ColumnTasks task_of{1, tiles, sizes.inner};
  const int64_t work = sizes.n * std::min(kTileColumns, sizes.inner);
  parallel_each(sizes.outer * tiles, work, [&](int64_t i) {
    const ColumnTask task = task_of(i);
    arg_of_columns<F, T>(x, indices + task.outer * sizes.inner + task.column, sizes, task);
  });
}

template <class F> void arg_reduce_numbers(const Tensor& out, const Tensor& x, ReduceSizes sizes) {
  switch (compute_type(x.dtype())) {
    case DType::float64: return arg_reduce_as<F, double>(out, x, sizes);
    case DType::float32: return arg_reduce_as<F, float>(out, x, sizes);
    default: return arg_reduce_as<F, int64_t>(out, x, sizes);
  }
}

}  // namespace

void arg_reduce(bool largest, const Tensor& out, const Tensor& x, ReduceSizes sizes) {
  if (largest) return arg_reduce_numbers<MaxOf>(out, x, sizes);
  arg_reduce_numbers<MinOf>(out, x, sizes);
}

}  // namespace taper::kernels::cpu
