// Formulas of batch norm for both backends.
#pragma once

#include "framework/kernels/common/math.h"
#include "framework/kernels/norm/norm.h"

namespace taper::v0::kernels {

// Returns the median of three numbers.
template <class C> TAPER_HD C median_of(C a, C b, C d) {
  const C low = a < b ? a : b, high = a < b ? b : a;
  return d < low ? low : d > high ? high : d;
}

// Returns the median of a channel's first, middle and last element. Sums of (x - pivot) and its
// square then lose little to cancellation, whatever the mean is, and a single outlier does not
// matter.
template <class T> TAPER_HD AccumulateType<T> pivot_of(const T* x, const NormSizes& s, int64_t c) {
  using C = AccumulateType<T>;
  const int64_t image = s.channels * s.inner, at = c * s.inner;
  return median_of(C(x[at]), C(x[at + s.outer / 2 * image + s.inner / 2]),
                   C(x[at + (s.outer - 1) * image + s.inner - 1]));
}

template <class T> struct BatchStatistics {
  using C = AccumulateType<T>;
  C *mean, *rstd, *running_mean, *running_var;
  int64_t* batches;  // null: not counted
  const C *squares, *sums;
  const T* x;
  NormSizes s;
  C eps, momentum;
  bool given;

  TAPER_HD void operator()(int64_t c) const {
    C m, variance;
    if (given) {
      m = running_mean[c];
      variance = running_var[c];
    } else {
      const C count = C(s.outer * s.inner), off = sums[c] / count;
      m = pivot_of(x, s, c) + off;
      variance = squares[c] / count - off * off;
      if (variance < C(0)) variance = 0;
      if (running_mean) {
        running_mean[c] += momentum * (m - running_mean[c]);
        running_var[c] += momentum * (variance * (count / (count - C(1))) - running_var[c]);
      }
      if (batches && c == 0) ++*batches;
    }
    mean[c] = m;
    rstd[c] = C(1) / math::sqrt(variance + eps);
  }
};

template <class T>
BatchStatistics<T> batch_statistics_of(const Norm& norm, const Tensor& x, const ChannelSums& own,
                                       const RunningStatistics& running) {
  using C = AccumulateType<T>;
  return {pointer<C>(norm.mean),
          pointer<C>(norm.rstd),
          pointer<C>(running.mean),
          pointer<C>(running.var),
          pointer<int64_t>(running.batches),
          pointer<const C>(own.dots),
          pointer<const C>(own.sums),
          pointer<const T>(x),
          norm.sizes,
          C(norm.eps),
          C(running.momentum),
          norm.given};
}

template <class Backend>
void BatchNormKernels<Backend>::statistics(const Norm& norm, const Tensor& x,
                                           const ChannelSums& own,
                                           const RunningStatistics& running) {
  visit_floating(x.dtype(), [&]<class T>(TypeTag<T>) {
    const auto f = batch_statistics_of<T>(norm, x, own, running);
    Backend::run("batch_norm", x, norm.sizes.channels, 32, f);
  });
}

}  // namespace taper::v0::kernels
