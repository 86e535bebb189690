// Pooling of dense images and volumes whose positions fit in int. In channels-last memory, threads
// process quads of channels. In row-major memory, they process quads of columns if each depends on
// a single element, and single elements otherwise. Everything else uses pool_kernels.h, with the
// same order of sums.
#include "framework/kernels/common/per_element.cuh"
#include "framework/kernels/elementwise/copy.h"
#include "framework/kernels/elementwise/strided_index.cuh"
#include "framework/kernels/pool/pool_kernels.h"
#include "framework/kernels/reduce/row_reduce.cuh"

namespace taper::v0::kernels {
namespace cuda {
namespace {

using taper::cuda::Scratch;

constexpr int kQuad = 4;

// The images of a result: dense with channels innermost. Row-major images count as images with one
// channel. A volume is one image for each of its slabs, or one image of all of their rows
// (as_images).
struct Images {
  int channels, of_channels, of_columns;  // total, and per thread
  FastDivisor groups, width, height;      // the first two in units of a thread

  Images(const Tensor& y, const Axes& axes, bool by_columns = false)
      : channels(axes.channels_last ? int(y.size(1)) : 1),
        of_channels(channels % kQuad == 0 ? kQuad : 1),
        of_columns(by_columns ? kQuad : 1),
        groups(uint32_t(channels / of_channels)),
        width(uint32_t(y.size(-1) / of_columns)),
        height(uint32_t(y.size(-2))) {}
};

// V channels of a pixel, or the first of V columns.
template <int V> struct Pixel {
  int c, h, w, image;
  __device__ Pixel(int64_t i, const Images& images) {
    const uint32_t pixel = images.groups.divide(uint32_t(i));
    const uint32_t row = images.width.divide(pixel);
    image = int(images.height.divide(row));
    c = int(uint32_t(i) - pixel * images.groups.divisor) * V;
    w = int(pixel - row * images.width.divisor) * images.of_columns;
    h = int(row - uint32_t(image) * images.height.divisor);
  }
};

// --- maxima of sliding windows ---

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
  // Return the outputs whose windows contain input i.
  __device__ int first_output(int i) const {
    const int behind = i + padding - dilation * (kernel - 1);
    return behind <= 0 ? 0 : int(strides.divide(uint32_t(behind + stride - 1)));
  }
  __device__ int last_output(int i) const {
    return min(int(strides.divide(uint32_t(i + padding))), out - 1);
  }
};

// The windows along the depth, for volumes only.
template <bool kVolume> struct Depth {};
template <> struct Depth<true> {
  Side d;
  FastDivisor depth;  // of the results

  struct Slab {
    int volume, at;
  };
  // Divides the number of a slab among those of all volumes.
  __device__ Slab slab_of(int image) const {
    const int volume = int(depth.divide(uint32_t(image)));
    return {volume, image - volume * int(depth.divisor)};
  }
};

template <class T, int V, bool kVolume> struct MaxPoolWindows {
  Images images;
  Depth<kVolume> slabs;
  Side h, w;
  T* y;
  int64_t* index;
  const T* x;

  // The largest elements so far, and their positions in the channel.
  struct Best {
    Compute<T> value[V];
    Vec<int64_t, V> at;
  };

  // Joins the part of the window that is in one slab of x. `slab` counts the slabs of all volumes,
  // and `first` is the position in the channel of the first element of the slab.
  __device__ void join(Best& best, const Pixel<V>& at, int64_t slab, int first) const {
    for (int kh = 0; kh < h.kernel; ++kh) {
      const int row = at.h * h.stride - h.padding + kh * h.dilation;
      if (row < 0 || row >= h.in) continue;
      for (int kw = 0; kw < w.kernel; ++kw) {
        const int column = at.w * w.stride - w.padding + kw * w.dilation;
        if (column < 0 || column >= w.in) continue;
        const int64_t pixel = (slab * h.in + row) * w.in + column;
        const auto v = load_vec<T, V>(x + pixel * images.channels + at.c);
#pragma unroll
        for (int j = 0; j < V; ++j) {
          const Compute<T> value = Compute<T>(v.at[j]);
          if (best.at.at[j] >= 0 && !(value > best.value[j]) && value == value) continue;
          best.value[j] = value;
          best.at.at[j] = first + row * w.in + column;
        }
      }
    }
  }

  __device__ void operator()(int64_t i) const {
    const Pixel<V> at(i, images);
    Best best;
#pragma unroll
    for (int j = 0; j < V; ++j) best.value[j] = -INFINITY, best.at.at[j] = -1;
    if constexpr (kVolume) {
      const auto [volume, position] = slabs.slab_of(at.image);
      const Side& d = slabs.d;
      for (int kd = 0; kd < d.kernel; ++kd) {
        const int slab = position * d.stride - d.padding + kd * d.dilation;
        if (slab < 0 || slab >= d.in) continue;
        join(best, at, int64_t(volume) * d.in + slab, slab * h.in * w.in);
      }
    } else {
      join(best, at, at.image, 0);
    }
    Vec<T, V> result;
#pragma unroll
    for (int j = 0; j < V; ++j) result.at[j] = T(best.value[j]);
    store_vec<T, V>(y + i * V, result);
    store_vec<int64_t, V>(index + i * V, best.at);
  }
};

template <class T, int V, bool kVolume> struct MaxUnpoolWindows {
  Images images;
  Depth<kVolume> slabs;
  Side h, w;
  T* dx;
  const T* dy;
  const int64_t* index;

  // Adds the elements of one slab of dy whose chosen position is `here`.
  __device__ void add(Compute<T> (&sum)[V], const Pixel<V>& at, int64_t slab, int64_t here) const {
    for (int row = h.first_output(at.h); row <= h.last_output(at.h); ++row) {
      for (int column = w.first_output(at.w); column <= w.last_output(at.w); ++column) {
        const int64_t pixel = (slab * h.out + row) * w.out + column;
        const int64_t from = pixel * images.channels + at.c;
        const auto v = load_vec<T, V>(dy + from);
        const auto chosen = load_vec<int64_t, V>(index + from);
#pragma unroll
        for (int j = 0; j < V; ++j) {
          if (chosen.at[j] == here) sum[j] += Compute<T>(v.at[j]);
        }
      }
    }
  }

  __device__ void operator()(int64_t i) const {
    const Pixel<V> at(i, images);
    const int64_t here = at.h * w.in + at.w;
    Compute<T> sum[V] = {};
    if constexpr (kVolume) {
      const auto [volume, position] = slabs.slab_of(at.image);
      const Side& d = slabs.d;
      for (int slab = d.first_output(position); slab <= d.last_output(position); ++slab) {
        add(sum, at, int64_t(volume) * d.out + slab, int64_t(position) * h.in * w.in + here);
      }
    } else {
      add(sum, at, at.image, here);
    }
    store_row<T, V>(dx + i * V, sum);
  }
};

template <class T, int V> using MaxPoolImages = MaxPoolWindows<T, V, false>;
template <class T, int V> using MaxPoolVolumes = MaxPoolWindows<T, V, true>;
template <class T, int V> using MaxUnpoolImages = MaxUnpoolWindows<T, V, false>;
template <class T, int V> using MaxUnpoolVolumes = MaxUnpoolWindows<T, V, true>;

// --- weighted sums ---

// The elements on which each result along an axis depends, with their weights, and the divisor if
// there is one. All results have the same number of elements; those that are not needed have weight
// 0. The rows of volumes are positions along two axes, of which `outer` is the depth.
template <class C> struct AxisTaps {
  struct Tap {
    int from;
    C part;
  };
  Axis outer, axis;
  bool transposed, divides;
  int rows, sources;          // results and elements along `axis`
  int n, most_of_axis, most;  // number of results, and of elements per result
  Tap* taps = nullptr;        // [most, n]
  C* divisors = nullptr;      // [n]

  AxisTaps(const Axis& a, bool to_inputs, bool divides_sums, const Axis& depth = {})
      : outer(depth),
        axis(a),
        transposed(to_inputs),
        divides(divides_sums),
        rows(int(to_inputs ? a.in : a.out)),
        sources(int(to_inputs ? a.out : a.in)),
        n(rows * int(to_inputs ? depth.in : depth.out)),
        most_of_axis(int(most_taps<C>(a, to_inputs))),
        most(most_of_axis * int(most_taps<C>(depth, to_inputs))) {}

  int64_t size() const { return int64_t(n) * most; }
  __device__ void make(int64_t i) const {
    const int64_t slab = i / rows, row = i % rows;
    const Span slabs = span_of<C>(outer, transposed, slab);
    const Span s = span_of<C>(axis, transposed, row);
    for (int64_t k = 0; k < most; ++k) {
      const int64_t u = slabs.begin + k / most_of_axis, j = s.begin + k % most_of_axis;
      taps[k * n + i] = u < slabs.end && j < s.end
                            ? Tap{int(u * sources + j), part_of<C>(outer, transposed, slab, u) *
                                                            part_of<C>(axis, transposed, row, j)}
                            : Tap{};
    }
    if (divides) divisors[i] = divisor<C>(outer, slab) * divisor<C>(axis, row);
  }
};
template <class C> struct MakeTaps {
  AxisTaps<C> h, w;
  __device__ void operator()(int64_t i) const { i < h.n ? h.make(i) : w.make(i - h.n); }
};

// V channels of a pixel, or V columns of a row.
template <class T, int V, bool kColumns> struct ResampleTaps {
  using C = Compute<T>;
  Images images;
  AxisTaps<C> h, w;
  int height, width;  // of x
  T* y;
  const T* x;

  __device__ void operator()(int64_t i) const {
    const Pixel<V> at(i, images);
    C sum[V] = {};
    for (int k = 0; k < h.most; ++k) {
      const auto row = h.taps[k * h.n + at.h];
      if (row.part == C(0)) continue;
      const int64_t pixels = (int64_t(at.image) * height + row.from) * width;
      C across[V] = {};
      for (int m = 0; m < w.most; ++m) {
        const auto* column = w.taps + m * w.n + at.w;
        if constexpr (kColumns) {
#pragma unroll
          for (int j = 0; j < V; ++j) {
            if (column[j].part == C(0)) continue;
            across[j] += column[j].part * C(x[pixels + column[j].from]);
          }
        } else {
          if (column->part == C(0)) continue;
          C v[V];
          load_row<T, V>(v, x + (pixels + column->from) * images.channels + at.c);
#pragma unroll
          for (int j = 0; j < V; ++j) across[j] += column->part * v[j];
        }
      }
#pragma unroll
      for (int j = 0; j < V; ++j) sum[j] += row.part * across[j];
    }
    if (h.divides) {
#pragma unroll
      for (int j = 0; j < V; ++j) sum[j] /= h.divisors[at.h] * w.divisors[at.w + j * kColumns];
    }
    store_row<T, V>(y + i * V, sum);
  }
};
template <class T, int V> using OfChannels = ResampleTaps<T, V, false>;

// --- launches ---

bool countable(const Tensor& x, const Tensor& y) {
  return std::max(x.numel(), y.numel()) <= std::numeric_limits<int>::max();
}

// Runs Functor<T, V>{images, operands...} for all of y.
template <template <class, int> class Functor, class T, class... P>
void run_images(const char* op, const Tensor& y, const Axes& axes, const P&... operands) {
  const Images images(y, axes);
  if (images.of_channels == kQuad) {
    return Backend::run(op, y, y.numel() / kQuad, 1, Functor<T, kQuad>{images, operands...});
  }
  Backend::run(op, y, y.numel(), 1, Functor<T, 1>{images, operands...});
}

// Runs Functor<T, V>{images, depth, height and width of the windows, operands...} for all of y.
template <template <class, int> class OfImages, template <class, int> class OfVolumes, class T,
          class... P>
void run_windows(const char* op, const Tensor& y, const Axes& axes, const P&... operands) {
  const Side d(axes.d), h(axes.h), w(axes.w);
  if (y.dim() < 5) return run_images<OfImages, T>(op, y, axes, Depth<false>{}, h, w, operands...);
  const Depth<true> depth{d, FastDivisor(uint32_t(y.size(2)))};
  run_images<OfVolumes, T>(op, y, axes, depth, h, w, operands...);
}

// y and x are images, or volumes viewed as images, of which axes.d is the depth.
template <class T>
void resample_taps(const Tensor& y, const Tensor& x, const Axes& axes, bool transposed) {
  using C = Compute<T>;
  using Taps = AxisTaps<C>;
  const bool divides = !transposed && averages(axes.h);
  Taps h(axes.h, transposed, divides, axes.d), w(axes.w, transposed, divides);
  const int device = y.device().index(), n = h.n + w.n;
  const Scratch taps(size_t(h.size() + w.size()) * sizeof(typename Taps::Tap), device);
  const Scratch divisors(size_t(n) * sizeof(C), device);
  h.taps = taps.as<typename Taps::Tap>();
  w.taps = h.taps + h.size();
  h.divisors = divisors.as<C>();
  w.divisors = h.divisors + h.n;
  Backend::run("resample", device, n, MakeTaps<C>{h, w});
  const int height = int(x.size(-2)), width = int(x.size(-1));
  const T* from = pointer<const T>(x);
  // With several taps per column, adjacent threads would read distant addresses.
  if (!axes.channels_last && y.size(-1) % kQuad == 0 && w.most == 1) {
    return Backend::run("resample", y, y.numel() / kQuad, 1,
                        ResampleTaps<T, kQuad, true>{Images(y, axes, true), h, w, height, width,
                                                     pointer<T>(y), from});
  }
  run_images<OfChannels, T>("resample", y, axes, h, w, height, width, pointer<T>(y), from);
}

}  // namespace
}  // namespace cuda

