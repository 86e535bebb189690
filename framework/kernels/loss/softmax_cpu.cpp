// Softmax, log-softmax and cross entropy. Half types are converted to and from rows of float. Sums
// are computed in float (double for double), in an order that depends only on the sizes.
#include "framework/kernels/loss/softmax.h"

#include <algorithm>
#include <vector>

#include "framework/host/parallel.h"
#include "framework/kernels/common/dispatch.h"
#include "framework/kernels/common/math.h"
#include "framework/kernels/common/simd_cpu.h"
#include "framework/kernels/reduce/reduce_runs_cpu.h"

namespace taper::v0::kernels::cpu {
namespace {

// Cost of an exponential in element operations, for splitting work.
constexpr int64_t kExpWork = 4;

template <class T> void exp_row(T* y, const T* x, int64_t n, T shift) {
  vector_for(n, [=](int64_t i) { y[i] = math::exp(x[i] - shift); });
}
template <class T> void scale_row(T* y, int64_t n, T factor) {
  vector_for(n, [=](int64_t i) { y[i] *= factor; });
}

// Adds the terms of the gradient's sum: dy * y, or dy for log-softmax.
template <class T> void add_terms(bool log, T* sum, const T* dy, const T* y, int64_t n) {
  vector_for(n, [=](int64_t i) { sum[i] += log ? dy[i] : dy[i] * y[i]; });
}

// sum_of(i) is the sum of the row that contains element i.
template <class T, class F>
void backward_row(bool log, T* dx, const T* dy, const T* y, int64_t n, F sum_of) {
  if (log) {
    vector_for(n, [=](int64_t i) { dx[i] = dy[i] - math::exp(y[i]) * sum_of(i); });
  } else {
    vector_for(n, [=](int64_t i) { dx[i] = y[i] * (dy[i] - sum_of(i)); });
  }
}

// The maximum of a row and the sum of exp(x - max). The terms of the sum are written to `exps`.
template <class T> struct MaxSum { T max, sum; };
template <class T> MaxSum<T> max_sum(const T* x, T* exps, int64_t n) {
  // If the maximum loses a NaN, the sum of exp(x - max) has it.
  const T max = combine_run<LargerOf>(x, n);
  exp_row(exps, x, n, max);
  return {max, combine_run<SumOf>(exps, n)};
}

template <class T>
void softmax_rows(bool log, const Tensor& y, const Tensor& x, int64_t rows, int64_t n) {
  const Reader<T> from(x, dtype_of<T>);
  const Writer<T> to(y, dtype_of<T>);
  parallel_for(rows, host::grain_of(n * kExpWork), [&](int64_t begin, int64_t end) {
    std::vector<T> in(static_cast<size_t>(n)), out(static_cast<size_t>(n));
    for (int64_t r = begin; r < end; ++r) {
      const T* row = from.read(r * n, n, in.data());
      T* result = to.open(r * n, out.data());
      const MaxSum<T> total = max_sum(row, log ? out.data() : result, n);
      if (log) {
        const T max = total.max, log_sum = math::log(total.sum);
        vector_for(n, [=](int64_t i) { result[i] = (row[i] - max) - log_sum; });
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
  parallel_for(rows, host::grain_of(n * kExpWork), [&](int64_t begin, int64_t end) {
    std::vector<T> a(static_cast<size_t>(n)), b(a), out(a);
    for (int64_t r = begin; r < end; ++r) {
      const T* g = from_dy.read(r * n, n, a.data());
      const T* p = from_y.read(r * n, n, b.data());
      const T sum = log ? combine_run<SumOf>(g, n) : sum_of_products(g, p, n);
      T* result = to.open(r * n, out.data());
      backward_row(log, result, g, p, n, [=](int64_t) { return sum; });
      to.store(r * n, n, result);
    }
  });
}

// --- along a dimension other than the last: adjacent columns together ---

// Calls f(for_rows, width) for tiles of columns. for_rows(g) calls g(position) for each of the n
// rows, with the position of the row's first element in the tile.
template <class F> void for_column_tiles(ReduceSizes s, F f) {
  const int64_t tiles = (s.inner + kTileColumns - 1) / kTileColumns;
  const int64_t work = s.n * std::min(s.inner, kTileColumns) * kExpWork;
  host::parallel_each(s.outer * tiles, work, [&](int64_t t) {
    const int64_t column = t % tiles * kTileColumns, first = t / tiles * s.n * s.inner + column;
    const auto for_rows = [&](auto row) {
      for (int64_t i = 0; i < s.n; ++i) row(first + i * s.inner);
    };
    f(for_rows, std::min(kTileColumns, s.inner - column));
  });
}

template <class T> void softmax_tiles(bool log, const Tensor& y, const Tensor& x, ReduceSizes s) {
  const Reader<T> from(x, dtype_of<T>);
  const Writer<T> to(y, dtype_of<T>);
  for_column_tiles(s, [&](auto for_rows, int64_t width) {
    T maxima[kTileColumns], sums[kTileColumns] = {}, in[kTileColumns], out[kTileColumns];
    T *const max = maxima, *const sum = sums;
    std::fill_n(max, width, MaxOf::identity<T>());
    for_rows([&](int64_t at) {
      const T* row = from.read(at, width, in);
      vector_for(width, [=](int64_t j) { max[j] = LargerOf()(max[j], row[j]); });
    });
    for_rows([&](int64_t at) {
      const T* row = from.read(at, width, in);
      vector_for(width, [=](int64_t j) { sum[j] += math::exp(row[j] - max[j]); });
    });
    if (log) {
      vector_for(width, [=](int64_t j) { sum[j] = math::log(sum[j]); });
    } else {
      vector_for(width, [=](int64_t j) { sum[j] = T(1) / sum[j]; });
    }
    for_rows([&](int64_t at) {
      const T* row = from.read(at, width, in);
      T* result = to.open(at, out);
      if (log) {
        vector_for(width, [=](int64_t j) { result[j] = (row[j] - max[j]) - sum[j]; });
      } else {
        vector_for(width, [=](int64_t j) { result[j] = math::exp(row[j] - max[j]) * sum[j]; });
      }
      to.store(at, width, result);
    });
  });
}

template <class T>
void backward_tiles(bool log, const Tensor& dx, const Tensor& dy, const Tensor& y, ReduceSizes s) {
  const Reader<T> from_dy(dy, dtype_of<T>), from_y(y, dtype_of<T>);
  const Writer<T> to(dx, dtype_of<T>);
  for_column_tiles(s, [&](auto for_rows, int64_t width) {
    T sums[kTileColumns] = {}, a[kTileColumns], b[kTileColumns], out[kTileColumns];
    T* const sum = sums;
    for_rows([&](int64_t at) {
      add_terms(log, sum, from_dy.read(at, width, a), from_y.read(at, width, b), width);
    });
    for_rows([&](int64_t at) {
      T* result = to.open(at, out);
      backward_row(log, result, from_dy.read(at, width, a), from_y.read(at, width, b), width,
                   [=](int64_t j) { return sum[j]; });
      to.store(at, width, result);
    });
  });
}

// --- cross entropy ---

void check_targets(const int64_t* target, int64_t rows, int64_t classes, const NllOptions& o) {
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t t = target[r];
    if (t == o.ignore_index || (t >= 0 && t < classes)) continue;
    throw IndexError("Target ", t, " is out of bounds. ", o.name(), ": element ", r,
                     " of target must be in [0, ", classes, "), or ", o.ignore_index,
                     " to be ignored");
  }
}

template <class T>
void cross_entropy_rows(const NllRows& to, const Tensor& logits, const int64_t* target,
                        const NllOptions& o) {
  const int64_t rows = logits.shape()[0], n = logits.shape()[1];
  const Reader<T> from(logits, dtype_of<T>);
  T *loss = pointer<T>(to.losses), *weights = pointer<T>(to.weights);
  T* lse = pointer<T>(to.logsumexp);
  const T* of_class = pointer<T>(o.weight);
  parallel_for(rows, host::grain_of(n * kExpWork), [&](int64_t begin, int64_t end) {
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
  const T *lse = pointer<T>(saved.logsumexp), *weights = pointer<T>(saved.weights);
  const T* scales = pointer<T>(scale);
  const bool one_scale = scale.numel() == 1;
  parallel_for(rows, host::grain_of(n * kExpWork), [&](int64_t begin, int64_t end) {
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
  const int64_t* t = pointer<int64_t>(target);
  check_targets(t, logits.shape()[0], logits.shape()[1], options);
  const bool wide = logits.dtype() == kFloat64;
  (wide ? cross_entropy_rows<double> : cross_entropy_rows<float>)(rows, logits, t, options);
}

void cross_entropy_backward(const Tensor& dlogits, const Tensor& scale, const NllRows& rows,
                            const Tensor& logits, const Tensor& target, const NllOptions& options) {
  const int64_t* t = pointer<int64_t>(target);
  const bool wide = logits.dtype() == kFloat64;
  (wide ? cross_entropy_backward_rows<double>
        : cross_entropy_backward_rows<float>)(dlogits, scale, rows, logits, t, options);
}

}  // namespace taper::v0::kernels::cpu
