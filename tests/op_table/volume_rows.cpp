// Rows of pooling and interpolation of volumes, [N, C, D, H, W] or [C, D, H, W].
#include <algorithm>
#include <optional>

#include "autograd/ops/binary_ops.h"
#include "autograd/ops/nn/pool_ops.h"
#include "autograd/ops/shape_ops.h"
#include "autograd/ops/unary_ops.h"
#include "framework/factory/factories.h"
#include "tests/op_table/pool_reference.h"

namespace taper::v0::test {
namespace {

using Samples = std::vector<std::vector<Shape>>;

const Samples kVolumes = {{{1, 1, 3, 3, 4}}, {{1, 2, 3, 4, 5}}, {{2, 3, 5, 4, 6}}, {{2, 3, 5, 4}},
                          {{0, 2, 4, 5, 3}}, {{2, 8, 6, 9, 8}}, {{1, 4, 3, 3, 16}}};
const Tolerance kTolerance = {.float16 = 2e-3, .bfloat16 = 1.6e-2};

Tensor to_channels_last(const Tensor& x) {
  return permute(permute(x, {0, 2, 3, 4, 1}).contiguous(), {0, 4, 1, 2, 3});
}

// Appends the row, and a copy for volumes in channels-last memory, whose result must be
// channels-last, too.
void add_both(std::vector<Row>& rows, Row row) {
  row.bench = {{2, 64, 32, 56, 56}};
  Row other = row;
  other.variant += ", channels-last";
  other.f = [f = row.f](const Tensors& x) {
    const Tensor y = f({to_channels_last(x[0])});
    if (!permute(y, {0, 2, 3, 4, 1}).is_contiguous())
      throw Error(concat_to_string("the result has strides ", y.strides()));
    return y;
  };
  std::erase_if(other.samples, [](const auto& s) { return s[0].size() != 5; });
  rows.push_back(std::move(row));
  rows.push_back(std::move(other));
}

// Returns the places along the depth, height and width of x by `f(size, member of Triple)`.
template <class F> SpatialPlaces along_each(const Array& x, F f) {
  const int d = x.shape.size();
  return {f(x.shape[d - 3], &Triple::d), f(x.shape[d - 2], &Triple::h),
          f(x.shape[d - 1], &Triple::w)};
}

// --- windows ---

struct Window {
  const char* variant;
  Triple kernel;
  std::optional<Triple> stride = {};
  Triple padding = 0, dilation = 1;
  bool ceil_mode = false, count_include_pad = true;

