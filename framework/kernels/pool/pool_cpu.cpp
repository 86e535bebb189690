// Pooling of float and double. Results that are contiguous in memory are processed together: all
// channels of a pixel, or a row of pixels. pool_kernels.h computes everything else, one element at
// a time.
#include <algorithm>
#include <vector>

#include "framework/kernels/common/per_element_cpu.h"
#include "framework/kernels/common/simd_cpu.h"
#include "framework/kernels/pool/pool_kernels.h"
#include "framework/kernels/pool/window_means_cpu.h"

namespace taper::v0::kernels {
namespace {

// Computes best[i] = max(best[i], x[i * step]), where NaN takes precedence. where[i], initially -1,
// records the position of the maximum.
template <class Step, class T, class I>
TAPER_CLONES void join(T* best, I* where, const T* x, Step step, I at, I at_step, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const T v = x[i * step];
    const bool take = (where[i] < 0) | (v > best[i]) | (v != v);
    best[i] = take ? v : best[i];
    where[i] = take ? at + I(i) * at_step : where[i];
  }
}

using One = std::integral_constant<int64_t, 1>;

// Returns at least the number of inputs that a window has.
int64_t most_inputs(const Axes& axes) {
  return smaller(axes.d.kernel, axes.d.in) * smaller(axes.h.kernel, axes.h.in) *
         smaller(axes.w.kernel, axes.w.in);
}

// Counts through the elements of a window whose slab and row are inside the input. Divisions would
// take as long as the maxima of a short row.
struct WindowTaps {
  struct {
    int64_t slab, row, column;
  } at;
  Taps slabs, rows, columns;

