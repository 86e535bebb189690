// Pooling and interpolation of images and volumes. In both passes, one thread computes one element
// of the result. It reads all elements on which the result depends in a fixed order. Half types
// compute in float.
#pragma once

#include <algorithm>
#include <limits>

#include "framework/base/host_device.h"
#include "framework/kernels/common/math.h"
#include "framework/kernels/pool/pool.h"

namespace taper::v0::kernels {

// --- one axis ---

struct Span {
  int64_t begin, end;
};
TAPER_HD int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
TAPER_HD int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

// Returns the nearest source position. PyTorch computes it in float for every dtype.
TAPER_HD int64_t nearest_source(const Axis& a, int64_t o) {
  return smaller(int64_t(math::floor(math::mul_rn(float(o), float(a.scale)))), a.in - 1);
}

// The source of an interpolated output: it is between the inputs `low` and `high`, and `share` is
// the weight of `high`.
template <class C> struct Between {
  int64_t low, high;
  C share;
};
template <class C> TAPER_HD Between<C> linear_source(const Axis& a, int64_t o) {
  const C scale = C(a.scale);
  const C centred = math::add_rn(math::mul_rn(scale, C(o) + C(0.5)), C(-0.5));
  const C at = a.align_corners ? math::mul_rn(scale, C(o)) : centred < C(0) ? C(0) : centred;
  const int64_t low = smaller(int64_t(at), a.in - 1), high = smaller(low + 1, a.in - 1);
  const C share = at - C(low);
  return {low, high, share > C(1) ? C(1) : share};
}

// Returns the source of output o, whose position in the input is low + share. low may be -1. The
// weights are PyTorch's: Keys' cubic with A = -0.75 (https://doi.org/10.1109/TASSP.1981.1163711).
template <class C> TAPER_HD Between<C> cubic_source(const Axis& a, int64_t o) {
  const C scale = C(a.scale);
  const C at = a.align_corners ? math::mul_rn(scale, C(o))
                               : math::add_rn(math::mul_rn(scale, C(o) + C(0.5)), C(-0.5));
  const int64_t low = smaller(int64_t(math::floor(at)), a.in - 1);
  const C share = at - C(low);
  return {low, low + 1, share > C(1) ? C(1) : share};
}
template <class C> TAPER_HD C cubic_weight(C distance) {
  const C A = C(-0.75), d = distance < C(0) ? -distance : distance;
  if (d <= C(1)) return ((A + 2) * d - (A + 3)) * d * d + 1;
  return ((A * d - 5 * A) * d + 8 * A) * d - 4 * A;
}
TAPER_HD int64_t within(const Axis& a, int64_t i) { return larger(0, smaller(i, a.in - 1)); }

template <class C> TAPER_HD Span inputs_of(const Axis& a, int64_t o) {
  const int64_t first = o * a.stride - a.padding;
  switch (a.kind) {
    case Axis::AxisKind::kWindow: return {larger(first, 0), smaller(first + a.kernel, a.in)};
    case Axis::AxisKind::kAdaptive: return {o * a.in / a.out, ((o + 1) * a.in + a.out - 1) / a.out};
    case Axis::AxisKind::kNearest: return {nearest_source(a, o), nearest_source(a, o) + 1};
    case Axis::AxisKind::kCubic: {
      const int64_t low = cubic_source<C>(a, o).low;
      return {within(a, low - 1), within(a, low + 2) + 1};
    }
    default: {
      const Between<C> source = linear_source<C>(a, o);
      return {source.low, source.high + 1};
    }
  }
}

// Returns the range of outputs that depend on input i. For interpolation the range may include a
// few others, whose weight is 0.
TAPER_HD Span outputs_of(const Axis& a, int64_t i) {
  const int64_t behind = i + a.padding - a.dilation * (a.kernel - 1);
  if (a.kind == Axis::AxisKind::kWindow) {
    return {behind <= 0 ? 0 : (behind + a.stride - 1) / a.stride,
            smaller((i + a.padding) / a.stride + 1, a.out)};
  }
  if (a.kind == Axis::AxisKind::kAdaptive) {
    return {i * a.out / a.in, ((i + 1) * a.out + a.in - 1) / a.in};
  }
  const int64_t reach = a.kind == Axis::AxisKind::kNearest ? 0
                        : a.kind == Axis::AxisKind::kCubic ? 2
                                                           : 1;
  const double first = double(i - reach) / a.scale - 1, last = double(i + 1 + reach) / a.scale + 1;
  if (!(a.scale > 0)) return {0, a.out};
  return {first > 0 ? int64_t(first) : 0,
          i == a.in - 1 || last > double(a.out) ? a.out : int64_t(last)};
}

// Returns the weight of input i in output o, before division by divisor().
template <class C> TAPER_HD C weight(const Axis& a, int64_t o, int64_t i) {
  if (a.kind == Axis::AxisKind::kNearest) return nearest_source(a, o) == i ? C(1) : C(0);
  if (a.kind == Axis::AxisKind::kCubic) {  // inputs beyond the edges repeat the edge
    const Between<C> source = cubic_source<C>(a, o);
    const int64_t step = i - source.low;
    if (i > 0 && i < a.in - 1) {
      return step >= -1 && step <= 2 ? cubic_weight(C(step) - source.share) : C(0);
    }
    C sum = 0;
    for (int64_t k = -1; k <= 2; ++k) {
      if (within(a, source.low + k) == i) sum += cubic_weight(C(k) - source.share);
    }
    return sum;
  }
  if (a.kind != Axis::AxisKind::kLinear) return C(1);
  const Between<C> source = linear_source<C>(a, o);
  return (i == source.low ? C(1) - source.share : C(0)) + (i == source.high ? source.share : C(0));
}
TAPER_HD bool averages(const Axis& a) {
  return a.kind == Axis::AxisKind::kWindow || a.kind == Axis::AxisKind::kAdaptive;
}
template <class C> TAPER_HD C divisor(const Axis& a, int64_t o) {
  if (!averages(a)) return C(1);
  const Span s = inputs_of<C>(a, o);
  if (!a.count_include_pad) return C(s.end - s.begin);
  const int64_t first = o * a.stride - a.padding;
  return C(smaller(first + a.kernel, a.in + a.padding) - first);
}

// Returns the range of elements on which result i along an axis depends. If `transposed`, the
// results are on the input side.
template <class C> TAPER_HD Span span_of(const Axis& a, bool transposed, int64_t i) {
  return transposed ? outputs_of(a, i) : inputs_of<C>(a, i);
}
// Returns the weight of element j in result i. If `transposed`, it includes the divisor.
template <class C> TAPER_HD C part_of(const Axis& a, bool transposed, int64_t i, int64_t j) {
  return transposed ? weight<C>(a, j, i) / divisor<C>(a, j) : weight<C>(a, i, j);
}
// Returns whether each output is the input of the same position, as along the depth of images.
TAPER_HD bool is_identity(const Axis& a) {
  return a.in == 1 && a.out == 1 && (a.kind != Axis::AxisKind::kWindow || a.kernel == 1);
}
template <class C> int64_t most_taps(const Axis& a, bool transposed) {
  int64_t most = 1;
  for (int64_t i = 0; i < (transposed ? a.in : a.out); ++i) {
    const Span s = span_of<C>(a, transposed, i);
    most = larger(most, s.end - s.begin);
  }
  return most;
}
// Returns whether weights may be stored. Their number must fit in an int. Those of long,
// overlapping windows can take many times the memory of the tensors.
template <class C>
bool have_room(const Tensor& y, const Tensor& x, const Axes& axes, bool transposed) {
  const auto weights = [&](const Axis& a) {
    return double(most_taps<C>(a, transposed)) * double(transposed ? a.in : a.out);
  };
  const double most = std::min(8.0 * double(x.numel() + y.numel()), 0x1p31 - 1);
  return weights(axes.d) * weights(axes.h) + weights(axes.w) <= most;
}

// --- images and volumes in memory ---

struct Place {
  int64_t n, c, d, h, w;
};

// Access to the elements of [N, C, D, H, W], or of images [N, C, H, W] or [C, H, W], whose depth is
// 1. An image without N is a batch of one.
template <class T> struct Planes {
  T* data;
  Place strides, sizes;
  bool channels_last;

  Planes(const Tensor& x) : data(pointer<T>(x)), channels_last(!x.is_contiguous()) {
    const bool batch = x.dim() >= 4, volume = x.dim() == 5;
    const int c = batch ? 1 : 0;
    strides = {batch ? x.stride(0) : 0, x.stride(c), volume ? x.stride(2) : 0, x.stride(-2),
               x.stride(-1)};
    sizes = {batch ? x.size(0) : 1, x.size(c), volume ? x.size(2) : 1, x.size(-2), x.size(-1)};
  }
  TAPER_HD T* plane(const Place& at) const { return data + at.n * strides.n + at.c * strides.c; }
  TAPER_HD int64_t in_plane(int64_t h, int64_t w) const { return h * strides.h + w * strides.w; }
  TAPER_HD int64_t in_plane(int64_t d, int64_t h, int64_t w) const {
    return d * strides.d + in_plane(h, w);
  }
  // Returns the position of element i of a result in memory order. Results are dense in either
  // format.
  TAPER_HD Place at(int64_t i) const {
    Place p;
    if (channels_last) p.c = i % sizes.c, i /= sizes.c;
    p.w = i % sizes.w, i /= sizes.w;
    p.h = i % sizes.h, i /= sizes.h;
    p.d = 0;
    if (sizes.d > 1) p.d = i % sizes.d, i /= sizes.d;
    if (!channels_last) p.c = i % sizes.c, i /= sizes.c;
    p.n = i;
    return p;
  }
};

// --- one element of a result ---

template <class T, bool kTransposed> struct Resample {
  Planes<T> y;
  Planes<const T> x;
  Axes axes;

  using C = AccumulateType<T>;
  // Weights along the width that are expensive are computed once for all rows, if they are few.
  static constexpr int64_t kKept = 16;
  struct Columns {
    Span span;
    bool keeps;
    C kept[kKept];
  };

  TAPER_HD Columns columns_of(int64_t w) const {
    const Span span = span_of<C>(axes.w, kTransposed, w);
    Columns out;
    out.span = span;
    out.keeps = axes.w.kind == Axis::AxisKind::kCubic && span.end - span.begin <= kKept;
    for (int64_t j = span.begin; out.keeps && j < span.end; ++j) {
      out.kept[j - span.begin] = part_of<C>(axes.w, kTransposed, w, j);
    }
    return out;
  }

  // Returns the sum along the width, around column w, of a row of x.
  TAPER_HD C across(const Columns& columns, int64_t w, const T* row) const {
    const Span s = columns.span;
    C sum = 0;
    for (int64_t j = s.begin; j < s.end; ++j) {
      const C part =
          columns.keeps ? columns.kept[j - s.begin] : part_of<C>(axes.w, kTransposed, w, j);
      if (part != C(0)) sum += part * C(row[j * x.strides.w]);
    }
    return sum;
  }

  TAPER_HD void operator()(int64_t i) const {
    const Place at = y.at(i);
    const T* plane = x.plane(at);
    const bool flat = is_identity(axes.d);
    const Span slabs = flat ? Span{0, 1} : span_of<C>(axes.d, kTransposed, at.d),
               rows = span_of<C>(axes.h, kTransposed, at.h);
    const Columns columns = columns_of(at.w);
    C sum = 0;
    for (int64_t d = slabs.begin; d < slabs.end; ++d) {
      const C of_slab = flat ? C(1) : part_of<C>(axes.d, kTransposed, at.d, d);
      for (int64_t h = rows.begin; h < rows.end; ++h) {
        const C of_row = of_slab * part_of<C>(axes.h, kTransposed, at.h, h);
        if (of_row != C(0)) sum += of_row * across(columns, at.w, plane + x.in_plane(d, h, 0));
      }
    }
    if (!kTransposed) {
      const C depth = flat ? C(1) : divisor<C>(axes.d, at.d);
      sum /= depth * divisor<C>(axes.h, at.h) * divisor<C>(axes.w, at.w);
    }
    y.data[i] = T(sum);
  }
};
template <class T> using ToOutputs = Resample<T, false>;
template <class T> using ToInputs = Resample<T, true>;

// The input positions of a window along one dimension that are inside the input.
struct Taps {
  int64_t begin, end, step;
};
TAPER_HD Taps taps_of(const Axis& a, int64_t o) {
  if (a.kind == Axis::AxisKind::kAdaptive) {
    return {o * a.in / a.out, ((o + 1) * a.in + a.out - 1) / a.out, 1};
  }
  const int64_t first = o * a.stride - a.padding, end = first + a.kernel * a.dilation;
  const int64_t skipped = first < 0 ? (-first + a.dilation - 1) / a.dilation : 0;
  return {first + skipped * a.dilation, smaller(end, a.in), a.dilation};
}

template <class T> struct MaxPoolForward {
  Planes<T> y;
  Planes<int64_t> index;
  Planes<const T> x;
  Axes axes;

  using C = AccumulateType<T>;
  struct Best {
    C value;
    int64_t at;  // position in the channel, or -1
  };

  // Joins the elements of a row of x, whose first element has position `first` in the channel.
  TAPER_HD void join(Best& best, const T* row, int64_t first, const Taps& columns) const {
    for (int64_t w = columns.begin; w < columns.end; w += columns.step) {
      const C value = C(row[w * x.strides.w]);
      if (best.at >= 0 && !(value > best.value) && value == value) continue;
      best = {value, first + w};
    }
  }

  TAPER_HD void operator()(int64_t i) const {
    const Place at = y.at(i);
    const T* plane = x.plane(at);
    Best best{-std::numeric_limits<C>::infinity(), -1};
    const Taps slabs = taps_of(axes.d, at.d), rows = taps_of(axes.h, at.h),
               columns = taps_of(axes.w, at.w);
    for (int64_t d = slabs.begin; d < slabs.end; d += slabs.step) {
      for (int64_t h = rows.begin; h < rows.end; h += rows.step) {
        join(best, plane + x.in_plane(d, h, 0), (d * axes.h.in + h) * axes.w.in, columns);
      }
    }
    y.data[i] = T(best.value);
    index.data[i] = best.at;
  }
};

template <class T> struct MaxPoolBackward {
  Planes<T> dx;
  Planes<const T> dy;
  Planes<const int64_t> index;
  Axes axes;

  using C = AccumulateType<T>;
  // Adds the elements of a row of dy whose chosen position is `here`.
  TAPER_HD void add_row(C& sum, const T* row, const int64_t* chosen, const Span& columns,
                        int64_t here) const {
    for (int64_t w = columns.begin; w < columns.end; ++w) {
      if (chosen[w * index.strides.w] == here) sum += C(row[w * dy.strides.w]);
    }
  }

  TAPER_HD void operator()(int64_t i) const {
    const Place at = dx.at(i);
    const T* plane = dy.plane(at);
    const int64_t* chosen = index.plane(at);
    const Span slabs = outputs_of(axes.d, at.d), rows = outputs_of(axes.h, at.h),
               columns = outputs_of(axes.w, at.w);
    const int64_t here = (at.d * axes.h.in + at.h) * axes.w.in + at.w;
    C sum = 0;
    for (int64_t d = slabs.begin; d < slabs.end; ++d) {
      for (int64_t h = rows.begin; h < rows.end; ++h) {
        add_row(sum, plane + dy.in_plane(d, h, 0), chosen + index.in_plane(d, h, 0), columns, here);
      }
    }
    dx.data[i] = T(sum);
  }
};

// --- launchers ---

// Runs Functor<T>{operands...} for every element of y, the first operand, which has dtype T.
template <class Backend, template <class> class Functor, class... Operands>
void run(const char* op, int64_t work, const Tensor& y, const Operands&... operands) {
  visit_floating(y.dtype(), [&](auto tag) {
    Backend::run(op, y, y.numel(), work, Functor<typename decltype(tag)::type>{y, operands...});
  });
}

}  // namespace taper::v0::kernels
