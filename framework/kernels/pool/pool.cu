// Max pooling in channels-last memory goes by quads of channels; the rest is pool_kernels.h's one
// element at a time.
#include "framework/kernels/elements.cuh"
#include "framework/kernels/elementwise/copy.h"
#include "framework/kernels/per_element.cuh"
#include "framework/kernels/pool/pool_kernels.h"

namespace taper::inline v0::kernels {
namespace cuda {
namespace {

constexpr int kQuad = 4;

// A dimension in int: its windows, and their number.
struct Side {
  int in, out, kernel, stride, padding, dilation;
  Side(const Axis& a)
      : in(int(a.in)),
        out(int(a.out)),
        kernel(int(a.kernel)),
        stride(int(a.stride)),
        padding(int(a.padding)),
        dilation(int(a.dilation)) {}
};

// A quad of channels of a pixel; `pixel` counts through the images.
struct QuadPlace {
  int pixel, c, h, w, image;
  TAPER_HD QuadPlace(int i, int quads, int height, int width)
      : pixel(i / quads),
        c(i % quads * kQuad),
        h(pixel / width % height),
        w(pixel % width),
        image(pixel / width / height) {}
};

template <class T> struct PoolQuads {
  T* y;
  int64_t* index;
  const T* x;
  int channels;
  Side h, w;

  __device__ void operator()(int64_t i) const {
    const QuadPlace at(int(i), channels / kQuad, h.out, w.out);
    Compute<T> best[kQuad];
    Vec<int64_t, kQuad> where;
#pragma unroll
    for (int j = 0; j < kQuad; ++j) best[j] = -INFINITY, where.at[j] = -1;
    for (int kh = 0; kh < h.kernel; ++kh) {
      const int row = at.h * h.stride - h.padding + kh * h.dilation;
      if (row < 0 || row >= h.in) continue;
      for (int kw = 0; kw < w.kernel; ++kw) {
        const int column = at.w * w.stride - w.padding + kw * w.dilation;
        if (column < 0 || column >= w.in) continue;
        const int64_t pixel = (int64_t(at.image) * h.in + row) * w.in + column;
        const auto v = load_vec<T, kQuad>(x + pixel * channels + at.c);
#pragma unroll
        for (int j = 0; j < kQuad; ++j) {
          const Compute<T> value = Compute<T>(v.at[j]);
          if (where.at[j] >= 0 && !(value > best[j]) && value == value) continue;
          best[j] = value;
          where.at[j] = row * w.in + column;
        }
      }
    }
    Vec<T, kQuad> result;
#pragma unroll
    for (int j = 0; j < kQuad; ++j) result.at[j] = T(best[j]);
    store_vec<T, kQuad>(y + i * kQuad, result);
    store_vec<int64_t, kQuad>(index + i * kQuad, where);
  }
};

// The outputs whose windows reach input i.
__device__ inline int first_output(const Side& a, int i) {
  const int behind = i + a.padding - a.dilation * (a.kernel - 1);
  return behind <= 0 ? 0 : (behind + a.stride - 1) / a.stride;
}
__device__ inline int last_output(const Side& a, int i) {
  return min((i + a.padding) / a.stride, a.out - 1);
}

template <class T> struct UnpoolQuads {
  T* dx;
  const T* dy;
  const int64_t* index;
  int channels;
  Side h, w;

  __device__ void operator()(int64_t i) const {
    const QuadPlace at(int(i), channels / kQuad, h.in, w.in);
    const int64_t here = at.h * w.in + at.w;
    Compute<T> sum[kQuad] = {};
    for (int row = first_output(h, at.h); row <= last_output(h, at.h); ++row) {
      for (int column = first_output(w, at.w); column <= last_output(w, at.w); ++column) {
        const int64_t pixel = (int64_t(at.image) * h.out + row) * w.out + column;
        const auto v = load_vec<T, kQuad>(dy + pixel * channels + at.c);
        const auto chosen = load_vec<int64_t, kQuad>(index + pixel * channels + at.c);
#pragma unroll
        for (int j = 0; j < kQuad; ++j) {
          if (chosen.at[j] == here) sum[j] += Compute<T>(v.at[j]);
        }
      }
    }
    Vec<T, kQuad> result;
#pragma unroll
    for (int j = 0; j < kQuad; ++j) result.at[j] = T(sum[j]);
    store_vec<T, kQuad>(dx + i * kQuad, result);
  }
};

Shape innermost_channels(const Tensor& x) {
  const int64_t c = x.size(1), w = x.size(3) * c;
  return {x.size(2) * w, 1, w, c};
}

// x where it lies densely with channels innermost, else such a copy.
Tensor channels_last(const Tensor& x) {
  const Shape strides = innermost_channels(x);
  if (x.strides() == strides && is_aligned(x.data_ptr(), 16)) return x;
  const Tensor out = Tensor::make(x.shape(), x.dtype(), x.device());
  out.impl()->strides = strides;
  copy_into(out, x);
  return out;
}

// Whether windows that slide have results, in axes' format, made of quads that int can count.
bool by_quads(const Axes& axes, const Tensor& x, const Tensor& y) {
  constexpr int64_t kMost = std::numeric_limits<int>::max();
  return axes.h.kind == Axis::Kind::window && axes.channels_last && x.size(1) % kQuad == 0 &&
         std::max(x.numel(), y.numel()) <= kMost;
}

}  // namespace
}  // namespace cuda

template <>
void PoolKernels<cuda::Backend>::max_pool(const Tensor& y, const Tensor& index, const Tensor& x,
                                          const Axes& axes) {
  if (!cuda::by_quads(axes, x, y) || !cuda::is_aligned(x.data_ptr(), 16)) {
    return run<cuda::Backend, MaxPoolForward>("max_pool", 1, y, index, x, axes);
  }
  visit_floating(y.dtype(), [&]<class T>(TypeTag<T>) {
    cuda::Backend::run("max_pool", y, y.numel() / cuda::kQuad, 1,
                       cuda::PoolQuads<T>{pointer<T>(y), pointer<int64_t>(index), pointer<T>(x),
                                          int(x.size(1)), axes.h, axes.w});
  });
}

template <>
void PoolKernels<cuda::Backend>::max_pool_backward(const Tensor& dx, const Tensor& dy,
                                                   const Tensor& index, const Axes& axes) {
  if (!cuda::by_quads(axes, dx, dy)) {
    return run<cuda::Backend, MaxPoolBackward>("max_pool_backward", 1, dx, dy, index, axes);
  }
  const Tensor rows = cuda::channels_last(dy);
  visit_floating(dx.dtype(), [&]<class T>(TypeTag<T>) {
    cuda::Backend::run(
        "max_pool_backward", dx, dx.numel() / cuda::kQuad, 1,
        cuda::UnpoolQuads<T>{pointer<T>(dx), pointer<T>(rows), pointer<int64_t>(index),
                             int(dx.size(1)), axes.h, axes.w});
  });
}

template struct PoolKernels<cuda::Backend>;

}  // namespace taper::inline v0::kernels
