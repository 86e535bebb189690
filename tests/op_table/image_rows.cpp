#include <algorithm>
#include <cmath>

#include "autograd/ops/nn/image.h"
#include "framework/factory/factories.h"
#include "tests/op_table/op_table.h"

namespace taper::v0::test {
namespace {

using Arrays = std::vector<Array>;
using Samples = std::vector<std::vector<Shape>>;

double value_at(const Array& x, const Shape& at) { return x.v[size_t(flat_index(x.shape, at))]; }

template <class F> Refusal refusal(const char* what, const Shape& shape, F f, const char* text) {
  return {what, [=](Device d) { return f(ones(shape, {.device = d})); }, text};
}

// --- padding ---

// Returns the index in an input of n elements that element i of the result is copied from.
int64_t source_of(PadMode mode, int64_t i, int64_t n, int64_t before, int64_t after) {
  if (mode == PadMode::kCircular) {
    const int64_t first = std::max<int64_t>(-before, 0),
                  left = n - first - std::max<int64_t>(-after, 0);
    return first + (i - std::max<int64_t>(before, 0) + 4 * left) % left;
  }
  const int64_t at = i - before;
  if (mode == PadMode::kReplicate) return std::clamp<int64_t>(at, 0, n - 1);
  return at < 0 ? -at : at >= n ? 2 * (n - 1) - at : at;
}

Row pad_row(PadMode mode, const std::vector<int64_t>& padding, Samples samples) {
  return {.name = "pad",
          .variant = concat_to_string(mode, " ", Shape(padding)),
          .f = [=](const Tensors& x) { return pad(x[0], padding, mode); },
          .reference =
              [=](const Arrays& x) {
                Shape shape = x[0].shape;
                const int last = shape.size() - 1;
                for (size_t i = 0; i < padding.size(); ++i) shape[last - int(i / 2)] += padding[i];
                return gathered(x[0], shape, [&](Shape at) {
                  for (size_t i = 0; i < padding.size(); i += 2) {
                    const int d = last - int(i / 2);
                    at[d] = source_of(mode, at[d], x[0].shape[d], padding[i], padding[i + 1]);
                  }
                  return at;
                });
              },
          .samples = std::move(samples),
          .dtypes = everything()};
}

std::vector<Row> pad_rows() {
  using enum PadMode::Value;
  std::vector<Row> rows;
  for (const PadMode mode : {kReflect, kReplicate, kCircular}) {
    rows.push_back(pad_row(mode, {2, 1}, {{{1, 2, 3}}, {{4, 5}}, {{0, 2, 4}}}));
    rows.push_back(pad_row(mode, {1, 2, 0, 1}, {{{1, 2, 3, 4}}, {{2, 4, 3}}, {{2, 3, 7, 6}}}));
    rows.push_back(pad_row(mode, {1, 1, 1, 0, 0, 1}, {{{1, 2, 2, 3, 2}}, {{2, 3, 2, 4}}}));
    rows.push_back(pad_row(mode, {-1, 2}, {{{1, 2, 5}}}));
    rows.push_back(pad_row(mode, {-1, 0, 0, -1}, {{{1, 2, 3, 3}}}));
  }
  rows.push_back(pad_row(kReplicate, {5, 7}, {{{1, 2, 3}}}));
  const auto with = [](std::vector<int64_t> sides, PadMode mode, Scalar value = 0) {
    return [=](const Tensor& x) { return pad(x, sides, mode, value); };
  };
  rows[0].refusals = {
      refusal(
          "reflect beyond", {1, 2, 3}, with({3, 0}, kReflect),
          "Argument #4: Padding size should be less than the corresponding input dimension, but "
          "got: padding (3, 0) at dimension 2 of input [1, 2, 3]"),
      refusal(
          "reflect rows beyond", {1, 2, 3, 4}, with({0, 0, 4, 4}, kReflect),
          "Argument #6: Padding size should be less than the corresponding input dimension, but "
          "got: padding (4, 4) at dimension 2 of input [1, 2, 3, 4]"),
      refusal("circular beyond", {1, 2, 3}, with({4, 0}, kCircular),
              "Padding value causes wrapping around more than once."),
      refusal("nothing left", {1, 2, 3}, with({-3, 0}, kReplicate),
              "input (W: 3) is too small. Calculated output W: 0"),
      refusal("odd", {1, 2, 3}, with({1, 1, 1}, kReflect), "Padding length must be divisible by 2"),
      refusal("rank", {1, 2, 3, 3}, with({1, 1}, kReflect),
              "Padding size 2 is not supported for 4D input tensor."),
      refusal("value", {1, 2, 3}, with({1, 1}, kReflect, 3),
              "Padding mode \"reflect\" doesn't take in value argument"),
      refusal("empty", {1, 2, 0}, with({1, 1}, kReplicate),
              "Expected 2D or 3D (batch mode) tensor with possibly 0 batch size and other non-zero "
              "dimensions for input, but got: [1, 2, 0]")};
  return rows;
}

// --- windows ---

// Calls f(index in the columns, index in the images or -1 outside, shape of the columns) for every
// element of every window in the images.
template <class F> void for_windows(const Shape& image, Pair kernel, const UnfoldOptions& o, F f) {
  const auto count = [](int64_t n, int64_t k, int64_t s, int64_t p, int64_t d) {
    return (n + 2 * p - d * (k - 1) - 1) / s + 1;
  };
  const Pair blocks(count(image[2], kernel.h, o.stride.h, o.padding.h, o.dilation.h),
                    count(image[3], kernel.w, o.stride.w, o.padding.w, o.dilation.w));
  const Shape all = {image[0], image[1], kernel.h, kernel.w, blocks.h, blocks.w};
  for (int64_t i = 0; i < all.numel(); ++i) {
    const Shape at = index_of(all, i);
    const int64_t h = at[4] * o.stride.h - o.padding.h + at[2] * o.dilation.h;
    const int64_t w = at[5] * o.stride.w - o.padding.w + at[3] * o.dilation.w;
    const bool inside = h >= 0 && h < image[2] && w >= 0 && w < image[3];
    f(i, inside ? flat_index(image, {at[0], at[1], h, w}) : -1,
      Shape{image[0], image[1] * kernel.h * kernel.w, blocks.h * blocks.w});
  }
}

struct WindowCase {
  const char* variant;
  Pair kernel;
  UnfoldOptions options;
  Pair image;  // image size for fold
  int64_t count;
};
const WindowCase kWindows[] = {
    {"2", 2, {}, 3, 4},
    {"(2, 3), dilation (2, 1), padding (1, 2), stride (1, 2)",
     {2, 3},
     {.dilation = {2, 1}, .padding = {1, 2}, .stride = {1, 2}},
     {4, 3},
     12},
    {"patches of 2", 2, {.stride = 2}, {4, 6}, 6},
};

std::vector<Row> window_rows() {
  std::vector<Row> rows;
  for (const WindowCase& c : kWindows) {
    rows.push_back({.name = "unfold",
                    .variant = c.variant,
                    .f = [c](const Tensors& x) { return unfold(x[0], c.kernel, c.options); },
                    .reference =
                        [c](const Arrays& x) {
                          Array image = x[0], y;
                          const bool batched = image.shape.size() == 4;
                          if (!batched) image.shape.insert(0, 1);
                          for_windows(image.shape, c.kernel, c.options,
                                      [&](int64_t, int64_t from, const Shape& shape) {
                                        y.shape = shape;
                                        y.v.push_back(from < 0 ? 0 : image.v[size_t(from)]);
                                      });
                          if (!batched) y.shape.erase(0);
                          return y;
                        },
                    .samples = {{{1, 2, 3, 4}}, {{2, 3, 5}}, {{2, 3, 9, 7}}},
                    .dtypes = everything()});
    const int64_t rows_of_one = 2 * c.kernel.h * c.kernel.w;
    rows.push_back({.name = "fold",
                    .variant = c.variant,
                    .f = [c](const Tensors& x) { return fold(x[0], c.image, c.kernel, c.options); },
                    .reference =
                        [c](const Arrays& x) {
                          const bool batched = x[0].shape.size() == 3;
                          const int64_t N = batched ? x[0].shape[0] : 1;
                          Array y{{N, 2, c.image.h, c.image.w}, {}};
                          y.v.resize(size_t(y.shape.numel()), 0);
                          for_windows(y.shape, c.kernel, c.options,
                                      [&](int64_t i, int64_t to, const Shape&) {
                                        if (to >= 0) y.v[size_t(to)] += x[0].v[size_t(i)];
                                      });
                          if (!batched) y.shape.erase(0);
                          return y;
                        },
                    .samples = {{{1, rows_of_one, c.count}},
                                {{rows_of_one, c.count}},
                                {{3, rows_of_one, c.count}},
                                {{0, rows_of_one, c.count}}},
                    .dtypes = floating(),
                    .tolerance = {.bfloat16 = 1.6e-2}});
  }
  const auto unfolded = [](Pair kernel, UnfoldOptions o = {}) {
    return [=](const Tensor& x) { return unfold(x, kernel, o); };
  };
  rows[0].refusals = {
      refusal("small", {1, 2, 3, 3}, unfolded(4),
              "Given input with spatial size (3, 3), kernel_size=(4, 4), dilation=(1, 1), "
              "padding=(0, 0), calculated shape of the array of sliding blocks as (0, 0), but its "
              "components must be at least one."),
      refusal("kernel", {1, 2, 3, 3}, unfolded(0),
              "kernel size should be greater than zero, but got kernel_height: 0 kernel_width: 0"),
      refusal("stride", {1, 2, 3, 3}, unfolded(2, {.stride = 0}),
              "stride should be greater than zero, but got stride_height: 0 stride_width: 0"),
      refusal("padding", {1, 2, 3, 3}, unfolded(2, {.padding = -1}),
              "padding should be non-negative, but got pad_height: -1 pad_width: -1"),
      refusal("dilation", {1, 2, 3, 3}, unfolded(2, {.dilation = 0}),
              "dilation should be greater than zero, but got dilation_height: 0 dilation_width: 0"),
      refusal("no channels", {1, 0, 3, 3}, unfolded(2),
              "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero "
              "dimensions for input, but got: [1, 0, 3, 3]")};
  const auto folded = [](const Tensor& x) { return fold(x, 3, 2); };
  rows[1].refusals = {
      refusal("rows", {1, 7, 4}, folded,
              "Expected size of input's dimension 1 to be divisible by the product of kernel_size, "
              "but got input.size(1)=7 and kernel_size=(2, 2)."),
      refusal("windows", {1, 8, 5}, folded,
              "Given output_size=(3, 3), kernel_size=(2, 2), dilation=(1, 1), padding=(0, 0), "
              "stride=(1, 1), expected size of input's dimension 2 to match the calculated number "
              "of sliding blocks 2 * 2 = 4, but got input.size(2)=5."),
      refusal("rank", {1, 8, 4, 4}, folded,
              "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and "
              "non-zero dimensions for input, but got: [1, 8, 4, 4]"),
      {"integers",
       [](Device d) {
         return fold(ones({1, 8, 4}, {.dtype = kInt64, .device = d}), 3, 2);
       },
       "\"fold\" not implemented for 'Long'"}};
  return rows;
}

// --- channels and pixels ---

std::vector<Row> shuffle_rows() {
  const auto sizes = [](const Shape& s, int64_t channels, int64_t h, int64_t w) {
    Shape y(s.begin(), s.end() - 3);
    for (const int64_t n : {channels, h, w}) y.push_back(n);
    return y;
  };
  const auto last = [](const Shape& s, int i) { return s[s.size() - i]; };
  Row shuffle{
      .name = "pixel_shuffle",
      .f = [](const Tensors& x) { return pixel_shuffle(x[0], 2); },
      .reference =
          [=](const Arrays& x) {
            const Shape& s = x[0].shape;
            return gathered(x[0], sizes(s, last(s, 3) / 4, 2 * last(s, 2), 2 * last(s, 1)),
                            [&](const Shape& at) {
                              const int64_t h = last(at, 2), w = last(at, 1);
                              return sizes(at, last(at, 3) * 4 + h % 2 * 2 + w % 2, h / 2, w / 2);
                            });
          },
      .samples = {{{4, 2, 3}}, {{2, 8, 1, 2}}, {{1, 2, 12, 3, 3}}, {{2, 0, 3, 2}}},
      .dtypes = everything(),
      .refusals =
          {refusal(
               "channels", {1, 7, 3, 3}, [](const Tensor& x) { return pixel_shuffle(x, 2); },
               "pixel_shuffle expects its input's 'channel' dimension to be divisible by the "
               "square of upscale_factor, but input.size(-3)=7 is not divisible by 4"),
           refusal(
               "rank", {3, 3}, [](const Tensor& x) { return pixel_shuffle(x, 2); },
               "pixel_shuffle expects input to have at least 3 dimensions, but got input with "
               "2 dimension(s)"),
           refusal(
               "factor", {1, 8, 3, 3}, [](const Tensor& x) { return pixel_shuffle(x, 0); },
               "pixel_shuffle expects a positive upscale_factor, but got 0")}};
  Row unshuffle{
      .name = "pixel_unshuffle",
      .f = [](const Tensors& x) { return pixel_unshuffle(x[0], 2); },
      .reference =
          [=](const Arrays& x) {
            const Shape& s = x[0].shape;
            return gathered(x[0], sizes(s, last(s, 3) * 4, last(s, 2) / 2, last(s, 1) / 2),
                            [&](const Shape& at) {
                              const int64_t c = last(at, 3), part = c % 4;
                              return sizes(at, c / 4, last(at, 2) * 2 + part / 2,
                                           last(at, 1) * 2 + part % 2);
                            });
          },
      .samples = {{{2, 2, 4}}, {{1, 3, 4, 2}}, {{0, 1, 2, 2}}},
      .dtypes = everything(),
      .refusals = {refusal(
                       "height", {1, 2, 3, 4},
                       [](const Tensor& x) { return pixel_unshuffle(x, 2); },
                       "pixel_unshuffle expects height to be divisible by downscale_factor, but "
                       "input.size(-2)=3 is not divisible by 2"),
                   refusal(
                       "width", {1, 2, 4, 3}, [](const Tensor& x) { return pixel_unshuffle(x, 2); },
                       "pixel_unshuffle expects width to be divisible by downscale_factor, but "
                       "input.size(-1)=3 is not divisible by 2")}};
  return {shuffle, unshuffle};
}

// --- sampling ---

// Returns the pixel position of a normalized coordinate among n pixels. GridPadding::kReflection
// mirrors it at the edges until it is inside.
double pixel_of(double at, int64_t n, const GridSampleOptions& o) {
  const double last = double(n - 1), low = o.align_corners ? 0 : -0.5, high = last - low;
  double p = o.align_corners ? (at + 1) / 2 * last : ((at + 1) * double(n) - 1) / 2;
  if (o.padding_mode == GridPadding::kZeros) return p;
  while (o.padding_mode == GridPadding::kReflection && (p < low || p > high)) {
    p = low == high ? low : p < low ? 2 * low - p : 2 * high - p;
  }
  return std::clamp(p, 0.0, last);
}

Array sampled(const Array& x, const Array& grid, const GridSampleOptions& o) {
  const Shape &s = x.shape, &g = grid.shape;
  Array y{{s[0], s[1], g[1], g[2]}, {}};
  for (int64_t i = 0; i < y.shape.numel(); ++i) {
    const Shape at = index_of(y.shape, i);
    const double px = pixel_of(value_at(grid, {at[0], at[2], at[3], 0}), s[3], o);
    const double py = pixel_of(value_at(grid, {at[0], at[2], at[3], 1}), s[2], o);
    double sum = 0;
    for (int64_t h = 0; h < s[2]; ++h) {
      for (int64_t w = 0; w < s[3]; ++w) {
        const double dy = std::abs(py - double(h)), dx = std::abs(px - double(w));
        double share = std::max(0.0, 1 - dy) * std::max(0.0, 1 - dx);
        if (o.mode == Interpolation::kNearest) {
          share = std::nearbyint(py) == double(h) && std::nearbyint(px) == double(w);
        }
        if (share > 0) sum += share * value_at(x, {at[0], at[1], h, w});
      }
    }
    y.v.push_back(sum);
  }
  return y;
}

std::vector<Row> sample_rows() {
  std::vector<Row> rows;
  for (const Interpolation mode : {Interpolation::kBilinear, Interpolation::kNearest}) {
    for (const GridPadding padding :
         {GridPadding::kZeros, GridPadding::kBorder, GridPadding::kReflection}) {
      for (const bool align : {false, true}) {
        const GridSampleOptions o{mode, padding, align};
        Row row{.name = "grid_sample",
                .variant = concat_to_string(mode, ", ", padding, align ? ", corners" : ""),
                .f = [o](const Tensors& x) { return grid_sample(x[0], x[1], o); },
                .reference = [o](const Arrays& x) { return sampled(x[0], x[1], o); },
                .samples = {{{1, 1, 3, 4}, {1, 2, 2, 2}},
                            {{2, 3, 5, 4}, {2, 3, 4, 2}},
                            {{1, 2, 1, 1}, {1, 2, 2, 2}},
                            {{0, 2, 3, 3}, {0, 2, 2, 2}},
                            {{1, 2, 3, 3}, {1, 0, 2, 2}}},
                .domains = {{-1, 1}, {-1.7, 1.7}},
                .dtypes = floating(),
                .tolerance = {.float32 = 1e-5, .float16 = 2e-3, .bfloat16 = 1.6e-2}};
        if (mode == Interpolation::kNearest) {  // the result is not differentiable by the grid
          row.domains[1] = {-1.7, 1.7, 1.0 / 16, kFloat64};  // exact in every dtype
          row.f = [o](const Tensors& x) { return grid_sample(x[0], x[1].to(x[0].dtype()), o); };
        }
        rows.push_back(row);
      }
    }
  }
  const auto refused = [](const char* what, Shape x, Shape grid, const char* text,
                          DType dtype = kFloat32) {
    return Refusal{what,
                   [=](Device d) {
                     return grid_sample(ones(x, {.device = d}),
                                        ones(grid, {.dtype = dtype, .device = d}));
                   },
                   text};
  };
  rows[0].refusals = {
      refused("grid", {1, 2, 3, 3}, {1, 2, 2, 3},
              "grid_sampler(): expected grid to have size 2 in last dimension, but got grid with "
              "sizes [1, 2, 2, 3]"),
      refused("batch", {1, 2, 3, 3}, {2, 2, 2, 2},
              "grid_sampler(): expected grid and input to have same batch size, but got input with "
              "sizes [1, 2, 3, 3] and grid with sizes [2, 2, 2, 2]"),
      refused("rank", {1, 2, 3, 3}, {1, 2, 2},
              "grid_sampler(): expected 4D input and grid with same number of dimensions, but got "
              "input with sizes [1, 2, 3, 3] and grid with sizes [1, 2, 2]"),
      refused("dtype", {1, 2, 3, 3}, {1, 2, 2, 2}, "expected scalar type Float but found Double",
              kFloat64),
      refused("empty", {1, 2, 0, 3}, {1, 2, 2, 2},
              "grid_sampler(): expected input to have non-empty spatial dimensions, but input has "
              "sizes [1, 2, 0, 3] with dimension 2 being empty")};
  for (const bool align : {false, true}) {
    rows.push_back({.name = "affine_grid",
                    .variant = align ? "corners" : "",
                    .f =
                        [align](const Tensors& x) {
                          return affine_grid(x[0], {x[0].size(0), 2, 3, 4}, align);
                        },
                    .reference =
                        [align](const Arrays& x) {
                          Array y{{x[0].shape[0], 3, 4, 2}, {}};
                          for (int64_t i = 0; i < y.shape.numel(); ++i) {
                            const Shape at = index_of(y.shape, i);
                            const auto place = [&](int64_t k, double n) {
                              return align ? 2 * double(k) / (n - 1) - 1
                                           : (2 * double(k) + 1) / n - 1;
                            };
                            const double* t = x[0].v.data() + 6 * at[0] + 3 * at[3];
                            y.v.push_back(t[0] * place(at[2], 4) + t[1] * place(at[1], 3) + t[2]);
                          }
                          return y;
                        },
                    .samples = {{{1, 2, 3}}, {{3, 2, 3}}},
                    .dtypes = floating(),
                    .tolerance = {.float16 = 4e-3, .bfloat16 = 3e-2}});
  }
  const auto grid_of = [](const Shape& size) {
    return [=](const Tensor& theta) { return affine_grid(theta, size); };
  };
  rows[rows.size() - 2].refusals = {
      refusal("theta", {1, 2, 2}, grid_of({1, 1, 2, 2}),
              "Expected a batch of 2D affine matrices of shape Nx2x3 for size"),
      refusal("size", {1, 2, 3}, grid_of({1, 1, 2}), "affine_grid only supports 4D"),
      refusal("empty", {1, 2, 3}, grid_of({1, 1, 0, 2}),
              "Expected non-zero, positive output size. Got")};
  return rows;
}

}  // namespace

std::vector<Row> image_rows() {
  std::vector<Row> rows;
  for (auto family : {pad_rows, window_rows, shuffle_rows, sample_rows}) {
    for (Row& row : family()) rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace taper::v0::test
