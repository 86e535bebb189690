// Softmax, log-softmax and cross entropy (`=`). Half types are read into and written from float
// rows; sums run in float (double for double) in an order that depends on the sizes alone.
#include "framework/kernels/softmax.h"

#include <algorithm>
#include <vector>

#include "framework/kernels/cpu/parallel.h"
#include "framework/kernels/cpu/reduce_runs.h"
#include "framework/kernels/cpu/simd.h"
#include "framework/kernels/cpu/writer.h"
#include "framework/kernels/math.h"

namespace taper::kernels::cpu {
namespace {

// Element operations that one exponential stands for when work is shared out.
constexpr int64_t kExpWork = 4;

// y = exp(x - shift)
template <class T> TAPER_CLONES void exp_row(T* y, const T* x, int64_t n, T shift) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = math::exp(x[i] - shift);
}

template <class T> TAPER_CLONES void scale_row(T* y, int64_t n, T factor) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] *= factor;
}

// One number in place of an array of equal ones.
template <class T> struct Same {
  T value;
  T operator[](int64_t) const { return value; }
};

// y = (x - max) - log_sum
template <class T, class Each>
TAPER_CLONES void shift_row(T* y, const T* x, int64_t n, Each max, Each log_sum) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - max[i]) - log_sum[i];
}

// What the gradient sums: dy * y, or dy for the logarithm.
template <class T>
TAPER_CLONES void add_terms(bool log, T* sum, const T* dy, const T* y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) sum[i] += log ? dy[i] : dy[i] * y[i];
}

template <class T, class Each>
TAPER_CLONES void backward_row(bool log, T* dx, const T* dy, const T* y, int64_t n, Each sum) {
  if (log) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) dx[i] = dy[i] - math::exp(y[i]) * sum[i];
    return;
  }
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) dx[i] = y[i] * (dy[i] - sum[i]);
}

// The largest element of a row and the sum of exp(x - max); `exps` keeps the terms.
template <class T> struct MaxSum { T max, sum; };
template <class T> MaxSum<T> max_sum(const T* x, T* exps, int64_t n) {
  const T max = combine_run<MaxOf>(x, n);
  exp_row(exps, x, n, max);
  return {max, combine_run<SumOf>(exps, n)};
}

template <class T>
void softmax_rows(bool log, const Tensor& y, const Tensor& x, int64_t rows, int64_t n) {
  const Reader<T> from(x, dtype_of<T>);
  const Writer<T> to(y, dtype_of<T>);
  parallel_for(rows, grain_of(n * kExpWork), [&](int64_t begin, int64_t end) {
    std::vector<T> in(static_cast<size_t>(n)), out(static_cast<size_t>(n));
    for (int64_t r = begin; r < end; ++r) {
      const T* row = from.read(r * n, n, in.data());
      T* result = to.open(r * n, out.data());
      const MaxSum<T> total = max_sum(row, log ? out.data() : result, n);
      if (log) {
        shift_row(result, row, n, Same<T>{total.max}, Same<T>{math::log(total.sum)});
      } else {
        scale_row(result, n, T(1) / total.sum);
      }
      to.store(r * n, n, result);
    }
  });
}

template <class T>
void backward_rows(bool log, const Tensor& dx, const Tensor& dy, const Tensor& y, int64_t rows,
                   int64_t n) {
  const Reader<T> from_dy(dy, dtype_of<T>), from_y(y, dtype_of<T>);
  const Writer<T> to(dx, dtype_of<T>);
  parallel_for(rows, grain_of(n * kExpWork), [&](int64_t begin, int64_t end) {
    std::vector<T> a(static_cast<size_t>(n)), b(a), terms(a);
    for (int64_t r = begin; r < end; ++r) {
      const T* g = from_dy.read(r * n, n, a.data());
      const T* p = from_y.read(r * n, n, b.data());
      std::fill(terms.begin(), terms.end(), T(0));
      add_terms(log, terms.data(), g, p, n);
      const T sum = combine_run<SumOf>(terms.data(), n);
      T* result = to.open(r * n, terms.data());
      backward_row(log, result, g, p, n, Same<T>{sum});
      to.store(r * n, n, result);
    }
  });
}

// --- along a dimension that is not the last: columns side by side ---

