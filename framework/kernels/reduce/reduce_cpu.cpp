// Every sum is cut into blocks of fixed size: lanes or columns are added in order within a block,
// and then the blocks in order (in double for float). Therefore the bits depend only on the shape.
#include "framework/kernels/reduce/reduce.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <type_traits>

#include "framework/host/parallel.h"
#include "framework/kernels/elementwise/copy.h"
#include "framework/kernels/reduce/reduce_runs_cpu.h"

namespace taper::v0::kernels::cpu {
namespace {

constexpr int64_t kBlockRows = 128;  // rows that one task adds into columns

// The type in which the results of blocks are combined.
template <class T> using Wide = std::conditional_t<std::is_same_v<T, float>, double, T>;

template <class T> struct Results : Writer<T> {
  double divisor;  // 1 except for a mean

  Results(const Tensor& out, DType as, double d) : Writer<T>(out, as), divisor(d) {}

  // Converts the combined value to an element. T is uint8_t for bool. The value of all() over no
  // elements is still the neutral element, which need not be 1.
  T finish(Wide<T> value) const {
    if constexpr (std::is_same_v<T, uint8_t>) {
      return value != 0;
    } else if constexpr (std::is_floating_point_v<T>) {
      return T(value / Wide<T>(divisor));
    } else {
      return value;
    }
  }
};

// --- rows: inner == 1 ---

// Reads elements and maps them: f(position, n, run, mapped) writes the mapped values of a run.
template <class T, class F> struct MappedReader : Reader<T> {
  F f;
  const T* read(int64_t at, int64_t n, T* buffer) const {
    if (n > 0) f(at, n, Reader<T>::read(at, n, buffer), buffer);
    return buffer;
  }
};

template <class F, class T, class R>
void reduce_rows(const R& x, const Results<T>& out, ReduceSizes sizes) {
  const F f;
  const int64_t n = sizes.n, blocks = std::max<int64_t>(1, (n + kBlock - 1) / kBlock);
  const auto combine_block = [&](int64_t task) {
    T buffer[kBlock];
    const int64_t begin = task % blocks * kBlock, size = std::min(kBlock, n - begin);
    const T* run = x.read(task / blocks * n + begin, size, buffer);
    return Wide<T>(combine_run<F, T>(run, size));
  };
  const int64_t tasks = sizes.outer * blocks, work = std::min(kBlock, n);
  if (blocks == 1) {
    return host::parallel_each(tasks, work,
                               [&](int64_t i) { out.write_one(i, out.finish(combine_block(i))); });
  }
  const auto partial = std::make_unique_for_overwrite<Wide<T>[]>(size_t(tasks));
  host::parallel_each(tasks, work, [&](int64_t i) { partial[size_t(i)] = combine_block(i); });
  host::parallel_each(sizes.outer, blocks, [&](int64_t row) {
    Wide<T> total = F::template identity<Wide<T>>();
    for (int64_t b = 0; b < blocks; ++b) total = f(total, partial[size_t(row * blocks + b)]);
    out.write_one(row, out.finish(total));
  });
}

// --- columns: inner > 1 ---

template <class F, class T, class R>
void combine_tile(const R& x, ReduceSizes sizes, ColumnTask task, T* acc) {
  T buffer[kTileColumns];
  std::fill(acc, acc + task.width, F::template identity<T>());
  const int64_t first = task.block * kBlockRows, end = std::min(sizes.n, first + kBlockRows);
  for (int64_t row = first; row < end; ++row) {
    const int64_t at = (task.outer * sizes.n + row) * sizes.inner + task.column;
    const T* terms = x.read(at, task.width, buffer);
    vector_for(task.width, [=](int64_t i) { acc[i] = F()(acc[i], terms[i]); });
  }
}

template <class T>
void write_tile(const Results<T>& out, ReduceSizes sizes, ColumnTask task, const Wide<T>* total) {
  T values[kTileColumns];
  for (int64_t i = 0; i < task.width; ++i) values[i] = out.finish(total[i]);
  out.write(task.outer * sizes.inner + task.column, task.width, values);
}

template <class F, class T, class R>
void reduce_columns(const R& x, const Results<T>& out, ReduceSizes sizes) {
  const int64_t inner = sizes.inner;
  const int64_t blocks = std::max<int64_t>(1, (sizes.n + kBlockRows - 1) / kBlockRows);
  const bool direct = blocks == 1;
  const size_t kept = direct ? 0 : size_t(sizes.outer * blocks * inner);
  const auto partial = std::make_unique_for_overwrite<Wide<T>[]>(kept);
  each_column_task(sizes, blocks, std::min(kBlockRows, sizes.n), [&](ColumnTask task) {
    T acc[kTileColumns];
    Wide<T> wide[kTileColumns];
    combine_tile<F, T>(x, sizes, task, acc);
    const int64_t at = (task.outer * blocks + task.block) * inner + task.column;
    std::copy(acc, acc + task.width, direct ? wide : &partial[size_t(at)]);
    if (direct) write_tile(out, sizes, task, wide);
  });
  if (direct) return;

  each_column_task(sizes, 1, blocks, [&](ColumnTask task) {
    Wide<T> totals[kTileColumns], *const total = totals;
    std::fill(total, total + task.width, F::template identity<Wide<T>>());
    for (int64_t b = 0; b < blocks; ++b) {
      const auto* part = &partial[size_t((task.outer * blocks + b) * inner + task.column)];
      vector_for(task.width, [=](int64_t i) { total[i] = F()(total[i], part[i]); });
    }
    write_tile(out, sizes, task, total);
  });
}

template <class F, class T, class R>
void reduce_read(const R& x, const Results<T>& out, ReduceSizes sizes) {
  if (sizes.inner == 1) return reduce_rows<F, T>(x, out, sizes);
  reduce_columns<F, T>(x, out, sizes);
}
template <class F, class T>
void reduce_as(const Tensor& out, const Tensor& x, ReduceSizes sizes, DType as, double divisor) {
  reduce_read<F, T>(Reader<T>(x, as), Results<T>(out, as, divisor), sizes);
}
template <class F, class T, class G>
void reduce_mapped(const Tensor& out, const Tensor& x, ReduceSizes sizes, G map) {
  const MappedReader<T, G> reader{{x, dtype_of<T>}, map};
  reduce_read<F, T>(reader, Results<T>(out, dtype_of<T>, 1), sizes);
}

template <class F>
void reduce_numbers(const Tensor& out, const Tensor& x, ReduceSizes sizes, double divisor = 1) {
  visit_computed(compute_type(x.dtype()), [&]<class T>(TypeTag<T>) {
    reduce_as<F, T>(out, x, sizes, dtype_of<T>, divisor);
  });
}

// --- the index of the largest or smallest ---

// Returns whether x replaces the best element so far. It does only if it is strictly better, or the
// first NaN.
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
    return host::parallel_each(sizes.outer, sizes.n, [&](int64_t i) {
      indices[i] = arg_of_row<F, T>(x, i * sizes.n, sizes.n);
    });
  }
  each_column_task(sizes, 1, sizes.n, [&](ColumnTask task) {
    arg_of_columns<F, T>(x, indices + task.outer * sizes.inner + task.column, sizes, task);
  });
}

