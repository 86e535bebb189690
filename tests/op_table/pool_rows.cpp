#include <algorithm>
#include <cmath>

#include "autograd/ops/binary_ops.h"
#include "autograd/ops/nn/pool_ops.h"
#include "autograd/ops/shape_ops.h"
#include "autograd/ops/unary_ops.h"
#include "framework/factory/factories.h"
#include "tests/op_table/op_table.h"

namespace taper::v0::test {
namespace {

// --- references: the indices of an axis that each output reads, possibly outside of the input ---

using Places = std::vector<int64_t>;
using AxisPlaces = std::vector<Places>;

AxisPlaces windows(int64_t in, int64_t k, int64_t s, int64_t p, int64_t d, bool ceil_mode) {
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

AxisPlaces shares(int64_t in, int64_t out) {
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

// Applies f to the values of each window. Indices outside of the input have the value `beyond`, or
// are skipped without it.
Array windowed(const Array& x, const AxisPlaces& rows, const AxisPlaces& columns,
               std::optional<double> beyond, double (*f)(const std::vector<double>&)) {
  const int d = x.shape.size();
  const int64_t h = x.shape[d - 2], w = x.shape[d - 1];
  Array y{x.shape, {}};
  y.shape[d - 2] = int64_t(rows.size());
  y.shape[d - 1] = int64_t(columns.size());
  for (int64_t i = 0; i < y.shape.numel(); ++i) {
    const Shape at = index_of(y.shape, i);
    std::vector<double> values;
    for (const int64_t r : rows[size_t(at[d - 2])]) {
      for (const int64_t c : columns[size_t(at[d - 1])]) {
        const bool inside = r >= 0 && r < h && c >= 0 && c < w;
        Shape from = at;
        from[d - 2] = r;
        from[d - 1] = c;
        if (inside) values.push_back(x.v[size_t(flat_index(x.shape, from))]);
        if (!inside && beyond) values.push_back(*beyond);
      }
    }
    y.v.push_back(f(values));
  }
  return y;
}

double mean_of(const std::vector<double>& v) {
  double sum = 0;
  for (const double x : v) sum += x;
  return sum / double(v.size());
}
double max_of(const std::vector<double>& v) {
  return v.empty() ? -std::numeric_limits<double>::infinity()
                   : *std::max_element(v.begin(), v.end());
}

Array as_image(Array x) {
  x.shape.insert(x.shape.size() - 1, 1);
  return x;
}
Array as_rows(Array y) {
  y.shape.erase(y.shape.size() - 2);
  return y;
}

// --- layouts: the result for a channels-last input is channels-last ---

Tensor to_channels_last(const Tensor& x) {
  return permute(permute(x, {0, 2, 3, 1}).contiguous(), {0, 3, 1, 2});
}
Function in_channels_last(const Function& f) {
  return [f](const Tensors& x) {
    const Tensor y = f({to_channels_last(x[0])});
    const bool kept = permute(y, {0, 2, 3, 1}).is_contiguous();
    if (!kept) throw Error(concat_to_string("the result has strides ", y.strides()));
    return y;
  };
}

// Appends the row, and a copy for channels-last images.
void add_both(std::vector<Row>& rows, Row row) {
  row.bench = {{16, 64, 112, 112}};
  Row other = row;
  other.variant += ", channels-last";
  other.f = in_channels_last(row.f);
  std::erase_if(other.samples, [](const auto& s) { return s[0].size() != 4; });
  rows.push_back(std::move(row));
  rows.push_back(std::move(other));
}

const std::vector<std::vector<Shape>> kImages = {
    {{1, 2, 4, 5}}, {{2, 3, 7, 9}}, {{3, 5, 6}}, {{0, 2, 5, 5}}, {{2, 8, 17, 16}}};
const std::vector<std::vector<Shape>> kRows = {{{1, 3, 7}}, {{2, 5, 12}}, {{3, 6}}, {{0, 2, 6}}};
const Tolerance kTolerance = {.float16 = 2e-3, .bfloat16 = 1.6e-2};

// --- windows ---

struct Window {
  const char* variant;
  Pair kernel;
  std::optional<Pair> stride;
  Pair padding = 0, dilation = 1;
  bool ceil_mode = false, count_include_pad = true;

  AxisPlaces rows(int64_t in) const {
    return windows(in, kernel.h, stride.value_or(kernel).h, padding.h, dilation.h, ceil_mode);
  }
  AxisPlaces columns(int64_t in) const {
    return windows(in, kernel.w, stride.value_or(kernel).w, padding.w, dilation.w, ceil_mode);
  }
  MaxPoolOptions max() const { return {stride, padding, dilation, ceil_mode}; }
  AvgPoolOptions avg() const { return {stride, padding, ceil_mode, count_include_pad}; }
};

Array max_windows(const Array& x, const Window& c) {
  const int d = x.shape.size();
  return windowed(x, c.rows(x.shape[d - 2]), c.columns(x.shape[d - 1]), {}, max_of);
}
Array avg_windows(const Array& x, const Window& c) {
  const int d = x.shape.size();
  const std::optional<double> zero = 0;
  return windowed(x, c.rows(x.shape[d - 2]), c.columns(x.shape[d - 1]),
                  c.count_include_pad ? zero : std::nullopt, mean_of);
}

std::vector<Row> max_pool_rows() {
  std::vector<Row> rows;
  for (const Window& c :
       {Window{"2", 2, {}}, Window{"3, stride 2, padding 1", 3, 2, 1},
        Window{"(3, 2), stride (2, 1), padding (1, 0)", {3, 2}, Pair{2, 1}, {1, 0}},
        Window{"2, dilation 2, padding 1", 2, 1, 1, 2},
        Window{"3, stride 2, padding 1, ceil", 3, 2, 1, 1, true},
        Window{"2, stride 3, ceil", 2, 3, 0, 1, true}}) {
    add_both(rows, {.name = "max_pool2d",
                    .variant = c.variant,
                    .f = [c](const Tensors& x) { return max_pool2d(x[0], c.kernel, c.max()); },
                    .reference = [c](const auto& x) { return max_windows(x[0], c); },
                    .samples = kImages,
                    .dtypes = floating()});
  }
  for (const Window& c :
       {Window{"3", {1, 3}, {}},
        Window{"3, stride 2, padding 1, ceil", {1, 3}, Pair{1, 2}, {0, 1}, 1, true},
        Window{"2, dilation 3", {1, 2}, Pair{1, 1}, 0, 3}}) {
    rows.push_back(
        {.name = "max_pool1d",
         .variant = c.variant,
         .f = [c](const Tensors& x) { return max_pool1d(x[0], c.kernel.w, c.max()); },
         .reference = [c](const auto& x) { return as_rows(max_windows(as_image(x[0]), c)); },
         .samples = kRows,
         .dtypes = floating()});
  }
  rows.push_back({.name = "max_pool2d",
                  .variant = "nan wins",
                  .f = [](const Tensors& x) { return isnan(max_pool2d(x[0] / x[0], 2)); },
                  .reference =
                      [](const auto& x) {
                        return windowed(x[0], Window{"", 2, {}}.rows(x[0].shape[1]),
                                        Window{"", 2, {}}.columns(x[0].shape[2]), {},
                                        [](const std::vector<double>& v) {
                                          return double(std::count(v.begin(), v.end(), 0.0) > 0);
                                        });
                      },
                  .samples = {{{2, 9, 8}}},
                  .domains = {{-3, 3, 1}},
                  .dtypes = {kFloat32, kFloat64},
                  .gives = Gives::kBoolean,
                  .derivative = Derivative::kNone});
  return rows;
}

std::vector<Row> avg_pool_rows() {
  std::vector<Row> rows;
  for (const Window& c :
       {Window{"2", 2, {}}, Window{"3, stride 2, padding 1", 3, 2, 1},
        Window{"(3, 2), stride (2, 1), padding (1, 0)", {3, 2}, Pair{2, 1}, {1, 0}},
        Window{"3, stride 2, padding 1, ceil", 3, 2, 1, 1, true},
        Window{"3, stride 2, padding 1, ceil, without padding", 3, 2, 1, 1, true, false}}) {
    add_both(rows, {.name = "avg_pool2d",
                    .variant = c.variant,
                    .f = [c](const Tensors& x) { return avg_pool2d(x[0], c.kernel, c.avg()); },
                    .reference = [c](const auto& x) { return avg_windows(x[0], c); },
                    .samples = kImages,
                    .dtypes = floating(),
                    .tolerance = kTolerance});
  }
  for (const Window& c :
       {Window{"3", {1, 3}, {}},
        Window{"3, stride 2, padding 1, ceil", {1, 3}, Pair{1, 2}, {0, 1}, 1, true},
        Window{"40, stride 1: more weights than elements", {1, 40}, Pair{1, 1}}}) {
    rows.push_back(
        {.name = "avg_pool1d",
         .variant = c.variant,
         .f = [c](const Tensors& x) { return avg_pool1d(x[0], c.kernel.w, c.avg()); },
         .reference = [c](const auto& x) { return as_rows(avg_windows(as_image(x[0]), c)); },
         .samples = c.kernel.w < 40 ? kRows : std::vector<std::vector<Shape>>{{{1, 64}}},
         .dtypes = floating(),
         .tolerance = kTolerance});
  }
  return rows;
}

std::vector<Row> adaptive_rows() {
  std::vector<Row> rows;
  const auto reference = [](const Array& x, Pair to) {
    const int d = x.shape.size();
    return windowed(x, shares(x.shape[d - 2], to.h), shares(x.shape[d - 1], to.w), {}, mean_of);
  };
  for (const Pair to : {Pair{1}, Pair{1, 4}, Pair{3, 4}, Pair{7, 2}}) {
    add_both(rows, {.name = "adaptive_avg_pool2d",
                    .variant = concat_to_string("to ", to.h, "x", to.w),
                    .f = [to](const Tensors& x) { return adaptive_avg_pool2d(x[0], to); },
                    .reference = [=](const auto& x) { return reference(x[0], to); },
                    .samples = kImages,
                    .dtypes = floating(),
                    .tolerance = kTolerance});
  }
  rows.push_back({.name = "adaptive_avg_pool1d",
                  .f = [](const Tensors& x) { return adaptive_avg_pool1d(x[0], 4); },
                  .reference =
                      [=](const auto& x) {
                        return as_rows(reference(as_image(x[0]), {1, 4}));
                      },
                  .samples = kRows,
                  .dtypes = floating(),
                  .tolerance = kTolerance});
  return rows;
}

// The largest elements and their indices.
std::vector<Row> largest_rows() {
  const auto columns = [](const AxisPlaces& all, int64_t width) {
    AxisPlaces kept = all;
    for (Places& places : kept)
      std::erase_if(places, [&](int64_t i) { return i < 0 || i >= width; });
    return kept;
  };
  // Returns the index of the first largest element of each window.
  const auto places = [=](const Array& x, const AxisPlaces& rows, const AxisPlaces& all) {
    Array numbers = x;
    const int64_t w = x.shape.back(), plane = w * x.shape[x.shape.size() - 2];
    Array y{x.shape, {}};
    y.shape[y.shape.size() - 2] = int64_t(rows.size());
    y.shape[y.shape.size() - 1] = int64_t(all.size());
    const AxisPlaces inside_rows = columns(rows, plane / std::max<int64_t>(w, 1)),
                     inside = columns(all, w);
    for (int64_t i = 0; i < y.shape.numel(); ++i) {
      const Shape at = index_of(y.shape, i);
      const int64_t first = i / (y.shape.back() * int64_t(rows.size())) * plane;
      int64_t best = -1;
      for (const int64_t r : inside_rows[size_t(at[at.size() - 2])]) {
        for (const int64_t c : inside[size_t(at.back())]) {
          const int64_t here = r * w + c;
          if (best < 0 || x.v[size_t(first + here)] > x.v[size_t(first + best)]) best = here;
        }
      }
      y.v.push_back(double(best));
    }
    return y;
  };
  std::vector<Row> rows;
  const auto add = [&](const std::string& name, const std::string& variant, auto f, auto rows_of,
                       auto columns_of, bool is_line) {
    const auto image = [=](const Array& x) { return is_line ? as_image(x) : x; };
    const auto given = [=](const Array& y) { return is_line ? as_rows(y) : y; };
    const auto values = [=](const auto& x) {
      const Array in = image(x[0]);
      return given(windowed(in, rows_of(in.shape[in.shape.size() - 2]), columns_of(in.shape.back()),
                            {}, max_of));
    };
    const auto indices = [=](const auto& x) {
      const Array in = image(x[0]);
      return given(places(in, rows_of(in.shape[in.shape.size() - 2]), columns_of(in.shape.back())));
    };
    const auto samples = is_line ? kRows : kImages;
    Row row{.name = name,
            .variant = variant,
            .f = [f](const Tensors& x) { return f(x[0]).values; },
            .reference = values,
            .samples = samples,
            .dtypes = floating()};
    Row where{.name = name,
              .variant = variant + ", indices",
              .f = [f](const Tensors& x) { return f(x[0]).indices; },
              .reference = indices,
              .samples = samples,
              .domains = {{-3, 3, 0.5}},
              .dtypes = floating(),
              .gives = Gives::kInt64,
              .derivative = Derivative::kNone};
    if (is_line) {
      rows.push_back(row);
      rows.push_back(where);
    } else {
      add_both(rows, row);
      add_both(rows, where);
    }
  };
  const auto one = [](int64_t n) { return shares(n, 1); };
  for (const Pair to : {Pair{1}, Pair{1, 4}, Pair{3, 4}, Pair{7, 2}}) {
    add(
        "adaptive_max_pool2d_with_indices", concat_to_string("to ", to.h, "x", to.w),
        [to](const Tensor& x) { return adaptive_max_pool2d_with_indices(x, to); },
        [to](int64_t n) { return shares(n, to.h); }, [to](int64_t n) { return shares(n, to.w); },
        false);
  }
  add(
      "adaptive_max_pool1d_with_indices", "to 4",
      [](const Tensor& x) { return adaptive_max_pool1d_with_indices(x, 4); }, one,
      [](int64_t n) { return shares(n, 4); }, true);
  const MaxPoolOptions o{.stride = 2, .padding = 1};
  const auto by_three = [](int64_t n) { return windows(n, 3, 2, 1, 1, false); };
  add(
      "max_pool2d_with_indices", "3, stride 2, padding 1",
      [o](const Tensor& x) { return max_pool2d_with_indices(x, 3, o); }, by_three, by_three, false);
  add(
      "max_pool1d_with_indices", "3, stride 2, padding 1",
      [o](const Tensor& x) { return max_pool1d_with_indices(x, 3, o); }, one, by_three, true);
  const auto keeping = [](const std::string& name, auto f, auto of) {
    return Row{.name = name,
               .variant = "keeping the height",
               .f = f,
               .reference =
                   [of](const auto& x) {
                     const int64_t h = x[0].shape[x[0].shape.size() - 2];
                     return windowed(x[0], shares(h, h), shares(x[0].shape.back(), 2), {}, of);
                   },
               .samples = kImages,
               .dtypes = floating(),
               .tolerance = kTolerance};
  };
  rows.push_back(keeping(
      "adaptive_avg_pool2d",
      [](const Tensors& x) {
        return adaptive_avg_pool2d(x[0], {std::nullopt, 2});
      },
      mean_of));
  rows.push_back(keeping(
      "adaptive_max_pool2d",
      [](const Tensors& x) {
        return adaptive_max_pool2d(x[0], {std::nullopt, 2});
      },
      max_of));
  rows.push_back({.name = "adaptive_max_pool1d",
                  .f = [](const Tensors& x) { return adaptive_max_pool1d(x[0], 3); },
                  .reference =
                      [](const auto& x) {
                        const Array in = as_image(x[0]);
                        return as_rows(
                            windowed(in, shares(1, 1), shares(in.shape.back(), 3), {}, max_of));
                      },
                  .samples = kRows,
                  .dtypes = floating()});
  return rows;
}

// Unpooling writes the largest elements back to their indices.
std::vector<Row> unpool_rows() {
  const auto unpooled = [](Pair kernel, MaxPoolOptions o, std::optional<Pair> size) {
    return [=](const Tensors& x) {
      const Pooled y = max_pool2d_with_indices(x[0], kernel, o);
      return max_unpool2d(y.values, y.indices, kernel, {o.stride, o.padding, size});
    };
  };
  // Windows do not overlap, so the largest element of each window stays and the others become 0.
  const auto reference = [](const auto& x) {
    const Shape& s = x[0].shape;
    const int d = s.size();
    Array y = x[0];
    for (int64_t i = 0; i < s.numel(); ++i) {
      Shape at = index_of(s, i);
      const int64_t h = at[d - 2] / 2 * 2, w = at[d - 1] / 2 * 2;
      bool largest = h + 1 < s[d - 2] && w + 1 < s[d - 1];
      for (int64_t k = 0; largest && k < 4; ++k) {
        at[d - 2] = h + k / 2, at[d - 1] = w + k % 2;
        largest = x[0].v[size_t(flat_index(s, at))] <= x[0].v[size_t(i)];
      }
      if (!largest) y.v[size_t(i)] = 0;
    }
    return y;
  };
  const auto refused = [](const char* what, Shape indices, DType dtype, std::optional<Pair> size,
                          const char* text) {
    return Refusal{what,
                   [=](Device d) {
                     return max_unpool2d(ones({1, 2, 2, 2}, {.device = d}),
                                         zeros(indices, {.dtype = dtype, .device = d}), 2,
                                         {.output_size = size});
                   },
                   text};
  };
  Row even{.name = "max_unpool2d",
           .f = unpooled(2, {}, {}),
           .reference = reference,
           .samples = {{{1, 2, 4, 6}}, {{2, 3, 8, 2}}, {{3, 4, 4}}, {{0, 2, 4, 4}}},
           .dtypes = floating(),
           .refusals = {refused("dtype", {1, 2, 2, 2}, kFloat32, {},
                                "elements in indices should be type int64 but got: Float"),
                        refused("shape", {1, 2, 2, 3}, kInt64, {},
                                "Expected shape of indices to be same as that of the input tensor "
                                "([1, 2, 2, 2]) but got indices tensor with shape: [1, 2, 2, 3]"),
                        refused("size", {1, 2, 2, 2}, kInt64, Pair(9, 9),
                                "invalid output_size \"(9, 9)\"")}};
  Row odd = even;
  odd.variant = "of an odd size";
  odd.refusals = {};
  odd.samples = {{{1, 2, 5, 7}}, {{2, 1, 5, 7}}};
  odd.f = unpooled(2, {}, Pair(5, 7));
  return {even, odd};
}

// --- interpolation ---

// Interpolates with the four inputs around a position. Inputs beyond the edge repeat the one at the
// edge.
double between_four(const InterpolateOptions& o, double to, double scale, const Array& from,
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
Array interpolated(const Array& x, const InterpolateOptions& o, int axes) {
  Array y = x;
  for (int axis = 0; axis < axes; ++axis) {
    const int d = x.shape.size() - 1 - axis;
    const Array from = y;
    const int64_t in = from.shape[d];
    const int64_t size = o.size ? (axis == 0 ? o.size->w : o.size->h) : 0;
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

std::vector<Row> interpolate_rows() {
  struct Case {
    const char* variant;
    InterpolateOptions options;
  };
  std::vector<Row> rows;
  using enum Interpolation::Value;
  const std::vector<std::vector<Shape>> images = {
      {{1, 2, 4, 5}}, {{2, 3, 7, 1}}, {{0, 2, 5, 5}}, {{2, 8, 17, 16}}, {{1, 1, 1, 1}}};
  for (const Case& c :
       {Case{"nearest to 7x3", {.size = Pair{7, 3}}}, Case{"nearest x2", {.scale_factor = 2}},
        Case{"nearest x1.7", {.scale_factor = 1.7}},
        Case{"bilinear to 9x3", {.size = Pair{9, 3}, .mode = kBilinear}},
        Case{"bilinear to 1x4", {.size = Pair{1, 4}, .mode = kBilinear, .align_corners = true}},
        Case{"bilinear to 9x6 corners",
             {.size = Pair{9, 6}, .mode = kBilinear, .align_corners = true}},
        Case{"bilinear x2.5", {.scale_factor = 2.5, .mode = kBilinear}},
        Case{"bicubic to 9x3", {.size = Pair{9, 3}, .mode = kBicubic}},
        Case{"bicubic to 9x6 corners",
             {.size = Pair{9, 6}, .mode = kBicubic, .align_corners = true}},
        Case{"bicubic x1.7", {.scale_factor = 1.7, .mode = kBicubic}}}) {
    add_both(rows, {.name = "interpolate",
                    .variant = c.variant,
                    .f = [c](const Tensors& x) { return interpolate(x[0], c.options); },
                    .reference = [c](const auto& x) { return interpolated(x[0], c.options, 2); },
                    .samples = images,
                    .dtypes = floating(),
                    .tolerance = {.float32 = 1e-5, .float16 = 2e-3, .bfloat16 = 1.6e-2}});
  }
  add_both(rows, {.name = "interpolate",
                  .variant = "area to 3x4",
                  .f =
                      [](const Tensors& x) {
                        return interpolate(x[0], {.size = Pair{3, 4}, .mode = kArea});
                      },
                  .reference =
                      [](const auto& x) {
                        return windowed(x[0], shares(x[0].shape[2], 3), shares(x[0].shape[3], 4),
                                        {}, mean_of);
                      },
                  .samples = images,
                  .dtypes = floating(),
                  .tolerance = kTolerance});
  for (const Case& c : {Case{"rows, nearest to 5", {.size = 5}},
                        Case{"rows, linear x1.5", {.scale_factor = 1.5, .mode = kLinear}}}) {
    rows.push_back({.name = "interpolate",
                    .variant = c.variant,
                    .f = [c](const Tensors& x) { return interpolate(x[0], c.options); },
                    .reference = [c](const auto& x) { return interpolated(x[0], c.options, 1); },
                    .samples = {{{1, 3, 7}}, {{2, 5, 12}}, {{0, 2, 6}}},
                    .dtypes = floating(),
                    .tolerance = {.float32 = 5e-6, .float16 = 2e-3, .bfloat16 = 1.6e-2}});
  }
  return rows;
}

// --- refusals ---

template <class F> Refusal refusal(const char* what, const Shape& shape, F f, const char* text) {
  return {what, [=](Device d) { return f(ones(shape, {.device = d})); }, text};
}

std::vector<Refusal> max_pool_refusals() {
  const auto with = [](Pair k, MaxPoolOptions o) {
    return [=](const Tensor& x) { return max_pool2d(x, k, o); };
  };
  const Shape image = {1, 2, 4, 4};
  return {
      refusal("rank", {3, 4}, with(2, {}),
              "non-empty 3D or 4D (batch mode) tensor expected for input"),
      refusal("padding", image, with(2, {.padding = 2}),
              "pad should be at most half of effective kernel size, but got pad=2, kernel_size=2 "
              "and dilation=1"),
      refusal("negative padding", image, with(2, {.padding = -1}),
              "pad must be non-negative, but got pad: -1"),
      refusal("small", {1, 2, 3, 3}, with(4, {}),
              "Given input size: (2x3x3). Calculated output size: (2x0x0). Output size is too "
              "small"),
      refusal("no stride", image, with(2, {.stride = 0}), "stride should not be zero"),
      refusal("kernel", image, with(0, {.stride = 1}),
              "kernel size should be greater than zero, but got kH: 0 kW: 0"),
      refusal("stride", image, with(2, {.stride = -1}),
              "stride should be greater than zero, but got dH: -1 dW: -1"),
      refusal("dilation", image, with(2, {.dilation = 0}),
              "dilation should be greater than zero, but got dilationH: 0 dilationW: 0"),
      refusal("no channels", {1, 0, 4, 4}, with(2, {}),
              "Expected 3D or 4D (batch mode) tensor with optional 0 dim batch size for input, but "
              "got:[1, 0, 4, 4]"),
      {"integers",
       [](Device d) {
         return max_pool2d(ones({1, 2, 2}, {.dtype = kInt64, .device = d}), 2);
       },
       "\"max_pool2d\" not implemented for 'Long'"}};
}

std::vector<Refusal> max_pool1d_refusals() {
  const auto with = [](int64_t k, MaxPoolOptions o) {
    return [=](const Tensor& x) { return max_pool1d(x, k, o); };
  };
  return {refusal("rank", {4}, with(2, {}),
                  "max_pool1d: Expected 2D or 3D (batch mode) tensor with optional 0 dim batch "
                  "size for input, but got:[4]")};
}

std::vector<Refusal> interpolate_refusals() {
  const auto with = [](InterpolateOptions o) {
    return [=](const Tensor& x) { return interpolate(x, o); };
  };
  const Shape image = {1, 2, 3, 3}, row = {1, 2, 3};
  using enum Interpolation::Value;
  return {
      refusal("no size", image, with({}), "either size or scale_factor should be defined"),
      refusal("both", image, with({.size = 4, .scale_factor = 2}),
              "only one of size or scale_factor should be defined"),
      refusal("rows, bilinear", row, with({.size = 4, .mode = kBilinear}),
              "Got 3D input, but bilinear mode needs 4D input"),
      refusal("images, linear", image, with({.size = 4, .mode = kLinear}),
              "Got 4D input, but linear mode needs 3D input"),
      refusal("corners", image, with({.size = 4, .align_corners = false}),
              "align_corners option can only be set with the interpolating modes: linear | "
              "bilinear | bicubic | trilinear"),
      refusal("rows, bicubic", row, with({.size = 4, .mode = kBicubic}),
              "Got 3D input, but bicubic mode needs 4D input"),
      refusal("area, corners", image, with({.size = 4, .mode = kArea, .align_corners = true}),
              "align_corners option can only be set with the interpolating modes"),
      refusal("rank", {3, 3}, with({.size = 4}), "Input Error: Only 3D"),
      refusal("no output", image, with({.scale_factor = 0.1}),
              "Input and output sizes should be greater than 0, but got input (H: 3, W: 3) output "
              "(H: 0, W: 0)"),
      refusal("no row", row, with({.size = 0}),
              "Input and output sizes should be greater than 0, but got input (W: 3) and output "
              "(W: 0)"),
      refusal("no channels", {1, 0, 3, 3}, with({.size = 4}),
              "Non-empty 4D data tensor expected but got a tensor with sizes [1, 0, 3, 3]")};
}

// Refusals belong to an operator, not to a variant, so the first row of its name gets them.
void refuse(std::vector<Row>& rows, const std::string& name, std::vector<Refusal> refusals) {
  const auto row =
      std::find_if(rows.begin(), rows.end(), [&](const Row& r) { return r.name == name; });
  row->refusals = std::move(refusals);
}

}  // namespace

std::vector<Row> pool_rows() {
  std::vector<Row> rows = max_pool_rows();
  for (auto family : {avg_pool_rows, adaptive_rows, largest_rows, unpool_rows, interpolate_rows}) {
    for (Row& row : family()) rows.push_back(std::move(row));
  }
  refuse(rows, "max_pool2d", max_pool_refusals());
  refuse(rows, "max_pool1d", max_pool1d_refusals());
  refuse(rows, "interpolate", interpolate_refusals());
  refuse(rows, "avg_pool1d",
         {refusal(
              "rank", {4}, [](const Tensor& x) { return avg_pool1d(x, 2); },
              "Expected 2 to 3 dimensions, but got 1-dimensional tensor for argument #1 'self' "
              "(while checking arguments for avg_pool1d)"),
          refusal(
              "small", {1, 3, 4}, [](const Tensor& x) { return avg_pool1d(x, 7); },
              "Given input size: (3x1x4). Calculated output size: (3x1x0). Output size is too "
              "small")});
  refuse(rows, "adaptive_avg_pool2d",
         {refusal(
              "rank", {3, 4}, [](const Tensor& x) { return adaptive_avg_pool2d(x, 2); },
              "adaptive_avg_pool2d(): Expected 3D or 4D tensor, but got [3, 4]"),
          refusal(
              "negative", {1, 3, 4, 4}, [](const Tensor& x) { return adaptive_avg_pool2d(x, -1); },
              "adaptive_avg_pool2d: elements of output_size must be greater than or equal to 0 "
              "but received {-1, -1}"),
          refusal(
              "empty", {1, 3, 0, 4}, [](const Tensor& x) { return adaptive_avg_pool2d(x, 2); },
              "adaptive_avg_pool2d(): Expected input to have non-zero size for non-batch "
              "dimensions, but input has sizes [1, 3, 0, 4] with dimension 2 being empty")});
  refuse(rows, "adaptive_max_pool2d",
         {refusal(
              "rank", {3, 3}, [](const Tensor& x) { return adaptive_max_pool2d(x, 2); },
              "adaptive_max_pool2d(): Expected 3D or 4D tensor, but got [3, 3]"),
          refusal(
              "empty", {1, 2, 0, 3}, [](const Tensor& x) { return adaptive_max_pool2d(x, 2); },
              "adaptive_max_pool2d(): Expected input to have non-zero size for non-batch "
              "dimensions, but input has sizes [1, 2, 0, 3] with dimension 2 being empty")});
  refuse(
      rows, "adaptive_max_pool1d",
      {refusal(
          "rank", {3}, [](const Tensor& x) { return adaptive_max_pool1d(x, 2); },
          "Expected 2 to 3 dimensions, but got 1-dimensional tensor for argument #1 'self' (while "
          "checking arguments for adaptive_max_pool1d)")});
  refuse(rows, "adaptive_avg_pool1d",
         {refusal(
             "rank", {4}, [](const Tensor& x) { return adaptive_avg_pool1d(x, 2); },
             "Expected 2 to 3 dimensions, but got 1-dimensional tensor for argument #1 'self' "
             "(while checking arguments for adaptive_avg_pool1d)")});
  return rows;
}

}  // namespace taper::v0::test
