#include <algorithm>
#include <cmath>

#include "autograd/ops/binary_ops.h"
#include "autograd/ops/nn/pool_ops.h"
#include "autograd/ops/shape_ops.h"
#include "autograd/ops/unary_ops.h"
#include "framework/factory/factories.h"
#include "tests/op_table/pool_reference.h"

namespace taper::v0::test {
namespace {

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

  SpatialPlaces places(const Array& x) const {
    const auto along = [&](int64_t in, int64_t Pair::*side) {
      return windows(in, kernel.*side, stride.value_or(kernel).*side, padding.*side, dilation.*side,
                     ceil_mode);
    };
    return {along(x.shape[x.shape.size() - 2], &Pair::h), along(x.shape.back(), &Pair::w)};
  }
  MaxPoolOptions max() const { return {stride, padding, dilation, ceil_mode}; }
  AvgPoolOptions avg() const { return {stride, padding, ceil_mode, count_include_pad}; }
};

Array max_windows(const Array& x, const Window& c) { return windowed(x, c.places(x), {}, max_of); }
Array avg_windows(const Array& x, const Window& c) {
  const std::optional<double> zero = 0;
  return windowed(x, c.places(x), c.count_include_pad ? zero : std::nullopt, mean_of);
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
                        return windowed(x[0], Window{"", 2, {}}.places(x[0]), {},
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
    return windowed(x, {shares(x.shape[d - 2], to.h), shares(x.shape[d - 1], to.w)}, {}, mean_of);
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
  std::vector<Row> rows;
  const auto add = [&](const std::string& name, const std::string& variant, auto f, auto rows_of,
                       auto columns_of, bool is_line) {
    const auto image = [=](const Array& x) { return is_line ? as_image(x) : x; };
    const auto given = [=](const Array& y) { return is_line ? as_rows(y) : y; };
    const auto values = [=](const auto& x) {
      const Array in = image(x[0]);
      return given(windowed(
          in, {rows_of(in.shape[in.shape.size() - 2]), columns_of(in.shape.back())}, {}, max_of));
    };
    const auto indices = [=](const auto& x) {
      const Array in = image(x[0]);
      return given(largest_places(
          in, {rows_of(in.shape[in.shape.size() - 2]), columns_of(in.shape.back())}));
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
                     return windowed(x[0], {shares(h, h), shares(x[0].shape.back(), 2)}, {}, of);
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
  rows.push_back(
      {.name = "adaptive_max_pool1d",
       .f = [](const Tensors& x) { return adaptive_max_pool1d(x[0], 3); },
       .reference =
           [](const auto& x) {
             const Array in = as_image(x[0]);
             return as_rows(windowed(in, {shares(1, 1), shares(in.shape.back(), 3)}, {}, max_of));
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
                        return windowed(x[0], {shares(x[0].shape[2], 3), shares(x[0].shape[3], 4)},
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
