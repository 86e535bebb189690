// Normalization. Half types are converted to and from rows of float. Statistics and sums are
// computed in float (double for double), in an order that depends only on the sizes.
#include <algorithm>
#include <vector>

#include "framework/kernels/common/per_element_cpu.h"
#include "framework/kernels/norm/norm_kernels.h"
#include "framework/kernels/reduce/reduce_runs_cpu.h"

namespace taper::v0::kernels {
namespace cpu {
namespace {

// A single number that can be indexed like an array of equal numbers.
template <class T> struct Same {
  T value;
  T operator[](int64_t) const { return value; }
};

// Sums f(i) over [0, n). Within a block of elements, several lanes are summed in parallel. The
// blocks are added in order.
template <class T, class F> TAPER_CLONES T sum_of(int64_t n, const F f) {
  constexpr int kLanes = 32;
  T total = 0;
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t end = std::min(n, begin + kBlock), whole = end - (end - begin) % kLanes;
    T lanes[kLanes] = {};
    for (int64_t i = begin; i < whole; i += kLanes) {
#pragma omp simd
      for (int l = 0; l < kLanes; ++l) lanes[l] += f(i + l);
    }
#pragma omp simd
    for (int64_t i = whole; i < end; ++i) lanes[i - whole] += f(i);
    total += joined(lanes, SumOf());
  }
  return total;
}

// Computes y = xhat * w + b for a run of elements. In this and the next loops, each parameter is an
// array or a Same, a single number for the whole run.
template <class T, class S, class W>
TAPER_CLONES void affine(T* y, const T* x, int64_t n, S mean, S rstd, W w, W b) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean[i]) * rstd[i] * w[i] + b[i];
}

// Computes dx = rstd * (dy * w - sum - xhat * dot).
template <class T, class S, class W>
TAPER_CLONES void gradient(T* dx, const T* dy, const T* x, int64_t n, S mean, S rstd, W w, S sum,
                           S dot) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    dx[i] = rstd[i] * (dy[i] * w[i] - sum[i] - (x[i] - mean[i]) * rstd[i] * dot[i]);
  }
}

// Adds (dy - shift) * xhat to dots and dy - shift to sums.
template <class T, class P, class S, class R>
TAPER_CLONES void add_terms(T* dots, T* sums, const T* dy, const T* x, int64_t n, P shift, S mean,
                            R rstd) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    dots[i] += (dy[i] - shift[i]) * ((x[i] - mean[i]) * rstd[i]);
    sums[i] += dy[i] - shift[i];
  }
}

// Reads rows of `n` elements of dy and x as T.
template <class T> struct Rows {
  Reader<T> dy, x;
  int64_t n;
  std::vector<T> dy_row, x_row;
  Rows(const Tensor& dy_or_none, const Tensor& z, int64_t size)
      : dy(dy_or_none.defined() ? dy_or_none : z, dtype_of<T>),
        x(z, dtype_of<T>),
        n(size),
        dy_row(size_t(x.in_place ? 0 : n)),
        x_row(dy_row) {}
  const T* read_dy(int64_t r) { return dy.read(r * n, n, dy_row.data()); }
  const T* read_x(int64_t r) { return x.read(r * n, n, x_row.data()); }
};

template <class T> struct Statistics { T mean, rstd; };
template <class T> Statistics<T> statistics_of(const T* z, int64_t n, const Norm& norm) {
  // The second sum corrects the rounding error of the first.
  T mean = norm.rms ? T(0) : sum_of<T>(n, [=](int64_t i) { return z[i]; }) / T(n);
  if (!norm.rms) mean += sum_of<T>(n, [=](int64_t i) { return z[i] - mean; }) / T(n);
  const T squares = sum_of<T>(n, [=](int64_t i) { return (z[i] - mean) * (z[i] - mean); });
  return {mean, T(1) / math::sqrt(squares / T(n) + T(norm.eps))};
}

