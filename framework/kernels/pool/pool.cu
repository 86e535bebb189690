// Maxima of windows of dense images and volumes whose positions fit in int (images.cuh). Everything
// else uses pool_kernels.h.
#include "framework/kernels/pool/images.cuh"
#include "framework/kernels/pool/pool_kernels.h"

namespace taper::v0::kernels {
namespace cuda {
namespace {

// Positions first, first + step and so on, before end.
struct Positions {
  int first, end;
};

// The windows along one dimension, with int sizes.
struct Side {
  int in, out, kernel, stride, padding, dilation;
  FastDivisor strides;

  Side(const Axis& a)
      : in(int(a.in)),
        out(int(a.out)),
        kernel(int(a.kernel)),
        stride(int(a.stride)),
        padding(int(a.padding)),
        dilation(int(a.dilation)) {
    if (a.kind == Axis::AxisKind::kAdaptive) kernel = stride = in / out;
    strides = FastDivisor(uint32_t(stride));
  }
  // Returns the inputs of output o, in steps of `dilation`.
  __device__ Positions inputs_of(int o) const {
    int first = o * stride - padding;
    const int end = min(first + kernel * dilation, in);
    while (first < 0) first += dilation;
    return {first, end};
  }
  // Returns the outputs whose windows reach around input i.
  __device__ Positions outputs_of(int i) const {
    const int behind = i + padding - dilation * (kernel - 1);
    const int first = behind <= 0 ? 0 : int(strides.divide(uint32_t(behind + stride - 1)));
    return {first, min(int(strides.divide(uint32_t(i + padding))) + 1, out)};
  }
};
struct Sides {
  Side d, h, w;
  explicit Sides(const Axes& axes) : d(axes.d), h(axes.h), w(axes.w) {}
  __device__ int inputs() const { return d.in * h.in * w.in; }
  __device__ int outputs() const { return d.out * h.out * w.out; }
};

template <class T, class L> struct MaxPoolWindows {
  Images<L> images;
  Sides sides;
  T* y;
  int64_t* index;
  const T* x;

  // The largest elements so far, and their positions in the channel, or -1.
  struct Best {
    Compute<T> value[L::kCount];
    int at[L::kCount];
  };

  // Joins the elements of the row of x that begins at position `row`.
  __device__ void join(Best& best, const Pixel& at, int row, Positions columns) const {
    const int size = sides.inputs();
    for (int column = columns.first; column < columns.end; column += sides.w.dilation) {
      const int position = row + column;
      const auto v = load_lanes<T, L>(x + images.offset(at, size, position), size);
#pragma unroll
      for (int j = 0; j < L::kCount; ++j) {
        const Compute<T> value = Compute<T>(v.at[j]);
        if (best.at[j] >= 0 && !(value > best.value[j]) && value == value) continue;
        best.value[j] = value;
        best.at[j] = position;
      }
    }
  }

  __device__ void operator()(int64_t thread) const {
    const auto& [d, h, w] = sides;
    const Pixel at = images.at(uint32_t(thread));
    Best best;
#pragma unroll
    for (int j = 0; j < L::kCount; ++j) best.value[j] = -INFINITY, best.at[j] = -1;
    const Positions slabs = d.inputs_of(at.d), rows = h.inputs_of(at.h),
                    columns = w.inputs_of(at.w);
    for (int slab = slabs.first; slab < slabs.end; slab += d.dilation) {
      for (int row = rows.first; row < rows.end; row += h.dilation) {
        join(best, at, (slab * h.in + row) * w.in, columns);
      }
    }
    Vec<T, L::kCount> largest;
    Vec<int64_t, L::kCount> position;
#pragma unroll
    for (int j = 0; j < L::kCount; ++j) {
      largest.at[j] = T(best.value[j]);
      position.at[j] = best.at[j];
    }
    const int size = sides.outputs();
    const int to = images.offset(at, size, (at.d * h.out + at.h) * w.out + at.w);
    store_lanes<T, L>(y + to, size, largest);
    store_lanes<int64_t, L>(index + to, size, position);
  }
};

template <class T, class L> struct MaxUnpoolWindows {
  Images<L> images;
  Sides sides;
  T* dx;
  const T* dy;
  const int64_t* index;

  // Adds the elements of the row of dy that begins at position `row` and whose chosen position is
  // `here`. Most windows chose another one, so dy is read only if one of the lanes needs it.
  __device__ void add(Compute<T> (&sum)[L::kCount], const Pixel& at, int row, Positions columns,
                      int here) const {
    const int size = sides.outputs();
    for (int column = columns.first; column < columns.end; ++column) {
      const int from = images.offset(at, size, row + column);
      const auto chosen = load_lanes<int64_t, L>(index + from, size);
      bool any = false;
#pragma unroll
      for (int j = 0; j < L::kCount; ++j) any |= chosen.at[j] == here;
      if (!any) continue;
      const auto v = load_lanes<T, L>(dy + from, size);
#pragma unroll
      for (int j = 0; j < L::kCount; ++j) {
        if (chosen.at[j] == here) sum[j] += Compute<T>(v.at[j]);
      }
    }
  }

  __device__ void operator()(int64_t thread) const {
    const auto& [d, h, w] = sides;
    const Pixel at = images.at(uint32_t(thread));
    const int size = sides.inputs(), here = (at.d * h.in + at.h) * w.in + at.w;
    const Positions slabs = d.outputs_of(at.d), rows = h.outputs_of(at.h),
                    columns = w.outputs_of(at.w);
    Compute<T> sum[L::kCount] = {};
    for (int slab = slabs.first; slab < slabs.end; ++slab) {
      for (int row = rows.first; row < rows.end; ++row) {
        add(sum, at, (slab * h.out + row) * w.out, columns, here);
      }
    }
    Vec<T, L::kCount> v;
#pragma unroll
    for (int j = 0; j < L::kCount; ++j) v.at[j] = T(sum[j]);
    store_lanes<T, L>(dx + images.offset(at, size, here), size, v);
  }
};

}  // namespace
}  // namespace cuda

template <>
void PoolKernels<cuda::Backend>::max_pool(const Tensor& y, const Tensor& index, const Tensor& x,
                                          const Axes& axes) {
  if (!slides(axes) || !cuda::countable(x, y)) {
    return run<cuda::Backend, MaxPoolForward>("max_pool", 1, y, index, x, axes);
  }
  const Tensor from = in_format(x, axes);
  visit_floating(y.dtype(), [&]<class T>(TypeTag<T>) {
    cuda::run_lanes("max_pool", y, axes.channels_last, [&]<class L>(L) {
      return cuda::MaxPoolWindows<T, L>{cuda::Images<L>(y, axes.channels_last), cuda::Sides(axes),
                                        pointer<T>(y), pointer<int64_t>(index),
                                        pointer<const T>(from)};
    });
  });
}

template <>
void PoolKernels<cuda::Backend>::max_pool_backward(const Tensor& dx, const Tensor& dy,
                                                   const Tensor& index, const Axes& axes) {
  if (!slides(axes) || !cuda::countable(dx, dy)) {
    return run<cuda::Backend, MaxPoolBackward>("max_pool_backward", 1, dx, dy, index, axes);
  }
  const Tensor from = in_format(dy, axes);
  visit_floating(dx.dtype(), [&]<class T>(TypeTag<T>) {
    cuda::run_lanes("max_pool_backward", dx, axes.channels_last, [&]<class L>(L) {
      return cuda::MaxUnpoolWindows<T, L>{cuda::Images<L>(dx, axes.channels_last),
                                          cuda::Sides(axes), pointer<T>(dx), pointer<const T>(from),
                                          pointer<const int64_t>(index)};
    });
  });
}

}  // namespace taper::v0::kernels