  WindowTaps(const Axes& axes, const Place& result)
      : slabs(taps_of(axes.d, result.d)), rows(taps_of(axes.h, result.h)) {
    const int64_t left = result.w * axes.w.stride - axes.w.padding;
    columns = {left, left + axes.w.kernel * axes.w.dilation, axes.w.dilation};
    at = {slabs.begin, rows.begin, left};
  }
  bool exist() const { return at.slab < slabs.end && at.row < rows.end; }
  void next() {
    at.column += columns.step;
    if (at.column < columns.end) return;
    at.column = columns.begin;
    at.row += rows.step;
    if (at.row < rows.end) return;
    at.row = rows.begin;
    at.slab += slabs.step;
  }
};

template <class T>
void pool_runs(const Tensor& out, const Tensor& index, const Tensor& in, const Axes& axes) {
  const Planes<T> y(out);
  const Planes<const T> x(in);
  const Axis &h = axes.h, &w = axes.w;
  const bool pixels = !y.channels_last;
  const int64_t n = pixels ? y.sizes.w : y.sizes.c;
  const int64_t step = pixels ? w.stride * x.strides.w : x.strides.c;
  // Indices have the same size as T, so that vectors hold the same number of both.
  using I = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
  host::parallel_each(out.numel() / n, 2 * n * most_inputs(axes), [&](int64_t r) {
    const Place at = y.at(r * n);
    T* best = y.data + r * n;
    std::vector<I> where(n, -1);
    std::fill_n(best, n, -std::numeric_limits<T>::infinity());
    for (WindowTaps taps(axes, at); taps.exist(); taps.next()) {
      const auto [slab, row, column] = taps.at;
      // Restrict the run to results whose input is within the row.
      int64_t lo = 0, hi = column < 0 || column >= w.in ? 0 : n;
      if (pixels) {
        lo = column < 0 ? (-column + w.stride - 1) / w.stride : 0;
        hi = column < w.in ? std::min(n, (w.in - 1 - column) / w.stride + 1) : 0;
      }
      if (lo >= hi) continue;
      const int64_t first = column + (pixels ? lo * w.stride : 0);
      const T* from = x.plane(at) + x.in_plane(slab, row, first);
      const I place = I((slab * h.in + row) * w.in + first), moves = pixels ? I(w.stride) : 0;
      if (step == 1) {
        join(best + lo, &where[lo], from, One(), place, moves, hi - lo);
      } else {
        join(best + lo, &where[lo], from, step, place, moves, hi - lo);
      }
    }
    std::ranges::copy(where, pointer<int64_t>(index) + r * n);
  });
}

// Adds every result's gradient to the input that it came from, in the order of the results. The
// volumes among the operands are viewed as images.
template <class T>
void unpool(const Tensor& out, const Tensor& given, const Tensor& index, int64_t planes) {
  constexpr int64_t kChannels = 16;  // channels per task
  const Planes<T> dx(out);
  const Planes<const T> dy(given);
  const Planes<const int64_t> from(index);
  const Place size = dy.sizes;
  const int64_t width = dx.channels_last ? std::min(kChannels, size.c) : 1;
  const int64_t blocks = (size.c + width - 1) / width;
  host::parallel_each(size.n * blocks, planes * width, [&](int64_t task) {
    const Place at{task / blocks, task % blocks * width, 0, 0, 0};
    const int64_t channels = std::min(width, size.c - at.c);
    T* to = dx.plane(at);
    for (int64_t p = 0; p < planes; ++p) std::fill_n(to + p * dx.strides.w, channels, T(0));
    for (int64_t p = 0; p < size.h * size.w; ++p) {
      const int64_t h = p / size.w, w = p % size.w;
      const T* g = dy.plane(at) + dy.in_plane(h, w);
      const int64_t* chosen = from.plane(at) + from.in_plane(h, w);
      for (int64_t c = 0; c < channels; ++c) {
        const int64_t i = chosen[c * from.strides.c];
        if (i >= 0) to[i * dx.strides.w + c * dx.strides.c] += g[c * dy.strides.c];
      }
    }
  });
}

// The elements on which each result along an axis depends, in order, with their weights. All
// results have the same number of elements; those that are not needed have weight 0. The rows of
// volumes are positions along two axes, of which `outer` is the depth.
template <class T> struct AxisWeights {
  int64_t n, taps;
  std::vector<int64_t> from;  // [taps, n]
  std::vector<int64_t> slot;  // [taps, n]: different for the elements of one result
  std::vector<T> part;        // [taps, n]

  AxisWeights(const Axis& a, bool transposed, const Axis& outer = {}) {
    const auto results = [&](const Axis& axis) { return transposed ? axis.in : axis.out; };
    const int64_t slabs = results(outer), rows = results(a), sources = transposed ? a.out : a.in;
    const int64_t width = most_taps<T>(a, transposed), depth = most_taps<T>(outer, transposed);
    n = slabs * rows;
    taps = depth * width;
    from.resize(taps * n, 0);
    slot.resize(taps * n, 0);
    part.resize(taps * n, T(0));
    for (int64_t i = 0; i < n; ++i) {
      const int64_t o = i / rows, r = i % rows;
      const Span across = span_of<T>(outer, transposed, o), s = span_of<T>(a, transposed, r);
      const int64_t size = s.end - s.begin;
      for (int64_t k = 0; k < (across.end - across.begin) * size; ++k) {
        const int64_t at = k * n + i, u = across.begin + k / size, j = s.begin + k % size;
        from[at] = u * sources + j;
        slot[at] = u % depth * width + j % width;
        part[at] = part_of<T>(outer, transposed, o, u) * part_of<T>(a, transposed, r, j);
      }
    }
  }
};

// Computes row[i] += part[i] * x[from[i] * step]. Elements with weight 0 are ignored, even if they
// are NaN.
template <class T>
TAPER_CLONES void add_taps(T* row, const T* part, const int64_t* from, const T* x, int64_t step,
                           int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const T term = part[i] * x[from[i] * step];
    row[i] += part[i] != T(0) ? term : T(0);
  }
}
// Computes the same for all channels of each pixel: row[i][c] += part[k][i] * x[from[k][i]][c] for
// every tap k.
template <class T, class Step>
TAPER_CLONES void add_pixels(T* row, const T* part, const int64_t* from, int64_t taps, int64_t n,
                             const T* x, int64_t pixel, Step channel, int64_t channels) {
  for (int64_t i = 0; i < n; ++i, row += channels) {
    for (int64_t k = 0; k < taps; ++k) {
      const T factor = part[k * n + i];
      const T* at = x + from[k * n + i] * pixel;
      if (factor == T(0)) continue;
#pragma omp simd
      for (int64_t c = 0; c < channels; ++c) row[c] += factor * at[c * channel];
    }
  }
}
template <class T> TAPER_CLONES void add_scaled(T* sum, T factor, const T* x, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) sum[i] += factor * x[i];
}