template <class T>
void normalise(const Norm& norm, const Tensor& out, const Tensor& dy, const Tensor& x,
               const ChannelSums& totals) {
  const NormSizes& s = norm.sizes;
  // A row is a contiguous run of elements. For batch norm it is one channel of an image, or all
  // channels of a pixel.
  const bool batch = s.groups == 0, columns = s.inner == 1;
  const int64_t n = batch && columns ? s.channels : s.row_size(), per = s.per_group();
  const int64_t groups = !batch ? s.groups : columns ? 1 : s.channels;
  // Create arrays only for the missing parameters.
  const size_t channels = size_t(s.channels);
  const std::vector<T> ones(norm.weight.defined() ? 0 : channels, T(1));
  const std::vector<T> zeros(norm.bias.defined() ? 0 : channels, T(0));
  const T* const weight = norm.weight.defined() ? pointer<T>(norm.weight) : ones.data();
  const T* const bias = norm.bias.defined() ? pointer<T>(norm.bias) : zeros.data();
  std::vector<T> sums(batch ? channels : 0), dots(sums);
  for (size_t c = 0; totals.dots.defined() && c < channels; ++c) {
    const T share = weight[c] / T(s.outer * s.inner);
    dots[c] = pointer<T>(totals.dots)[c] * share;
    sums[c] = pointer<T>(totals.sums)[c] * share;
  }
  T *means = pointer<T>(norm.mean), *rstds = pointer<T>(norm.rstd);
  const Writer<T> to(out, dtype_of<T>);
  parallel_for(x.numel() / n, host::grain_of(n * (batch ? 2 : 4)), [&](int64_t begin, int64_t end) {
    Rows<T> rows(dy, x, n);
    std::vector<T> buffer(rows.x_row);
    for (int64_t r = begin; r < end; ++r) {
      const T *g = dy.defined() ? rows.read_dy(r) : nullptr, *z = rows.read_x(r);
      T* y = to.open(r * n, buffer.data());
      // Calls f(first element, size, of) for each part of the row. of(p) returns the part's numbers
      // p[channel], as an array or a Same.
      const auto for_parts = [&](auto f) {
        const int64_t c = r % groups * per;
        if (columns) return f(0, n, [=](const T* p) { return p + c; });
        for (int64_t k = 0; k < per; ++k) {
          f(k * s.inner, s.inner, [=](const T* p) { return Same<T>{p[c + k]}; });
        }
      };
      // Runs the loop for each part. For batch norm a statistic is an array over channels, for
      // other rows one number. each(of, statistic) returns what the loop over a part reads.
      const auto write = [&](auto each, auto mean, auto rstd, auto sum, auto dot) {
        for_parts([&](int64_t at, int64_t size, auto of) {
          const auto w = of(weight);
          if (g) {
            gradient(y + at, g + at, z + at, size, each(of, mean), each(of, rstd), w, each(of, sum),
                     each(of, dot));
          } else {
            affine(y + at, z + at, size, each(of, mean), each(of, rstd), w, of(bias));
          }
        });
        to.store(r * n, n, y);
      };
      if (batch) {
        write([](auto of, const T* p) { return of(p); }, means, rstds, sums.data(), dots.data());
        continue;
      }
      const auto [mean, rstd] =
          g ? Statistics<T>{means ? means[r] : T(0), rstds[r]} : statistics_of(z, n, norm);
      if (!g) rstds[r] = rstd;
      if (!g && means) means[r] = mean;
      T sum = 0, dot = 0;
      if (g) {
        for_parts([&, m = mean, d = rstd](int64_t at, int64_t size, auto of) {
          const T *a = g + at, *b = z + at;
          const auto w = of(weight);
          sum += norm.rms ? T(0) : sum_of<T>(size, [=](int64_t i) { return a[i] * w[i]; });
          dot += sum_of<T>(size, [=](int64_t i) { return a[i] * w[i] * ((b[i] - m) * d); });
        });
      }
      write([](auto, T number) { return Same<T>{number}; }, mean, rstd, sum / T(n), dot / T(n));
    }
  });
}

