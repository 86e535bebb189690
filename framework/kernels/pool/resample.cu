// Means of windows and interpolation of dense images and volumes whose positions fit in int. A
// table has the weights of all results along each axis (images.cuh says how threads share them).
// Means of large windows are sums of whole warps instead. Everything else uses pool_kernels.h, with
// the same order of sums as the tables.
#include "framework/kernels/common/kernel_launch.h"
#include "framework/kernels/pool/images.cuh"
#include "framework/kernels/pool/pool_kernels.h"
#include "framework/kernels/reduce/row_reduce.cuh"

namespace taper::v0::kernels {
namespace cuda {
namespace {

using taper::cuda::Launch;
using taper::cuda::Scratch;

// --- weighted sums ---

// The elements on which each result along an axis depends, with their weights, and the divisor if
// there is one. The rows of volumes are positions along two axes, of which `outer` is the depth.
template <class C> struct AxisTaps {
  struct Tap {
    int from;
    C part;
  };
  Axis outer, axis;
  bool transposed, divides;
  int rows, sources;      // results and elements along `axis`
  int n, most;            // number of results, and the most elements for each
  Tap* taps = nullptr;    // [most, n], of which column i has counts[i]
  int* counts = nullptr;  // [n]
  C* divisors = nullptr;  // [n]

  AxisTaps(const Axis& a, bool to_inputs, bool divides_sums, const Axis& depth = {})
      : outer(depth),
        axis(a),
        transposed(to_inputs),
        divides(divides_sums),
        rows(int(to_inputs ? a.in : a.out)),
        sources(int(to_inputs ? a.out : a.in)),
        n(rows * int(to_inputs ? depth.in : depth.out)),
        most(int(most_taps<C>(a, to_inputs) * most_taps<C>(depth, to_inputs))) {}

  int64_t size() const { return int64_t(n) * most; }
  __device__ void make(int64_t i) const {
    const int64_t slab = i / rows, row = i % rows;
    const Span slabs = span_of<C>(outer, transposed, slab), s = span_of<C>(axis, transposed, row);
    int count = 0;
    for (int64_t u = slabs.begin; u < slabs.end; ++u) {
      for (int64_t j = s.begin; j < s.end; ++j) {
        const C part =
            part_of<C>(outer, transposed, slab, u) * part_of<C>(axis, transposed, row, j);
        if (part != C(0)) taps[int64_t(count++) * n + i] = {int(u * sources + j), part};
      }
    }
    counts[i] = count;
    if (divides) divisors[i] = divisor<C>(outer, slab) * divisor<C>(axis, row);
  }
};
template <class C> struct MakeTaps {
  AxisTaps<C> h, w;
  __device__ void operator()(int64_t i) const { i < h.n ? h.make(i) : w.make(i - h.n); }
};

template <class T, class L> struct ResampleTaps {
  using C = Compute<T>;
  Images<L> images;
  AxisTaps<C> h, w;
  int height, width;  // of x
  T* y;
  const T* x;

  // Returns the sums along the width, around column at.w, of the row of x that begins at `row`.
  __device__ Vec<C, L::kCount> across(const Pixel& at, int row, int count) const {
    const int size = height * width;
    Vec<C, L::kCount> sum{};
    for (int k = 0; k < count; ++k) {
      const auto tap = w.taps[k * w.n + at.w];
      const auto v = load_lanes<T, L>(x + images.offset(at, size, row + tap.from), size);
#pragma unroll
      for (int j = 0; j < L::kCount; ++j) sum.at[j] += tap.part * C(v.at[j]);
    }
    return sum;
  }

  __device__ void operator()(int64_t thread) const {
    const Pixel at = images.at(uint32_t(thread));
    const int rows = h.counts[at.h], columns = w.counts[at.w];
    C sum[L::kCount] = {};
    for (int k = 0; k < rows; ++k) {
      const auto tap = h.taps[k * h.n + at.h];
      const auto part = across(at, tap.from * width, columns);
#pragma unroll
      for (int j = 0; j < L::kCount; ++j) sum[j] += tap.part * part.at[j];
    }
    const C of = h.divides ? h.divisors[at.h] * w.divisors[at.w] : C(1);
    Vec<T, L::kCount> result;
#pragma unroll
    for (int j = 0; j < L::kCount; ++j) result.at[j] = convert<T>(h.divides ? sum[j] / of : sum[j]);
    const int size = h.n * w.n;
    store_lanes<T, L>(y + images.offset(at, size, at.h * w.n + at.w), size, result);
  }
};

// y and x are images, or volumes viewed as images, of which axes.d is the depth.
template <class T>
void resample_taps(const Tensor& y, const Tensor& x, const Axes& axes, bool transposed) {
  using C = Compute<T>;
  using Tap = typename AxisTaps<C>::Tap;
  const bool divides = !transposed && averages(axes.h);
  AxisTaps<C> h(axes.h, transposed, divides, axes.d), w(axes.w, transposed, divides);
  const int device = y.device().index(), n = h.n + w.n;
  const Scratch taps(size_t(h.size() + w.size()) * sizeof(Tap), device);
  const Scratch divisors(size_t(n) * sizeof(C), device), counts(size_t(n) * sizeof(int), device);
  h.taps = taps.as<Tap>(), w.taps = h.taps + h.size();
  h.divisors = divisors.as<C>(), w.divisors = h.divisors + h.n;
  h.counts = counts.as<int>(), w.counts = h.counts + h.n;
  Backend::run("resample", device, n, MakeTaps<C>{h, w});
  run_lanes("resample", y, axes.channels_last, [&]<class L>(L) {
    return ResampleTaps<T, L>{Images<L>(y, axes.channels_last),
                              h,
                              w,
                              int(x.size(-2)),
                              int(x.size(-1)),
                              pointer<T>(y),
                              pointer<const T>(x)};
  });
}

// --- means of large windows ---

// Means of windows in row-major memory.
template <class T> struct WindowMeans {
  T* y;
  const T* x;
  Axes axes;
  int64_t windows;
};

// A warp sums a window: each lane every 32nd element of each slab, in the order of rows.
template <class T> __global__ void __launch_bounds__(kThreads) mean_windows(WindowMeans<T> of) {
  begin_kernel();
  using C = Compute<T>;
  constexpr int kInFlight = 4;  // loads of a lane
  const Axis &d = of.axes.d, &h = of.axes.h, &w = of.axes.w;
  const int lane = int(threadIdx.x) % kWarp;
  const int64_t window = (int64_t(blockIdx.x) * kThreads + threadIdx.x) / kWarp;
  if (window >= of.windows) return;
  const int64_t column = window % w.out, row = window / w.out % h.out,
                slab = window / (w.out * h.out) % d.out, image = window / (w.out * h.out * d.out);
  const Span slabs = inputs_of<C>(d, slab), rows = inputs_of<C>(h, row),
             columns = inputs_of<C>(w, column);
  const int height = int(rows.end - rows.begin), width = int(columns.end - columns.begin);
  C sum = 0;
  for (int64_t at = slabs.begin; at < slabs.end; ++at) {
    const T* from = of.x + ((image * d.in + at) * h.in + rows.begin) * w.in + columns.begin;
    int r = lane / width, c = lane % width;
    while (r < height) {
      C v[kInFlight];
#pragma unroll
      for (int k = 0; k < kInFlight; ++k) {
        v[k] = r < height ? C(from[r * w.in + c]) : C(0);
        r += kWarp / width, c += kWarp % width;
        if (c >= width) ++r, c -= width;
      }
#pragma unroll
      for (int k = 0; k < kInFlight; ++k) sum += v[k];
    }
  }
  sum = warp_reduce(sum, Plus{});
  if (lane > 0) return;
  of.y[window] =
      convert<T>(sum / (divisor<C>(d, slab) * divisor<C>(h, row) * divisor<C>(w, column)));
}

// The same in channels-last memory. A block sums kWarp channels of a window: each of its kWarp
// warps adds every 32nd position of a slab, and then the sums of the warps are added.
template <class T>
__global__ void __launch_bounds__(kWarp* kWarp)
    mean_windows_of_channels(WindowMeans<T> of, int64_t channels) {
  begin_kernel();
  using C = Compute<T>;
  __shared__ C joined[kWarp][kWarp + 1];
  const Axis &d = of.axes.d, &h = of.axes.h, &w = of.axes.w;
  const int lane = int(threadIdx.x) % kWarp, warp = int(threadIdx.x) / kWarp;
  const int64_t window = blockIdx.x, column = window % w.out, row = window / w.out % h.out,
                slab = window / (w.out * h.out) % d.out, image = window / (w.out * h.out * d.out);
  const Span slabs = inputs_of<C>(d, slab), rows = inputs_of<C>(h, row),
             columns = inputs_of<C>(w, column);
  const int height = int(rows.end - rows.begin), width = int(columns.end - columns.begin);
  const int64_t first = int64_t(blockIdx.y) * kWarp, c = first + lane;
  C sum = 0;
  for (int64_t at = slabs.begin; at < slabs.end && c < channels; ++at) {
    const int64_t corner = ((image * d.in + at) * h.in + rows.begin) * w.in + columns.begin;
    const T* from = of.x + corner * channels + c;
#pragma unroll 4
    for (int i = warp; i < height * width; i += kWarp) {
      sum += C(from[(i / width * w.in + i % width) * channels]);
    }
  }
  joined[warp][lane] = sum;
  __syncthreads();
  const C total = warp_reduce(joined[lane][warp], Plus{});
  if (lane > 0 || first + warp >= channels) return;
  of.y[window * channels + first + warp] =
      convert<T>(total / (divisor<C>(d, slab) * divisor<C>(h, row) * divisor<C>(w, column)));
}

// Returns whether the windows are large enough for a warp, or in channels-last memory for a block,
// where a thread for each mean is faster if there are many of them.
bool has_large_windows(const Axes& axes, int64_t means) {
  constexpr int64_t kOfWarp = 64, kOfBlock = 1024, kMany = 1 << 16;
  const int64_t size = axes.d.kernel * axes.h.kernel * axes.w.kernel;
  if (!averages(axes.h)) return false;
  return axes.channels_last ? size >= kOfBlock && means < kMany : size >= kOfWarp;
}

void mean_large_windows(const Tensor& y, const Tensor& x, const Axes& axes) {
  const Launch on(y);
  const int64_t channels = axes.channels_last ? y.size(1) : 1, windows = y.numel() / channels;
  visit_floating(y.dtype(), [&]<class T>(TypeTag<T>) {
    const WindowMeans<T> of{pointer<T>(y), pointer<const T>(x), axes, windows};
    if (axes.channels_last) {
      const dim3 grid{unsigned(windows), unsigned(ceil_div(channels, int64_t(kWarp)))};
      on.run(mean_windows_of_channels<T>, {grid, kWarp * kWarp}, of, channels);
    } else {
      on.run(mean_windows<T>, {unsigned(ceil_div(windows * kWarp, kThreads)), kThreads}, of);
    }
  });
  on.check("resample");
}

}  // namespace
}  // namespace cuda

template <>
void PoolKernels<cuda::Backend>::resample(const Tensor& y, const Tensor& x, const Axes& axes,
                                          bool transposed) {
  constexpr int64_t kFew = 1 << 14;  // too small for a second launch
  const bool counts = cuda::countable(x, y);
  if (!transposed && counts && cuda::has_large_windows(axes, y.numel())) {
    return cuda::mean_large_windows(y, in_format(x, axes), axes);
  }
  if (y.numel() < kFew || !counts || !have_room<float>(y, x, axes, transposed)) {
    if (transposed) return run<cuda::Backend, ToInputs>("resample", 1, y, x, axes);
    return run<cuda::Backend, ToOutputs>("resample", 1, y, x, axes);
  }
  const Tensor from = in_format(x, axes);
  visit_floating(y.dtype(), [&]<class T>(TypeTag<T>) {
    cuda::resample_taps<T>(as_images(y), as_images(from), axes, transposed);
  });
}

}  // namespace taper::v0::kernels