template <class T> TAPER_CLONES void max_columns(T* max, const T* x, int64_t width) {
  const MaxOf larger;
#pragma omp simd
  for (int64_t j = 0; j < width; ++j) max[j] = larger(max[j], x[j]);
}

template <class T>
TAPER_CLONES void add_exp_columns(T* sum, const T* x, const T* max, int64_t width) {
#pragma omp simd
  for (int64_t j = 0; j < width; ++j) sum[j] += math::exp(x[j] - max[j]);
}

template <class T>
TAPER_CLONES void softmax_columns(T* y, const T* x, const T* max, const T* factor, int64_t width) {
#pragma omp simd
  for (int64_t j = 0; j < width; ++j) y[j] = math::exp(x[j] - max[j]) * factor[j];
}

// Calls f(at, width) for tiles of columns; row i of a tile starts at element at + i * inner.
template <class F> void for_column_tiles(ReduceSizes s, F f) {
  const int64_t tiles = (s.inner + kTileColumns - 1) / kTileColumns;
  const int64_t work = s.n * std::min(s.inner, kTileColumns) * kExpWork;
  parallel_for(s.outer * tiles, grain_of(work), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t column = t % tiles * kTileColumns;
      f(t / tiles * s.n * s.inner + column, std::min(kTileColumns, s.inner - column));
    }
  });
}

template <class T> void softmax_tiles(bool log, const Tensor& y, const Tensor& x, ReduceSizes s) {
  const Reader<T> from(x, dtype_of<T>);
  const Writer<T> to(y, dtype_of<T>);
  for_column_tiles(s, [&](int64_t first, int64_t width) {
    T max[kTileColumns], sum[kTileColumns], in[kTileColumns], out[kTileColumns];
    const auto row_at = [&](int64_t i) { return from.read(first + i * s.inner, width, in); };
    std::copy_n(row_at(0), width, max);
    for (int64_t i = 1; i < s.n; ++i) max_columns(max, row_at(i), width);
    std::fill_n(sum, width, T(0));
    for (int64_t i = 0; i < s.n; ++i) add_exp_columns(sum, row_at(i), max, width);
    for (int64_t j = 0; j < width; ++j) sum[j] = log ? math::log(sum[j]) : T(1) / sum[j];
    for (int64_t i = 0; i < s.n; ++i) {
      const int64_t at = first + i * s.inner;
      T* result = to.open(at, out);
      if (log) {
        shift_row<T, const T*>(result, row_at(i), width, max, sum);
      } else {
        softmax_columns(result, row_at(i), max, sum, width);
      }
      to.store(at, width, result);
    }
  });
}

template <class T>
void backward_tiles(bool log, const Tensor& dx, const Tensor& dy, const Tensor& y, ReduceSizes s) {
  const Reader<T> from_dy(dy, dtype_of<T>), from_y(y, dtype_of<T>);
  const Writer<T> to(dx, dtype_of<T>);
  for_column_tiles(s, [&](int64_t first, int64_t width) {
    T sum[kTileColumns] = {}, a[kTileColumns], b[kTileColumns], out[kTileColumns];
    for (int64_t i = 0; i < s.n; ++i) {
      const int64_t at = first + i * s.inner;
      add_terms(log, sum, from_dy.read(at, width, a), from_y.read(at, width, b), width);
    }
    for (int64_t i = 0; i < s.n; ++i) {
      const int64_t at = first + i * s.inner;
      T* result = to.open(at, out);
      const T* g = from_dy.read(at, width, a);
      backward_row<T, const T*>(log, result, g, from_y.read(at, width, b), width, sum);
      to.store(at, width, result);
    }
  });
}

// --- cross entropy ---

void check_targets(const int64_t* target, int64_t rows, int64_t classes, const NllOptions& o) {
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t t = target[r];
    if (t == o.ignore_index || (t >= 0 && t < classes)) continue;
    throw IndexError(cat("Target ", t, " is out of bounds. ", o.name(), ": element ", r,
                         " of target must be in [0, ", classes, "), or ", o.ignore_index,
                         " to be ignored"));
  }
}

template <class T> T* data_of(const Tensor& x) { return static_cast<T*>(x.data_ptr()); }