// Resamples the rows of images. A row is contiguous in the result: the pixels of a channel, or of
// all channels. If the input is wider than the result, its rows are first added, which must be
// contiguous, and then their sum is resampled along the width. Otherwise rows are first resampled
// along the width. Adjacent rows of the result need mostly the same of them, which are kept.
template <class T> struct ResampleRows {
  const Planes<T> y;
  const Planes<const T> x;
  const AxisWeights<T> h, w;
  const bool pixels;  // whether a row has a single channel
  const bool is_wider = x.sizes.w > y.sizes.w;
  const int64_t row_size = y.sizes.w * (pixels ? 1 : y.sizes.c);

  // Writes a row of the input, which begins at `from`, resampled along the width.
  void resample_width(T* row, const T* from) const {
    std::fill_n(row, row_size, T(0));
    for (int64_t k = 0; pixels && k < w.taps; ++k) {
      add_taps(row, &w.part[k * w.n], &w.from[k * w.n], from, x.strides.w, w.n);
    }
    if (pixels) return;
    const auto add = [&](auto channel) {
      add_pixels(row, w.part.data(), w.from.data(), w.taps, w.n, from, x.strides.w, channel,
                 y.sizes.c);
    };
    x.strides.c == 1 ? add(One()) : add(x.strides.c);
  }

  // Adds row r of the result, `plane` being the first element of the image, by resampling rows. The
  // rows whose numbers are in `number` are kept.
  void add_resampled(T* sum, const T* plane, int64_t r, T* kept, int64_t* number) const {
    for (int64_t i = 0; i < h.taps; ++i) {
      const T part = h.part[i * h.n + r];
      const int64_t from = h.from[i * h.n + r], slot = h.slot[i * h.n + r];
      if (part == T(0)) continue;
      T* row = kept + slot * row_size;
      if (number[slot] != from) resample_width(row, plane + x.in_plane(from, 0));
      number[slot] = from;
      add_scaled(sum, part, row, row_size);
    }
  }
  // Writes row r of the result by resampling the sum of rows.
  void resample_sum(T* row, const T* plane, int64_t r, std::vector<T>& sum) const {
    std::ranges::fill(sum, T(0));
    for (int64_t i = 0; i < h.taps; ++i) {
      const T part = h.part[i * h.n + r];
      const T* from = plane + x.in_plane(h.from[i * h.n + r], 0);
      if (part != T(0)) add_scaled(sum.data(), part, from, std::ssize(sum));
    }
    resample_width(row, sum.data());
  }

  // Writes rows of one image (of one channel, if a row has the pixels of a channel). `first` is the
  // number of its first row.
  void write(int64_t first, int64_t begin, int64_t end) const {
    const T* plane = x.plane(y.at(first * row_size));
    std::vector<T> rows(is_wider ? x.sizes.w * (row_size / y.sizes.w) : h.taps * row_size);
    std::vector<int64_t> number(h.taps, -1);  // of each kept row
    for (int64_t r = begin; r < end; ++r) {
      T* row = y.data + (first + r) * row_size;
      if (is_wider) {
        resample_sum(row, plane, r, rows);
      } else {
        std::fill_n(row, row_size, T(0));
        add_resampled(row, plane, r, rows.data(), number.data());
      }
    }
  }
};

