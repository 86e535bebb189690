// Unfold and fold: one thread writes one element.
#pragma once

#include "framework/base/host_device.h"
#include "framework/kernels/conv/conv.h"

namespace taper::v0::kernels {

template <class T> struct Unfold {
  T* columns;
  const T* x;
  ConvSizes s;
  int64_t first;

  TAPER_HD void operator()(int64_t i) const {
    int64_t rest = i;
    const auto next = [&](int64_t size) {
      if (size == 1) return int64_t(0);  // saves the division
      const int64_t place = rest % size;
      rest /= size;
      return place;
    };
    const int64_t channels = s.c / s.groups, of_group = next(channels);
    const int64_t kw = next(s.w.kernel), kh = next(s.h.kernel), kd = next(s.d.kernel);
    const int64_t c = next(s.groups) * channels + of_group;
    const int64_t w = next(s.w.out) * s.w.stride - s.w.padding + kw * s.w.dilation;
    const int64_t h = next(s.h.out) * s.h.stride - s.h.padding + kh * s.h.dilation;
    const int64_t d = next(s.d.out) * s.d.stride - s.d.padding + kd * s.d.dilation;
    const bool inside = d >= 0 && d < s.d.in && h >= 0 && h < s.h.in && w >= 0 && w < s.w.in;
    const int64_t pixel = (((first + rest) * s.d.in + d) * s.h.in + h) * s.w.in + w;
    columns[i] = inside ? x[pixel * s.c + c] : T(0);
  }
};

// Returns the output position that reads input `i` through kernel position k, or -1 if there is
// none.
TAPER_HD int64_t output_at(const ConvAxis& a, int64_t i, int64_t k) {
  const int64_t reach = i + a.padding - k * a.dilation;
  return reach >= 0 && reach % a.stride == 0 && reach / a.stride < a.out ? reach / a.stride : -1;
}

template <class T> struct Fold {
  T* x;
  const T* columns;
  ConvSizes s;
  int64_t first;

  TAPER_HD void operator()(int64_t i) const {
    const int64_t c = i % s.c, w = i / s.c % s.w.in, h = i / s.c / s.w.in % s.h.in;
    const int64_t plane = i / s.c / s.w.in / s.h.in, d = plane % s.d.in, image = plane / s.d.in;
    T sum = 0;
    for (int64_t kd = 0; kd < s.d.kernel; ++kd) {
      const int64_t od = output_at(s.d, d, kd);
      for (int64_t kh = 0; kh < s.h.kernel && od >= 0; ++kh) {
        const int64_t oh = output_at(s.h, h, kh);
        if (oh >= 0)
          add_row(sum, (image * s.d.out + od) * s.h.out + oh, kd * s.h.kernel + kh, w, c);
      }
    }
    x[first * s.inputs() * s.c + i] = sum;
  }

  // Adds the columns of one row of outputs and one row of kernel positions to the sum of input
  // (w, c).
  TAPER_HD void add_row(T& sum, int64_t outputs, int64_t kernel, int64_t w, int64_t c) const {
    const int64_t channels = s.c / s.groups;
    for (int64_t kw = 0; kw < s.w.kernel; ++kw) {
      const int64_t ow = output_at(s.w, w, kw);
      if (ow < 0) continue;
      const int64_t row = (outputs * s.w.out + ow) * s.groups + c / channels;
      const int64_t position = kernel * s.w.kernel + kw;
      sum += columns[(row * s.positions() + position) * channels + c % channels];
    }
  }
};

// Calls f for float32 or float64. Half types have been converted before.
template <class F> void visit_wide(DType t, F f) {
  t == kFloat64 ? f(TypeTag<double>{}) : f(TypeTag<float>{});
}

template <class Backend>
void ConvKernels<Backend>::unfold(const Tensor& columns, const Tensor& x, const ConvSizes& s,
                                  int64_t first, int64_t images) {
  visit_wide(x.dtype(), [&]<class T>(TypeTag<T>) {
    const Unfold<T> f{pointer<T>(columns), pointer<const T>(x), s, first};
    Backend::run("conv", x, images * s.pixels() * s.groups * s.depth(), 8, f);
  });
}

template <class Backend>
void ConvKernels<Backend>::fold(const Tensor& x, const Tensor& columns, const ConvSizes& s,
                                int64_t first, int64_t images) {
  visit_wide(x.dtype(), [&]<class T>(TypeTag<T>) {
    const Fold<T> f{pointer<T>(x), pointer<const T>(columns), s, first};
    Backend::run("conv", x, images * s.inputs() * s.c, 8 * s.positions(), f);
  });
}

}  // namespace taper::v0::kernels