template <class F> void arg_reduce_numbers(const Tensor& out, const Tensor& x, ReduceSizes sizes) {
  visit_computed(compute_type(x.dtype()),
                 [&]<class T>(TypeTag<T>) { arg_reduce_as<F, T>(out, x, sizes); });
}

// --- the variance: sums of x - origin and of its squares, in double ---

template <class T>
TAPER_CLONES void add_spread_of_run(const T* x, int64_t n, double origin, double* sum,
                                    double* squares) {
  constexpr int kLanes = 16;
  double a[kLanes] = {}, b[kLanes] = {};
  const int64_t whole = n - n % kLanes;
  for (int64_t i = 0; i < whole; i += kLanes) {
#pragma omp simd
    for (int l = 0; l < kLanes; ++l) {
      const double d = double(x[i + l]) - origin;
      a[l] += d;
      b[l] += d * d;
    }
  }
  for (int64_t i = whole; i < n; ++i) {
    const double d = double(x[i]) - origin;
    a[i - whole] += d;
    b[i - whole] += d * d;
  }
  *sum = *squares = 0;
  for (int l = 0; l < kLanes; ++l) {
    *sum += a[l];
    *squares += b[l];
  }
}

template <class T>
TAPER_CLONES void add_spread_of_columns(const T* x, int64_t n, const double* origin, double* sum,
                                        double* squares) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const double d = double(x[i]) - origin[i];
    sum[i] += d;
    squares[i] += d * d;
  }
}