template <class T>
void resample_rows(const Tensor& out, const Tensor& in, const Axes& axes, bool transposed) {
  constexpr int64_t kRows = 32;  // of a task
  const ResampleRows<T> f{as_images(out),
                          as_images(in),
                          {axes.h, transposed, axes.d},
                          {axes.w, transposed},
                          !axes.channels_last || in.size(1) == 1};
  const int64_t height = f.h.n, images = out.numel() / f.row_size / height;
  const int64_t blocks = (height + kRows - 1) / kRows;
  const int64_t work = 2 * f.row_size * (f.h.taps + f.w.taps) * std::min(kRows, height);
  host::parallel_each(images * blocks, work, [&](int64_t task) {
    const int64_t begin = task % blocks * kRows;
    f.write(task / blocks * height, begin, std::min(height, begin + kRows));
  });
}

// Returns x, or a dense copy of volumes, whose rows have one distance, and of images whose rows are
// added.
Tensor for_rows(const Tensor& x, const Axes& axes, bool adds_rows = false) {
  return x.dim() == 5 || adds_rows ? in_format(x, axes) : x;
}

template <class T>
void unpool_rows(const Tensor& dx, const Tensor& dy, const Tensor& index, const Axes& axes) {
  unpool<T>(as_images(dx), as_images(for_rows(dy, axes)), as_images(index),
            axes.d.in * axes.h.in * axes.w.in);
}

}  // namespace

template <>
void PoolKernels<cpu::Backend>::resample(const Tensor& y, const Tensor& x, const Axes& axes,
                                         bool transposed) {
  const DType dtype = y.dtype();
  if (!transposed && averages(axes.h) && dtype == kFloat32) {
    return cpu::mean_of_windows<float>(y, in_format(x, axes), axes);
  }
  if (!transposed && averages(axes.h) && dtype == kFloat64) {
    return cpu::mean_of_windows<double>(y, in_format(x, axes), axes);
  }
  const bool adds_rows = x.size(-1) > y.size(-1);
  if (dtype == kFloat32 && have_room<float>(y, x, axes, transposed)) {
    return resample_rows<float>(y, for_rows(x, axes, adds_rows), axes, transposed);
  }
  if (dtype == kFloat64 && have_room<double>(y, x, axes, transposed)) {
    return resample_rows<double>(y, for_rows(x, axes, adds_rows), axes, transposed);
  }
  const int64_t work = 8 * (1 + x.numel() / y.numel());
  if (transposed) return run<cpu::Backend, ToInputs>("resample", work, y, x, axes);
  run<cpu::Backend, ToOutputs>("resample", work, y, x, axes);
}

template <>
void PoolKernels<cpu::Backend>::max_pool(const Tensor& y, const Tensor& index, const Tensor& x,
                                         const Axes& axes) {
  const bool slides = axes.h.kind == Axis::AxisKind::kWindow;
  const bool counted = axes.d.in * axes.h.in * axes.w.in <= std::numeric_limits<int32_t>::max();
  if (slides && counted && y.dtype() == kFloat32) return pool_runs<float>(y, index, x, axes);
  if (slides && y.dtype() == kFloat64) return pool_runs<double>(y, index, x, axes);
  run<cpu::Backend, MaxPoolForward>("max_pool", 2 * most_inputs(axes), y, index, x, axes);
}

template <>
void PoolKernels<cpu::Backend>::max_pool_backward(const Tensor& dx, const Tensor& dy,
                                                  const Tensor& index, const Axes& axes) {
  if (dx.dtype() == kFloat32) return unpool_rows<float>(dx, dy, index, axes);
  if (dx.dtype() == kFloat64) return unpool_rows<double>(dx, dy, index, axes);
  run<cpu::Backend, MaxPoolBackward>("max_pool_backward", 8, dx, dy, index, axes);
}

}  // namespace taper::v0::kernels
