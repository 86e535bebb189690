// References of pooling and interpolation, for any number of spatial dimensions.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "autograd/ops/nn/pool_ops.h"
#include "tests/op_table/op_table.h"

namespace taper::v0::test {

// The indices of an axis that each output reads, possibly outside of the input.
using Places = std::vector<int64_t>;
using AxisPlaces = std::vector<Places>;
// One for each spatial dimension, the last dimensions of an array.
using SpatialPlaces = std::vector<AxisPlaces>;

inline AxisPlaces windows(int64_t in, int64_t k, int64_t s, int64_t p, int64_t d, bool ceil_mode) {
  AxisPlaces out;
  for (int64_t start = -p;; start += s) {
    const int64_t end = start + d * (k - 1);
    const bool fits = end < in + p;
    const bool before_reached_end = start > -p && end - s >= in + p - 1;
    if (!fits && (!ceil_mode || start >= in || before_reached_end)) return out;
    Places places;
    for (int64_t i = start; i <= end; i += d) {
      if (i < in + p) places.push_back(i);
    }
    out.push_back(places);
  }
}

inline AxisPlaces shares(int64_t in, int64_t out) {
  AxisPlaces all;
  for (int64_t o = 0; o < out; ++o) {
    Places places;
    const auto from = int64_t(std::floor(double(o) * double(in) / double(out)));
    const auto to = int64_t(std::ceil(double(o + 1) * double(in) / double(out)));
    for (int64_t i = from; i < to; ++i) places.push_back(i);
    all.push_back(places);
  }
  return all;
}

// Calls f(index) for every index of x that the window of output `at` reads, in order. An index may
// be outside of x.
template <class F> void for_each_place(const SpatialPlaces& spatial, const Shape& at, F f) {
  const int first = at.size() - int(spatial.size());
  const auto places_of = [&](size_t i) -> const Places& {
    return spatial[i][size_t(at[first + int(i)])];
  };
  int64_t count = 1;
  for (size_t i = 0; i < spatial.size(); ++i) count *= std::ssize(places_of(i));
  for (int64_t k = 0; k < count; ++k) {
    Shape from = at;
    int64_t rest = k;
    for (size_t i = spatial.size(); i-- > 0;) {
      const Places& places = places_of(i);
      from[first + int(i)] = places[size_t(rest % std::ssize(places))];
      rest /= std::ssize(places);
    }
    f(from);
  }
}

inline bool is_inside(const Shape& shape, const Shape& at) {
  for (int d = 0; d < at.size(); ++d) {
    if (at[d] < 0 || at[d] >= shape[d]) return false;
  }
  return true;
}

inline Array without_elements(const Array& x, const SpatialPlaces& spatial) {
  Array y{x.shape, {}};
  for (size_t i = 0; i < spatial.size(); ++i) {
    y.shape[x.shape.size() - int(spatial.size()) + int(i)] = std::ssize(spatial[i]);
  }
  return y;
}

// Applies f to the values of each window. Indices outside of the input have the value `beyond`, or
// are skipped without it.
inline Array windowed(const Array& x, const SpatialPlaces& spatial, std::optional<double> beyond,
                      double (*f)(const std::vector<double>&)) {
  Array y = without_elements(x, spatial);
  for (int64_t i = 0; i < y.shape.numel(); ++i) {
    std::vector<double> values;
    for_each_place(spatial, index_of(y.shape, i), [&](const Shape& from) {
      const bool inside = is_inside(x.shape, from);
      if (inside) values.push_back(x.v[size_t(flat_index(x.shape, from))]);
      if (!inside && beyond) values.push_back(*beyond);
    });
    y.v.push_back(f(values));
  }
  return y;
}

// Returns the position in the channel of the first largest element of each window.
inline Array largest_places(const Array& x, const SpatialPlaces& spatial) {
  Array y = without_elements(x, spatial);
  const Shape channel(x.shape.end() - int(spatial.size()), x.shape.end());
  for (int64_t i = 0; i < y.shape.numel(); ++i) {
    int64_t best = -1;
    for_each_place(spatial, index_of(y.shape, i), [&](const Shape& from) {
      if (!is_inside(x.shape, from)) return;
      const int64_t at = flat_index(x.shape, from);
      if (best < 0 || x.v[size_t(at)] > x.v[size_t(best)]) best = at;
    });
    y.v.push_back(double(best < 0 ? -1 : best % channel.numel()));
  }
  return y;
}

inline double mean_of(const std::vector<double>& v) {
  double sum = 0;
  for (const double x : v) sum += x;
  return sum / double(v.size());
}
inline double max_of(const std::vector<double>& v) {
  return v.empty() ? -std::numeric_limits<double>::infinity()
                   : *std::max_element(v.begin(), v.end());
}

// Interpolates with the four inputs around a position. Inputs beyond the edge repeat the one at the
// edge.
inline double between_four(const InterpolateOptions& o, double to, double scale, const Array& from,
                           Shape at, int d, int64_t out) {
  const int64_t in = from.shape[d];
  double place = (to + 0.5) * scale - 0.5;
  if (o.align_corners.value_or(false)) place = out > 1 ? to * double(in - 1) / double(out - 1) : 0;
  double sum = 0;
  for (double i = std::floor(place) - 1; i <= std::floor(place) + 2; ++i) {
    const double x = std::abs(i - place), a = -0.75;
    const double near = (a + 2) * x * x * x - (a + 3) * x * x + 1;
    const double far = a * (x * x * x - 5 * x * x + 8 * x - 4);
    at[d] = std::clamp<int64_t>(int64_t(i), 0, in - 1);
    sum += (x <= 1 ? near : far) * from.v[size_t(flat_index(from.shape, at))];
  }
  return sum;
}

// Interpolates along one dimension after the other.
inline Array interpolated(const Array& x, const InterpolateOptions& o, int axes) {
  Array y = x;
  for (int axis = 0; axis < axes; ++axis) {
    const int d = x.shape.size() - 1 - axis;
    const Array from = y;
    const int64_t in = from.shape[d];
    const int64_t size = o.size ? (axis == 0 ? o.size->w : axis == 1 ? o.size->h : o.size->d) : 0;
    const int64_t out = o.size ? size : int64_t(std::floor(double(in) * *o.scale_factor));
    const double scale = o.size ? double(in) / double(out) : 1 / *o.scale_factor;
    y.shape[d] = out;
    y.v.clear();
    for (int64_t i = 0; i < y.shape.numel(); ++i) {
      Shape at = index_of(y.shape, i);
      const double to = double(at[d]);
      double place = std::max(0.0, (to + 0.5) * scale - 0.5);
      if (o.align_corners.value_or(false)) {
        place = out > 1 ? to * double(in - 1) / double(out - 1) : 0;
      }
      if (o.mode == Interpolation::kBicubic) {
        y.v.push_back(between_four(o, to, scale, from, at, d, out));
        continue;
      }
      if (o.mode == Interpolation::kNearest) place = std::floor(float(to) * float(scale));
      place = std::min(place, double(in - 1));
      const auto value_at = [&](double source) {
        at[d] = int64_t(source);
        return from.v[size_t(flat_index(from.shape, at))];
      };
      const double share = place - std::floor(place);
      y.v.push_back((1 - share) * value_at(std::floor(place)) + share * value_at(std::ceil(place)));
    }
  }
  return y;
}

}  // namespace taper::v0::test