// Sums adjacent channels together, one chunk of rows after another.
template <class T>
void sum_columns(const Norm& norm, T* dots, T* sums, const T* pivot, const Tensor& dy,
                 const Tensor& x, int64_t begin, int64_t end) {
  const NormSizes& s = norm.sizes;
  const int64_t n = s.channels, per = s.per_group();
  const T *means = pointer<T>(norm.mean), *rstds = pointer<T>(norm.rstd);
  const Same<T> zero{0}, one{1};
  Rows<T> rows(dy, x, n);
  for (int64_t o = begin; o < end; ++o) {
    const T *z = rows.read_x(o), *g = dy.defined() ? rows.read_dy(o) : z;
    if (!dy.defined()) {
      add_terms(dots, sums, g, z, n, pivot, pivot, one);
    } else if (s.groups == 0) {
      add_terms(dots, sums, g, z, n, zero, means, rstds);
    }
    for (int64_t k = 0; k < s.groups; ++k) {
      const int64_t at = k * per, row = o * s.groups + k;
      add_terms(dots + at, sums + at, g + at, z + at, per, zero, Same<T>{means ? means[row] : T(0)},
                Same<T>{rstds[row]});
    }
  }
}

template <class T> ChannelSums channel_sums(const Norm& norm, const Tensor& dy, const Tensor& x) {
  constexpr int64_t kRows = 128;
  const NormSizes& s = norm.sizes;
  const bool columns = s.inner == 1;
  const int64_t chunk = columns ? kRows : 1, chunks = (s.outer + chunk - 1) / chunk;
  const Tensor parts = Tensor::make({2, chunks, s.channels}, dtype_of<T>, x.device());
  T *dots = pointer<T>(parts), *sums = dots + chunks * s.channels;
  std::vector<T> pivot(size_t(s.channels));
  visit_floating(dy.defined() ? kFloat32 : x.dtype(), [&](auto tag) {
    const auto* p = pointer<const typename decltype(tag)::type>(x);
    for (int64_t c = 0; !dy.defined() && c < s.channels; ++c) {
      pivot[size_t(c)] = T(pivot_of(p, s, c));
    }
  });
  if (columns) {
    std::fill_n(dots, parts.numel(), T(0));
    host::parallel_each(chunks, kRows * s.channels, [&](int64_t i) {
      sum_columns(norm, dots + i * s.channels, sums + i * s.channels, pivot.data(), dy, x,
                  i * kRows, std::min(s.outer, (i + 1) * kRows));
    });
  } else {
    const T *means = pointer<T>(norm.mean), *rstds = pointer<T>(norm.rstd);
    parallel_for(chunks * s.channels, host::grain_of(s.inner * 2), [&](int64_t begin, int64_t end) {
      Rows<T> rows(dy, x, s.inner);
      for (int64_t i = begin; i < end; ++i) {
        const int64_t c = i % s.channels, k = i / s.channels * s.groups + c / s.per_group();
        const T* z = rows.read_x(i);
        const T* g = dy.defined() ? rows.read_dy(i) : z;
        const T shift = pivot[size_t(c)];
        const T mean = !dy.defined() ? shift : means ? means[k] : T(0);
        const T rstd = dy.defined() ? rstds[k] : T(1);
        dots[i] =
            sum_of<T>(s.inner, [=](int64_t j) { return (g[j] - shift) * ((z[j] - mean) * rstd); });
        sums[i] = sum_of<T>(s.inner, [=](int64_t j) { return g[j] - shift; });
      }
    });
  }
  const Tensor both = reduce(ReductionOp::kSum, parts, {1});
  return {view_as(both, {s.channels}, {1}, 0), view_as(both, {s.channels}, {1}, s.channels)};
}

}  // namespace

void norm(const Norm& norm, const Tensor& out, const Tensor& dy, const Tensor& x,
          const ChannelSums& of_channels) {
  (x.dtype() == kFloat64 ? normalise<double> : normalise<float>)(norm, out, dy, x, of_channels);
}

ChannelSums channel_sums(const Norm& norm, const Tensor& dy, const Tensor& x) {
  return (x.dtype() == kFloat64 ? channel_sums<double> : channel_sums<float>)(norm, dy, x);
}

}  // namespace cpu

template struct BatchNormKernels<cpu::Backend>;

}  // namespace taper::v0::kernels
