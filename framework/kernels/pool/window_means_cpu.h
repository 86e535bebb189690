// Means of the windows of images and volumes on the CPU. The rows of a window are first added along
// their whole length, and then the columns of each window. Therefore each element of the input is
// added in vectors, however many elements a window has.
#pragma once

#include <algorithm>
#include <vector>

#include "framework/host/parallel.h"
#include "framework/kernels/common/simd_cpu.h"
#include "framework/kernels/pool/pool_kernels.h"

namespace taper::v0::kernels::cpu {

template <class T> TAPER_CLONES void add_run(T* sum, const T* x, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) sum[i] += x[i];
}
template <class T> TAPER_CLONES void divide_run(T* row, T divisor, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) row[i] /= divisor;
}

// Computes row[i] = (0 + sum[i * step] + ... + sum[i * step + taps - 1]) / (factor * divisors[i]).
template <class T, class Step>
TAPER_CLONES void mean_of_taps(T* row, const T* sum, Step step, int64_t taps, T factor,
                               const T* divisors, int64_t n) {
  std::fill_n(row, n, T(0));
  for (int64_t k = 0; k < taps; ++k) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) row[i] += sum[i * step + k];
  }
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) row[i] /= factor * divisors[i];
}

// Computes rows of the means y of x. Both are dense in the same memory format.
template <class T> class WindowMeans {
 public:
  WindowMeans(const Tensor& to, const Tensor& from, const Axes& of)
      : y_(to), x_(from), axes_(of), spans_(size_t(of.w.out)), divisors_(size_t(of.w.out)) {
    for (int64_t o = 0; o < axes_.w.out; ++o) {
      spans_[size_t(o)] = inputs_of<T>(axes_.w, o);
      divisors_[size_t(o)] = divisor<T>(axes_.w, o);
    }
  }

  int64_t row_size() const { return y_.sizes.w * channels_; }
  // Returns the number of element operations of a row.
  int64_t work() const { return axes_.w.in * channels_ * axes_.d.kernel * axes_.h.kernel; }

  // Writes rows [begin, end), in memory order.
  void write(int64_t begin, int64_t end) const {
    std::vector<T> sum(size_t((padding_ + std::max(axes_.w.in, farthest())) * channels_));
    for (int64_t r = begin; r < end; ++r) {
      const Place at = y_.at(r * row_size());
      T* row = y_.data + r * row_size();
      add_rows(sum.data() + padding_ * channels_, at);
      const T factor = divisor<T>(axes_.d, at.d) * divisor<T>(axes_.h, at.h);
      channels_ > 1 ? mean_of_pixels(row, sum.data(), factor)
                    : mean_of_columns(row, sum.data(), factor);
    }
  }

 private:
  const Planes<T> y_;
  const Planes<const T> x_;
  const Axes axes_;
  std::vector<Span> spans_;  // along the width
  std::vector<T> divisors_;
  // The number of adjacent elements of a column. The strides of a pixel do not tell it.
  const int64_t channels_ = axes_.channels_last ? y_.sizes.c : 1;
  // Windows that reach beyond both edges would need much padding.
  const bool slides_ = axes_.w.kind == Axis::AxisKind::kWindow && axes_.w.kernel <= axes_.w.in;
  const int64_t padding_ = slides_ ? axes_.w.padding : 0;

  // Returns how far the last window reaches, from the first element of the first window.
  int64_t farthest() const {
    return slides_ ? (axes_.w.out - 1) * axes_.w.stride + axes_.w.kernel : 0;
  }

  // Writes the sum of the rows of a window.
  void add_rows(T* sum, const Place& at) const {
    const T* plane = x_.plane(at);
    const Span slabs = inputs_of<T>(axes_.d, at.d), rows = inputs_of<T>(axes_.h, at.h);
    const int64_t n = axes_.w.in * channels_;
    std::fill_n(sum, n, T(0));
    for (int64_t d = slabs.begin; d < slabs.end; ++d) {
      for (int64_t h = rows.begin; h < rows.end; ++h) add_run(sum, plane + x_.in_plane(d, h, 0), n);
    }
  }

  // Elements beyond the edges are zeros. They do not change a sum that starts from 0.
  void mean_of_columns(T* row, const T* sum, T factor) const {
    const int64_t n = axes_.w.out;
    if (slides_) {
      const auto write = [&](auto step) {
        mean_of_taps(row, sum, step, axes_.w.kernel, factor, divisors_.data(), n);
      };
      if (axes_.w.stride == 1) return write(std::integral_constant<int64_t, 1>());
      if (axes_.w.stride == 2) return write(std::integral_constant<int64_t, 2>());
      return write(axes_.w.stride);
    }
    for (int64_t o = 0; o < n; ++o) {
      T total = 0;
      for (int64_t i = spans_[size_t(o)].begin; i < spans_[size_t(o)].end; ++i) total += sum[i];
      row[o] = total / (factor * divisors_[size_t(o)]);
    }
  }

  // `sum` and the row have all channels of each pixel.
  void mean_of_pixels(T* row, const T* sum, T factor) const {
    for (int64_t o = 0; o < axes_.w.out; ++o, row += channels_) {
      std::fill_n(row, channels_, T(0));
      for (int64_t i = spans_[size_t(o)].begin; i < spans_[size_t(o)].end; ++i) {
        add_run(row, sum + (padding_ + i) * channels_, channels_);
      }
      divide_run(row, factor * divisors_[size_t(o)], channels_);
    }
  }
};

template <class T> void mean_of_windows(const Tensor& y, const Tensor& x, const Axes& axes) {
  const WindowMeans<T> f(y, x, axes);
  parallel_for(y.numel() / f.row_size(), host::grain_of(f.work()),
               [&](int64_t begin, int64_t end) { f.write(begin, end); });
}

}  // namespace taper::v0::kernels::cpu