  SpatialPlaces places(const Array& x) const {
    return along_each(x, [&](int64_t in, int64_t Triple::*side) {
      return windows(in, kernel.*side, stride.value_or(kernel).*side, padding.*side, dilation.*side,
                     ceil_mode);
    });
  }
  MaxPool3dOptions max() const { return {stride, padding, dilation, ceil_mode}; }
  AvgPool3dOptions avg() const { return {stride, padding, ceil_mode, count_include_pad}; }
};

const Window kSeveralSizes{
    "(1, 3, 2), stride (2, 1, 3), padding (0, 1, 1)", {1, 3, 2}, Triple(2, 1, 3), {0, 1, 1}};

std::vector<Row> max_pool_rows() {
  std::vector<Row> rows;
  for (const Window& c : {Window{"2", 2}, Window{"3, stride 2, padding 1", 3, 2, 1}, kSeveralSizes,
                          Window{"2, dilation 2, padding 1", 2, 1, 1, 2},
                          Window{"3, stride 2, padding 1, ceil", 3, 2, 1, 1, true}}) {
    add_both(rows, {.name = "max_pool3d",
                    .variant = c.variant,
                    .f = [c](const Tensors& x) { return max_pool3d(x[0], c.kernel, c.max()); },
                    .reference =
                        [c](const auto& x) { return windowed(x[0], c.places(x[0]), {}, max_of); },
                    .samples = kVolumes,
                    .dtypes = floating()});
  }
  const Window two{"", 2};
  rows.push_back({.name = "max_pool3d",
                  .variant = "nan wins",
                  .f = [](const Tensors& x) { return isnan(max_pool3d(x[0] / x[0], 2)); },
                  .reference =
                      [two](const auto& x) {
                        return windowed(x[0], two.places(x[0]), {},
                                        [](const std::vector<double>& v) {
                                          return double(std::count(v.begin(), v.end(), 0.0) > 0);
                                        });
                      },
                  .samples = {{{2, 4, 9, 8}}},
                  .domains = {{-3, 3, 1}},
                  .dtypes = {kFloat32, kFloat64},
                  .gives = Gives::kBoolean,
                  .derivative = Derivative::kNone});
  return rows;
}

std::vector<Row> avg_pool_rows() {
  std::vector<Row> rows;
  for (const Window& c :
       {Window{"2", 2}, Window{"3, stride 2, padding 1", 3, 2, 1}, kSeveralSizes,
        Window{"3, stride 2, padding 1, ceil", 3, 2, 1, 1, true},
        Window{"3, stride 2, padding 1, ceil, without padding", 3, 2, 1, 1, true, false}}) {
    const std::optional<double> beyond =
        c.count_include_pad ? std::optional<double>(0) : std::nullopt;
    add_both(rows, {.name = "avg_pool3d",
                    .variant = c.variant,
                    .f = [c](const Tensors& x) { return avg_pool3d(x[0], c.kernel, c.avg()); },
                    .reference =
                        [c, beyond](const auto& x) {
                          return windowed(x[0], c.places(x[0]), beyond, mean_of);
                        },
                    .samples = kVolumes,
                    .dtypes = floating(),
                    .tolerance = kTolerance});
  }
  rows.push_back(
      {.name = "avg_pool3d",
       .variant = "padding of a single slab",
       .f = [](const Tensors& x) { return avg_pool3d(x[0], 3, {.stride = 1, .padding = 1}); },
       .reference =
           [](const auto& x) {
             return windowed(x[0], Window{"", 3, 1, 1}.places(x[0]), 0, mean_of);
           },
       .samples = {{{2, 1, 1, 3, 5}}, {{2, 3, 1, 1, 4}}},
       .dtypes = floating(),
       .tolerance = kTolerance});
  return rows;
}

// --- adaptive windows, and positions ---

SpatialPlaces shares_of(const Array& x, const OutputSize3d& to) {
  const int d = x.shape.size();
  const auto along = [&](int from_last, std::optional<int64_t> size) {
    const int64_t in = x.shape[d - from_last];
    return shares(in, size.value_or(in));
  };
  return {along(3, to.d), along(2, to.h), along(1, to.w)};
}

std::vector<Row> adaptive_rows() {
  std::vector<Row> rows;
  const struct {
    const char* variant;
    OutputSize3d to;
  } cases[] = {{"to 1", 1},
               {"to 1x2x3", {1, 2, 3}},
               {"to 3x1x1", {3, 1, 1}},
               {"to 5x4x1", {5, 4, 1}},
               {"keeping the depth", {std::nullopt, 2, 1}}};
  for (const auto& [variant, to] : cases) {
    add_both(rows, {.name = "adaptive_avg_pool3d",
                    .variant = variant,
                    .f = [to = to](const Tensors& x) { return adaptive_avg_pool3d(x[0], to); },
                    .reference =
                        [to = to](const auto& x) {
                          return windowed(x[0], shares_of(x[0], to), {}, mean_of);
                        },
                    .samples = kVolumes,
                    .dtypes = floating(),
                    .tolerance = kTolerance});
    add_both(rows, {.name = "adaptive_max_pool3d",
                    .variant = variant,
                    .f = [to = to](const Tensors& x) { return adaptive_max_pool3d(x[0], to); },
                    .reference =
                        [to = to](const auto& x) {
                          return windowed(x[0], shares_of(x[0], to), {}, max_of);
                        },
                    .samples = kVolumes,
                    .dtypes = floating()});
  }
  return rows;
}

// The largest elements and their positions.
std::vector<Row> largest_rows() {
  std::vector<Row> rows;
  const auto add = [&](const std::string& name, const std::string& variant, auto f, auto places) {
    Row row{
        .name = name,
        .variant = variant,
        .f = [f](const Tensors& x) { return f(x[0]).values; },
        .reference = [places](const auto& x) { return windowed(x[0], places(x[0]), {}, max_of); },
        .samples = kVolumes,
        .dtypes = floating()};
    Row where = row;
    where.variant += ", indices";
    where.f = [f](const Tensors& x) { return f(x[0]).indices; };
    where.reference = [places](const auto& x) { return largest_places(x[0], places(x[0])); };
    where.domains = {{-3, 3, 0.5}};
    where.gives = Gives::kInt64;
    where.derivative = Derivative::kNone;
    add_both(rows, row);
    add_both(rows, where);
  };
  for (const Window& c : {Window{"3, stride 2, padding 1", 3, 2, 1}, kSeveralSizes}) {
    add(
        "max_pool3d_with_indices", c.variant,
        [c](const Tensor& x) { return max_pool3d_with_indices(x, c.kernel, c.max()); },
        [c](const Array& x) { return c.places(x); });
  }
  const OutputSize3d to(2, 3, 1);
  add(
      "adaptive_max_pool3d_with_indices", "to 2x3x1",
      [to](const Tensor& x) { return adaptive_max_pool3d_with_indices(x, to); },
      [to](const Array& x) { return shares_of(x, to); });
  return rows;
}

// Unpooling writes the largest elements back to their positions.
std::vector<Row> unpool_rows() {
  const auto unpooled = [](std::optional<Triple> size) {
    return [=](const Tensors& x) {
      const Pooled y = max_pool3d_with_indices(x[0], 2);
      return max_unpool3d(y.values, y.indices, 2, {.output_size = size});
    };
  };
  // Windows do not overlap, so the largest element of each window stays and the others become 0.
  const auto reference = [](const auto& x) {
    const Array& in = x[0];
    const SpatialPlaces spatial = Window{"", 2}.places(in);
    const Array largest = windowed(in, spatial, {}, max_of), at = largest_places(in, spatial);
    Array y{in.shape, std::vector<double>(in.v.size(), 0)};
    const int64_t channel = Shape(in.shape.end() - 3, in.shape.end()).numel(),
                  pooled = Shape(largest.shape.end() - 3, largest.shape.end()).numel();
    for (size_t i = 0; i < largest.v.size(); ++i) {
      y.v[size_t(int64_t(i) / pooled * channel + int64_t(at.v[i]))] = largest.v[i];
    }
    return y;
  };
  const auto refused = [](const char* what, Shape indices, DType dtype, std::optional<Triple> size,
                          const char* text) {
    return Refusal{what,
                   [=](Device d) {
                     return max_unpool3d(ones({1, 2, 2, 2, 2}, {.device = d}),
                                         zeros(indices, {.dtype = dtype, .device = d}), 2,
                                         {.output_size = size});
                   },
                   text};
  };
  Row even{.name = "max_unpool3d",
           .f = unpooled({}),
           .reference = reference,
           .samples = {{{1, 1, 2, 4, 4}}, {{2, 3, 4, 2, 6}}, {{2, 4, 4, 2}}, {{0, 2, 4, 4, 4}}},
           .dtypes = floating(),
           .refusals = {refused("dtype", {1, 2, 2, 2, 2}, kFloat32, {},
                                "elements in indices should be type int64 but got: Float"),
                        refused("shape", {1, 2, 2, 2, 3}, kInt64, {},
                                "Expected shape of indices to be same as that of the input tensor "
                                "([1, 2, 2, 2, 2]) but got indices tensor with shape: [1, 2, 2, 2, "
                                "3]"),
                        refused("size", {1, 2, 2, 2, 2}, kInt64, Triple(9, 9, 9),
                                "invalid output_size \"(9, 9, 9)\""),
                        {"rank",
                         [](Device d) {
                           const Tensor x = ones({2, 2, 2}, {.device = d});
                           return max_unpool3d(x, x.to(kInt64), 2);
                         },
                         "Input to max_unpooling3d should be a 4d or 5d Tensor, but got a tensor "
                         "with 3 dimensions"}}};
  Row odd = even;
  odd.variant = "of an odd size";
  odd.refusals = {};
  odd.samples = {{{1, 2, 3, 5, 4}}, {{2, 1, 3, 5, 4}}};
  odd.f = unpooled(Triple(3, 5, 4));
  return {even, odd};
}

// --- interpolation ---

std::vector<Row> interpolate_rows() {
  using enum Interpolation::Value;
  const struct {
    const char* variant;
    InterpolateOptions options;
  } cases[] = {
      {"volumes, nearest to 5x7x3", {.size = Triple{5, 7, 3}}},
      {"volumes, nearest x2", {.scale_factor = 2}},
      {"volumes, nearest x1.7", {.scale_factor = 1.7}},
      {"trilinear to 5x2x7", {.size = Triple{5, 2, 7}, .mode = kTrilinear}},
      {"trilinear to 1x4x6 corners",
       {.size = Triple{1, 4, 6}, .mode = kTrilinear, .align_corners = true}},
      {"trilinear x2", {.scale_factor = 2, .mode = kTrilinear}},
      {"trilinear x2.5 corners", {.scale_factor = 2.5, .mode = kTrilinear, .align_corners = true}},
  };
  const Samples volumes = {{{1, 1, 2, 3, 4}}, {{2, 3, 3, 4, 1}}, {{0, 2, 3, 3, 3}},
                           {{2, 8, 4, 5, 8}}, {{1, 1, 1, 1, 1}}, {{1, 2, 1, 3, 5}}};
  std::vector<Row> rows;
  for (const auto& [variant, options] : cases) {
    add_both(rows, {.name = "interpolate",
                    .variant = variant,
                    .f = [o = options](const Tensors& x) { return interpolate(x[0], o); },
                    .reference = [o = options](const auto& x) { return interpolated(x[0], o, 3); },
                    .samples = volumes,
                    .dtypes = floating(),
                    .tolerance = {.float32 = 1e-5, .float16 = 2e-3, .bfloat16 = 1.6e-2}});
  }
  add_both(rows, {.name = "interpolate",
                  .variant = "volumes, area to 2x3x4",
                  .f =
                      [](const Tensors& x) {
                        return interpolate(x[0], {.size = Triple{2, 3, 4}, .mode = kArea});
                      },
                  .reference =
                      [](const auto& x) {
                        return windowed(x[0], shares_of(x[0], Triple(2, 3, 4)), {}, mean_of);
                      },
                  .samples = volumes,
                  .dtypes = floating(),
                  .tolerance = kTolerance});
  return rows;
}

// --- refusals ---

template <class F> Refusal refusal(const char* what, const Shape& shape, F f, const char* text) {
  return {what, [=](Device d) { return f(ones(shape, {.device = d})); }, text};
}
const Shape kVolume = {1, 2, 4, 4, 4};

std::vector<Refusal> max_pool_refusals() {
  const auto with = [](Triple k, MaxPool3dOptions o) {
    return [=](const Tensor& x) { return max_pool3d(x, k, o); };
  };
  return {refusal("rank", {3, 4, 4}, with(2, {}),
                  "non-empty 4D or 5D (batch mode) tensor expected for input, but max_pool3d got "
                  "[3, 4, 4]"),
          refusal("padding", kVolume, with(2, {.padding = 2}),
                  "pad should be at most half of effective kernel size, but got pad=2, "
                  "kernel_size=2 and dilation=1"),
          refusal("negative padding", kVolume, with(2, {.padding = {-1, 0, 0}}),
                  "pad must be non-negative, but got pad: -1"),
          refusal("small", {1, 2, 3, 3, 3}, with(4, {}),
                  "Given input size: (2x3x3x3). Calculated output size: (2x0x0x0). Output size is "
                  "too small"),
          refusal("no stride", kVolume, with(2, {.stride = Triple(0, 1, 1)}),
                  "stride should not be zero"),
          refusal("kernel", kVolume, with(0, {.stride = 1}),
                  "kernel size should be greater than zero, but got kT: 0 kH: 0 kW: 0"),
          refusal("stride", kVolume, with(2, {.stride = Triple(1, 1, -1)}),
                  "stride should be greater than zero, but got dT: 1 dH: 1 dW: -1"),
          refusal("dilation", kVolume, with(2, {.dilation = 0}),
                  "dilation should be greater than zero, but got dilationT: 0 dilationH: 0 "
                  "dilationW: 0"),
          refusal("no channels", {1, 0, 4, 4, 4}, with(2, {}),
                  "max_pool3d(): Expected input's non-batch dimensions to have positive length, "
                  "but input has a shape of [1, 0, 4, 4, 4] and dimension 1 has length zero!"),
          {"integers",
           [](Device d) {
             return max_pool3d(ones({1, 2, 2, 2}, {.dtype = kInt64, .device = d}), 2);
           },
           "\"max_pool3d\" not implemented for 'Long'"}};
}

std::vector<Refusal> interpolate_refusals() {
  const auto with = [](InterpolateOptions o) {
    return [=](const Tensor& x) { return interpolate(x, o); };
  };
  using enum Interpolation::Value;
  return {refusal("volumes, bilinear", kVolume, with({.size = 4, .mode = kBilinear}),
                  "Got 5D input, but bilinear mode needs 4D input"),
          refusal("images, trilinear", {1, 2, 4, 4}, with({.size = 4, .mode = kTrilinear}),
                  "Got 4D input, but trilinear mode needs 5D input"),
          refusal("two sizes for three dimensions", kVolume, with({.size = Pair(3, 4)}),
                  "Input and output must have the same number of spatial dimensions, but got input "
                  "with spatial dimensions of [4, 4, 4] and 2 output sizes"),
          refusal("three sizes for two dimensions", {1, 2, 4, 4}, with({.size = Triple(3, 4, 5)}),
                  "Input and output must have the same number of spatial dimensions, but got input "
                  "with spatial dimensions of [4, 4] and 3 output sizes"),
          refusal("volumes, no output", kVolume, with({.scale_factor = 0.1}),
                  "Input and output sizes should be greater than 0, but got input (D: 4, H: 4, W: "
                  "4) output (D: 0, H: 0, W: 0)"),
          refusal("six dimensions", {1, 2, 3, 3, 3, 3}, with({.size = 4}),
                  "Input Error: Only 3D, 4D and 5D input Tensors supported (got 6D)")};
}

void refuse(std::vector<Row>& rows, const std::string& name, std::vector<Refusal> refusals) {
  std::ranges::find(rows, name, &Row::name)->refusals = std::move(refusals);
}

}  // namespace

std::vector<Row> volume_rows() {
  std::vector<Row> rows = max_pool_rows();
  for (auto family : {avg_pool_rows, adaptive_rows, largest_rows, unpool_rows, interpolate_rows}) {
    for (Row& row : family()) rows.push_back(std::move(row));
  }
  refuse(rows, "max_pool3d", max_pool_refusals());
  refuse(rows, "interpolate", interpolate_refusals());
  refuse(
      rows, "avg_pool3d",
      {refusal(
           "rank", {3, 4, 4}, [](const Tensor& x) { return avg_pool3d(x, 2); },
           "non-empty 4D or 5D (batch mode) tensor expected for input, but avg_pool3d got [3, 4, "
           "4]"),
       refusal(
           "empty", {1, 2, 4, 0, 4}, [](const Tensor& x) { return avg_pool3d(x, 2); },
           "avg_pool3d(): Expected input's non-batch dimensions to have positive length, but input "
           "has a shape of [1, 2, 4, 0, 4] and dimension 3 has length zero!"),
       refusal(
           "small", {2, 3, 1, 4}, [](const Tensor& x) { return avg_pool3d(x, 2); },
           "Given input size: (2x3x1x4). Calculated output size: (2x1x0x2). Output size is too "
           "small")});
  refuse(rows, "adaptive_avg_pool3d",
         {refusal(
              "rank", {3, 4, 4}, [](const Tensor& x) { return adaptive_avg_pool3d(x, 2); },
              "adaptive_avg_pool3d(): Expected 4D or 5D tensor, but got [3, 4, 4]"),
          refusal(
              "negative", kVolume, [](const Tensor& x) { return adaptive_avg_pool3d(x, -1); },
              "adaptive_avg_pool3d: elements of output_size must be greater than or equal to 0 "
              "but received {-1, -1, -1}"),
          refusal(
              "empty", {1, 3, 0, 4, 4}, [](const Tensor& x) { return adaptive_avg_pool3d(x, 2); },
              "adaptive_avg_pool3d(): Expected input to have non-zero size for non-batch "
              "dimensions, but input has sizes [1, 3, 0, 4, 4] with dimension 2 being empty")});
  refuse(rows, "adaptive_max_pool3d",
         {refusal(
             "rank", {3, 4, 4}, [](const Tensor& x) { return adaptive_max_pool3d(x, 2); },
             "adaptive_max_pool3d(): Expected 4D or 5D tensor, but got [3, 4, 4]")});
  return rows;
}

}  // namespace taper::v0::test