template <class T>
void cross_entropy_rows(const NllRows& to, const Tensor& logits, const int64_t* target,
                        const NllOptions& o) {
  const int64_t rows = logits.shape()[0], n = logits.shape()[1];
  const Reader<T> from(logits, dtype_of<T>);
  T *loss = data_of<T>(to.losses), *weights = data_of<T>(to.weights);
  T* lse = data_of<T>(to.logsumexp);
  const T* of_class = o.weight.defined() ? data_of<T>(o.weight) : nullptr;
  parallel_for(rows, grain_of(n * kExpWork), [&](int64_t begin, int64_t end) {
    std::vector<T> in(static_cast<size_t>(n)), exps(in);
    for (int64_t r = begin; r < end; ++r) {
      loss[r] = weights[r] = lse[r] = 0;
      if (target[r] == o.ignore_index) continue;
      const T* x = from.read(r * n, n, in.data());
      weights[r] = of_class ? of_class[target[r]] : T(1);
      loss[r] = -x[target[r]];
      if (!o.log_probabilities) {
        const MaxSum<T> total = max_sum(x, exps.data(), n);
        const T log_sum = math::log(total.sum);
        lse[r] = total.max + log_sum;
        loss[r] = log_sum - (x[target[r]] - total.max);
      }
      loss[r] *= weights[r];
    }
  });
}

template <class T>
void cross_entropy_backward_rows(const Tensor& dlogits, const Tensor& scale, const NllRows& saved,
                                 const Tensor& logits, const int64_t* target, const NllOptions& o) {
  const int64_t rows = logits.shape()[0], n = logits.shape()[1];
  const Reader<T> from(logits, dtype_of<T>);
  const Writer<T> to(dlogits, dtype_of<T>);
  const T *lse = data_of<T>(saved.logsumexp), *weights = data_of<T>(saved.weights);
  const T* scales = data_of<T>(scale);
  const bool one_scale = scale.numel() == 1;
  parallel_for(rows, grain_of(n * kExpWork), [&](int64_t begin, int64_t end) {
    std::vector<T> in(static_cast<size_t>(n)), out(in);
    for (int64_t r = begin; r < end; ++r) {
      T* dx = to.open(r * n, out.data());
      const bool counts = target[r] != o.ignore_index;
      if (o.log_probabilities || !counts) {
        std::fill_n(dx, n, T(0));
      } else {
        exp_row(dx, from.read(r * n, n, in.data()), n, lse[r]);
      }
      if (counts) {
        dx[target[r]] -= T(1);
        scale_row(dx, n, scales[one_scale ? 0 : r] * weights[r]);
      }
      to.store(r * n, n, dx);
    }
  });
}

}  // namespace

void softmax(bool log, const Tensor& y, const Tensor& x, ReduceSizes s) {
  const bool wide = x.dtype() == kFloat64;
  if (s.inner == 1) {
    return (wide ? softmax_rows<double> : softmax_rows<float>)(log, y, x, s.outer, s.n);
  }
  (wide ? softmax_tiles<double> : softmax_tiles<float>)(log, y, x, s);
}

void softmax_backward(bool log, const Tensor& dx, const Tensor& dy, const Tensor& y,
                      ReduceSizes s) {
  const bool wide = y.dtype() == kFloat64;
  if (s.inner == 1) {
    return (wide ? backward_rows<double> : backward_rows<float>)(log, dx, dy, y, s.outer, s.n);
  }
  (wide ? backward_tiles<double> : backward_tiles<float>)(log, dx, dy, y, s);
}

void cross_entropy(const NllRows& rows, const Tensor& logits, const Tensor& target,
                   const NllOptions& options) {
  const int64_t* t = data_of<int64_t>(target);
  check_targets(t, logits.shape()[0], logits.shape()[1], options);
  const bool wide = logits.dtype() == kFloat64;
  (wide ? cross_entropy_rows<double> : cross_entropy_rows<float>)(rows, logits, t, options);
}

void cross_entropy_backward(const Tensor& dlogits, const Tensor& scale, const NllRows& rows,
                            const Tensor& logits, const Tensor& target, const NllOptions& options) {
  const int64_t* t = data_of<int64_t>(target);
  const bool wide = logits.dtype() == kFloat64;
  (wide ? cross_entropy_backward_rows<double>
        : cross_entropy_backward_rows<float>)(dlogits, scale, rows, logits, t, options);
}

}  // namespace taper::kernels::cpu
