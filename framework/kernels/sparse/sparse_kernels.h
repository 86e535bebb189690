// Sparse products: one thread computes one element of the result, summing in order. On the GPU,
// adjacent threads read adjacent elements of a row.
#pragma once

#include "framework/base/host_device.h"
#include "framework/kernels/sparse/sparse.h"

namespace taper::v0::kernels {

template <class T> struct SparseMm {
  T* y;
  const int64_t *crow, *col;
  const T *values, *x;
  int64_t width;

  TAPER_HD void operator()(int64_t i) const {
    const int64_t r = i / width, c = i % width;
    AccumulateType<T> sum = 0;
    for (int64_t k = crow[r]; k < crow[r + 1]; ++k) {
      sum += AccumulateType<T>(values[k]) * AccumulateType<T>(x[col[k] * width + c]);
    }
    y[i] = T(sum);
  }
};

template <class T> struct SampledMm {
  T* y;
  const int64_t *row, *col;
  const T *a, *b;
  int64_t width;

  TAPER_HD void operator()(int64_t k) const {
    const T* left = a + row[k] * width;
    const T* right = b + col[k] * width;
    AccumulateType<T> sum = 0;
    for (int64_t j = 0; j < width; ++j)
      sum += AccumulateType<T>(left[j]) * AccumulateType<T>(right[j]);
    y[k] = T(sum);
  }
};

template <class Backend>
void SparseKernels<Backend>::mm(const Tensor& y, const SparseRows& at, const Tensor& values,
                                const Tensor& x) {
  const int64_t mean = values.numel() / y.size(0) + 1;
  visit_floating(y.dtype(), [&]<class T>(TypeTag<T>) {
    Backend::run(
        "sparse_mm", y, y.numel(), 4 * mean,
        SparseMm<T>{pointer<T>(y), pointer<const int64_t>(at.crow), pointer<const int64_t>(at.col),
                    pointer<const T>(values), pointer<const T>(x), y.size(1)});
  });
}

template <class Backend>
void SparseKernels<Backend>::sampled(const Tensor& y, const SparseRows& at, const Tensor& a,
                                     const Tensor& b) {
  visit_floating(y.dtype(), [&]<class T>(TypeTag<T>) {
    Backend::run(
        "sampled_mm", y, y.numel(), 2 * a.size(1),
        SampledMm<T>{pointer<T>(y), pointer<const int64_t>(at.row), pointer<const int64_t>(at.col),
                     pointer<const T>(a), pointer<const T>(b), a.size(1)});
  });
}

}  // namespace taper::v0::kernels