template <>
void PoolKernels<cuda::Backend>::resample(const Tensor& y, const Tensor& x, const Axes& axes,
                                          bool transposed) {
  constexpr int64_t kFew = 1 << 14;  // too small for a second launch
  if (y.numel() < kFew || !cuda::countable(x, y) || !have_room<float>(y, x, axes, transposed)) {
    if (transposed) return run<cuda::Backend, ToInputs>("resample", 1, y, x, axes);
    return run<cuda::Backend, ToOutputs>("resample", 1, y, x, axes);
  }
  const Tensor from = in_format(x, axes);
  visit_floating(y.dtype(), [&]<class T>(TypeTag<T>) {
    cuda::resample_taps<T>(as_images(y), as_images(from), axes, transposed);
  });
}

template <>
void PoolKernels<cuda::Backend>::max_pool(const Tensor& y, const Tensor& index, const Tensor& x,
                                          const Axes& axes) {
  if (!slides(axes) || !cuda::countable(x, y)) {
    return run<cuda::Backend, MaxPoolForward>("max_pool", 1, y, index, x, axes);
  }
  const Tensor from = in_format(x, axes);
  visit_floating(y.dtype(), [&]<class T>(TypeTag<T>) {
    cuda::run_windows<cuda::MaxPoolImages, cuda::MaxPoolVolumes, T>(
        "max_pool", y, axes, pointer<T>(y), pointer<int64_t>(index), pointer<const T>(from));
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
    cuda::run_windows<cuda::MaxUnpoolImages, cuda::MaxUnpoolVolumes, T>(
        "max_pool_backward", dx, axes, pointer<T>(dx), pointer<const T>(from),
        pointer<const int64_t>(index));
  });
}

}  // namespace taper::v0::kernels