// Processes [outer, n, inner] in blocks of n and tiles of inner. A row is treated as a column with
// inner 1.
template <class T>
void variance_as(bool root, const Tensor& out, const Tensor& tensor, ReduceSizes sizes,
                 double freedom) {
  const Reader<T> x(tensor, dtype_of<T>);
  const Writer<T> y(out, dtype_of<T>);
  const auto [outer, n, inner] = sizes;
  const bool rows = inner == 1;
  const int64_t block = rows ? kBlock : kBlockRows, blocks = (n + block - 1) / block;
  const auto sums = std::make_unique_for_overwrite<double[]>(size_t(outer * blocks * inner) * 2);
  each_column_task(sizes, blocks, block, [&](ColumnTask task) {
    const int64_t first = task.block * block, end = std::min(n, first + block);
    double* sum = &sums[size_t((task.outer * blocks + task.block) * inner + task.column) * 2];
    double* squares = sum + task.width;
    T buffer[std::max(kBlock, kTileColumns)];
    if (rows) {
      const double origin = double(*x.read(task.outer * n, 1, buffer));
      const T* run = x.read(task.outer * n + first, end - first, buffer);
      return add_spread_of_run(run, end - first, origin, sum, squares);
    }
    double origin[kTileColumns];
    const int64_t top = task.outer * n * inner + task.column;
    std::copy_n(x.read(top, task.width, buffer), task.width, origin);
    std::fill(sum, squares + task.width, 0.0);
    for (int64_t row = first; row < end; ++row) {
      const T* run = x.read(top + row * inner, task.width, buffer);
      add_spread_of_columns(run, task.width, origin, sum, squares);
    }
  });
  each_column_task(sizes, 1, blocks, [&](ColumnTask task) {
    double sum[kTileColumns] = {}, squares[kTileColumns] = {};
    for (int64_t b = 0; b < blocks; ++b) {
      const double* of_block = &sums[size_t((task.outer * blocks + b) * inner + task.column) * 2];
      for (int64_t c = 0; c < task.width; ++c) {
        sum[c] += of_block[c];
        squares[c] += of_block[task.width + c];
      }
    }
    T values[kTileColumns];
    for (int64_t c = 0; c < task.width; ++c) {
      const double total = squares[c] - sum[c] * sum[c] / double(n);
      const double variance = (total < 0 ? 0 : total) / freedom;
      values[c] = T(root ? std::sqrt(variance) : variance);
    }
    y.write(task.outer * inner + task.column, task.width, values);
  });
}

// --- log(sum(exp(x))) ---

template <class T> void logsumexp_as(const Tensor& out, const Tensor& x, ReduceSizes sizes) {
  const int64_t count = sizes.outer * sizes.inner, inner = sizes.inner, stretch = sizes.n * inner;
  const auto peaks = Tensor::make({count}, dtype_of<T>, x.device());
  const auto sums = Tensor::make({count}, dtype_of<T>, x.device());
  T* const peak = static_cast<T*>(peaks.data_ptr());
  T* const sum = static_cast<T*>(sums.data_ptr());
  const Writer<T> to(out, dtype_of<T>);
  const auto each = [&](auto f) {
    parallel_for(count, host::grain_of(8), [&](int64_t begin, int64_t end) {
      vector_for(end - begin, [=](int64_t i) { f(begin + i); });
      to.write(begin, end - begin, sum + begin);
    });
  };
  reduce_as<MaxOf, T>(peaks, x, sizes, dtype_of<T>, 1);
  // The maximum is subtracted unless it is infinite, because inf - inf is NaN.
  each([=](int64_t i) { sum[i] = peak[i] = is_finite(peak[i]) ? peak[i] : T(0); });
  reduce_mapped<SumOf, T>(sums, x, sizes, [=](int64_t at, int64_t n, const T* run, T* y) {
    const T* const of = peak + at / stretch * inner + at % inner;
    if (inner > 1) return vector_for(n, [=](int64_t i) { y[i] = math::exp(run[i] - of[i]); });
    const T shift = *of;
    vector_for(n, [=](int64_t i) { y[i] = math::exp(run[i] - shift); });
  });
  each([=](int64_t i) { sum[i] = math::log(sum[i]) + peak[i]; });
}

}  // namespace

void variance(bool root, const Tensor& out, const Tensor& x, ReduceSizes sizes, double freedom) {
  (x.dtype() == kFloat64 ? variance_as<double> : variance_as<float>)(root, out, x, sizes, freedom);
}

void logsumexp(const Tensor& out, const Tensor& x, ReduceSizes sizes) {
  (x.dtype() == kFloat64 ? logsumexp_as<double> : logsumexp_as<float>)(out, x, sizes);
}

void reduce(ReductionOp op, const Tensor& out, const Tensor& x, ReduceSizes sizes, ReduceMap map) {
  if (map == ReduceMap::kNonzero) {
    const Tensor truth = packed(x, kBool);
    return reduce_as<SumOf, int64_t>(out, truth, sizes, kInt64, 1);
  }
  if (map != ReduceMap::kNone) {
    return visit_computed(compute_type(x.dtype()), [&]<class T>(TypeTag<T>) {
      const auto go = [&](auto f) {
        const auto each = [=](int64_t, int64_t n, const T* run, T* y) {
          vector_for(n, [=](int64_t i) { y[i] = f(run[i]); });
        };
        if (op == ReductionOp::kAmax) return reduce_mapped<MaxOf, T>(out, x, sizes, each);
        reduce_mapped<SumOf, T>(out, x, sizes, each);
      };
      if (map == ReduceMap::kSquare) return go([](T v) { return times(v, v); });
      go([](T v) { return v < T(0) ? minus(T(0), v) : v; });
    });
  }
  switch (op) {
    case ReductionOp::kSum: return reduce_numbers<SumOf>(out, x, sizes);
    case ReductionOp::kMean: return reduce_numbers<SumOf>(out, x, sizes, double(sizes.n));
    case ReductionOp::kProd: return reduce_numbers<ProdOf>(out, x, sizes);
    case ReductionOp::kAmax: return reduce_numbers<MaxOf>(out, x, sizes);
    case ReductionOp::kAmin: return reduce_numbers<MinOf>(out, x, sizes);
    // Elements were read as 0 or 1.
    case ReductionOp::kAll: return reduce_as<MinOf, uint8_t>(out, x, sizes, kBool, 1);
    default: return reduce_as<MaxOf, uint8_t>(out, x, sizes, kBool, 1);
  }
}

void arg_reduce(bool largest, const Tensor& out, const Tensor& values, const Tensor& x,
                ReduceSizes sizes) {
  (largest ? arg_reduce_numbers<MaxOf> : arg_reduce_numbers<MinOf>)(out, x, sizes);
  if (!values.defined()) return;
  const auto* index = static_cast<const int64_t*>(out.data_ptr());
  const auto* from = static_cast<const char*>(x.data_ptr());
  auto* to = static_cast<char*>(values.data_ptr());
  const size_t size = x.element_size();
  const int64_t n = sizes.n, inner = sizes.inner;
  host::parallel_each(sizes.outer * inner, 4, [=](int64_t i) {
    const int64_t at = (i / inner * n + index[i]) * inner + i % inner;
    std::memcpy(to + size_t(i) * size, from + size_t(at) * size, size);
  });
}

}  // namespace taper::v0::kernels::cpu
