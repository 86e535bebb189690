#include <cmath>

#include "autograd/ops/nn/conv_ops.h"
#include "framework/factory/factories.h"
#include "tests/op_table/op_table.h"

namespace taper::v0::test {
namespace {

Triple in_3d(int64_t depth, Pair p) { return {depth, p.h, p.w}; }
Conv3dOptions in_3d(const Conv2dOptions& o) {
  return {in_3d(1, o.stride), in_3d(0, o.padding), in_3d(1, o.dilation), o.groups};
}
ConvTranspose3dOptions in_3d(const ConvTranspose2dOptions& o) {
  return {in_3d(1, o.stride), in_3d(0, o.padding), in_3d(0, o.output_padding), o.groups,
          in_3d(1, o.dilation)};
}

// Returns the input that output `at` of a convolution with options o reads through kernel position
// `tap`.
Triple input_of(const Triple& at, const Triple& tap, const auto& o) {
  const auto of = [&](int64_t Triple::*side) {
    return at.*side * o.stride.*side - o.padding.*side + tap.*side * o.dilation.*side;
  };
  return {of(&Triple::d), of(&Triple::h), of(&Triple::w)};
}
bool is_inside(const Triple& t, const Shape& s) {
  const auto within = [](int64_t i, int64_t n) { return i >= 0 && i < n; };
  return within(t.d, s[2]) && within(t.h, s[3]) && within(t.w, s[4]);
}

// Computes a convolution with three spatial dimensions from its definition, one element of y at a
// time.
Array convolved(const Array& x, const Array& weight, const Conv3dOptions& o) {
  const Shape &s = x.shape, &k = weight.shape;
  const auto out = [&](int i, int64_t Triple::*side) {
    return (s[i] + 2 * (o.padding.*side) - o.dilation.*side * (k[i] - 1) - 1) / (o.stride.*side) +
           1;
  };
  Array y{{s[0], k[0], out(2, &Triple::d), out(3, &Triple::h), out(4, &Triple::w)}, {}};
  for (int64_t i = 0; i < y.shape.numel(); ++i) {
    const Shape at = index_of(y.shape, i);
    double sum = 0;
    for (int64_t j = 0; j < k[1] * k[2] * k[3] * k[4]; ++j) {
      const Shape tap = index_of({k[1], k[2], k[3], k[4]}, j);
      const Triple from = input_of({at[2], at[3], at[4]}, {tap[1], tap[2], tap[3]}, o);
      if (!is_inside(from, s)) continue;
      const int64_t c = at[1] / (k[0] / o.groups) * k[1] + tap[0];
      sum += x.v[size_t(flat_index(s, {at[0], c, from.d, from.h, from.w}))] *
             weight.v[size_t(flat_index(k, {at[1], tap[0], tap[1], tap[2], tap[3]}))];
    }
    y.v.push_back(sum);
  }
  return y;
}

// Applies f(images, weight) for any number of spatial dimensions, with or without a batch and a
// bias.
template <class F> Reference of_spatial(int dims, F f) {
  return [dims, f](const std::vector<Array>& given) {
    Array x = given[0], weight = given[1];
    const bool batched = x.shape.size() == dims + 2;
    if (!batched) x.shape.insert(0, 1);
    for (Array* a : {&x, &weight}) {
      while (a->shape.size() < 5) a->shape.insert(2, 1);
    }
    Array y = f(x, weight);
    const int64_t pixels = y.shape[2] * y.shape[3] * y.shape[4];
    for (size_t i = 0; given.size() > 2 && i < y.v.size(); ++i) {
      y.v[i] += given[2].v[i / size_t(pixels) % given[2].v.size()];
    }
    while (y.shape.size() > dims + 2) y.shape.erase(2);
    if (!batched) y.shape.erase(0);
    return y;
  };
}

Reference reference_of(int dims, const Conv3dOptions& o) {
  return of_spatial(dims, [o](const Array& x, const Array& w) { return convolved(x, w, o); });
}

Row row(const std::string& name, const std::string& variant, Function f, int dims,
        const Conv3dOptions& o, std::vector<std::vector<Shape>> samples) {
  return {.name = name,
          .variant = variant,
          .f = std::move(f),
          .reference = reference_of(dims, o),
          .samples = std::move(samples),
          .domains = {{-1, 1}},
          .dtypes = floating(),
          .tolerance = {.float64 = 1e-12, .float32 = 1e-5, .float16 = 5e-3, .bfloat16 = 4e-2}};
}

Row row_2d(const std::string& variant, const Conv2dOptions& o,
           std::vector<std::vector<Shape>> samples) {
  const auto f = [o](const Tensors& x) {
    return conv2d(x[0], x[1], x.size() > 2 ? x[2] : Tensor(), o);
  };
  return row("conv2d", variant, f, 2, in_3d(o), std::move(samples));
}

Row row_3d(const std::string& variant, const Conv3dOptions& o,
           std::vector<std::vector<Shape>> samples) {
  const auto f = [o](const Tensors& x) {
    return conv3d(x[0], x[1], x.size() > 2 ? x[2] : Tensor(), o);
  };
  return row("conv3d", variant, f, 3, o, std::move(samples));
}

Row row_1d(const std::string& variant, const Conv1dOptions& o,
           std::vector<std::vector<Shape>> samples) {
  const auto f = [o](const Tensors& x) {
    return conv1d(x[0], x[1], x.size() > 2 ? x[2] : Tensor(), o);
  };
  return row("conv1d", variant, f, 1,
             {{1, 1, o.stride}, {0, 0, o.padding.w}, {1, 1, o.dilation}, o.groups},
             std::move(samples));
}

Refusal refusal_2d(const std::string& what, Shape x, Shape weight, Conv2dOptions o,
                   const std::string& text) {
  return {
      what,
      [=](Device d) { return conv2d(ones(x, {.device = d}), ones(weight, {.device = d}), {}, o); },
      text};
}

Refusal refusal_1d(const std::string& what, Shape x, Shape weight, const std::string& text) {
  return {what,
          [=](Device d) { return conv1d(ones(x, {.device = d}), ones(weight, {.device = d})); },
          text};
}

Refusal wrong_operand(const std::string& what, DType x, DType weight, Shape bias, DType bias_dtype,
                      const std::string& text) {
  return {what,
          [=](Device d) {
            return conv2d(ones({1, 3, 5, 5}, {.dtype = x, .device = d}),
                          ones({2, 3, 3, 3}, {.dtype = weight, .device = d}),
                          ones(bias, {.dtype = bias_dtype, .device = d}));
          },
          text};
}

// Messages of PyTorch 2.11.
std::vector<Refusal> refusals_2d() {
  const Shape x = {1, 3, 5, 5}, w = {2, 3, 3, 3};
  return {
      refusal_2d("channels", {1, 4, 5, 5}, w, {},
                 "Given groups=1, weight of size [2, 3, 3, 3], expected input[1, 4, 5, 5] to have "
                 "3 channels, but got 4 channels instead"),
      refusal_2d("channels of groups", x, w, {.groups = 2},
                 "Given groups=2, weight of size [2, 3, 3, 3], expected input[1, 3, 5, 5] to have "
                 "6 channels, but got 3 channels instead"),
      refusal_2d("groups that do not divide", {1, 4, 5, 5}, {3, 2, 3, 3}, {.groups = 2},
                 "Given groups=2, expected weight to be divisible by 2 at dimension 0, but got "
                 "weight of size [3, 2, 3, 3] instead"),
      refusal_2d("no outputs", x, {0, 3, 3, 3}, {},
                 "Given groups=1, expected weight to be at least 1 at dimension 0, but got weight "
                 "of size [0, 3, 3, 3] instead"),
      refusal_2d("kernel", x, {2, 3, 7, 3}, {.padding = {0, 1}},
                 "Calculated padded input size per channel: (5 x 7). Kernel size: (7 x 3). Kernel "
                 "size can't be greater than actual input size"),
      refusal_2d("dilated kernel", x, w, {.dilation = 3},
                 "Calculated padded input size per channel: (5 x 5). Kernel size: (7 x 7). Kernel "
                 "size can't be greater than actual input size"),
      refusal_2d("empty kernel", x, {2, 3, 0, 3}, {}, "kernel size should be greater than zero"),
      refusal_2d("rank", {5, 5}, w, {},
                 "Expected 3D (unbatched) or 4D (batched) input to conv2d, but got input of size: "
                 "[5, 5]"),
      refusal_2d("rank of the weight", x, {3, 3, 3}, {},
                 "Expected 3-dimensional input for 3-dimensional weight [3, 3, 3], but got "
                 "4-dimensional input of size [1, 3, 5, 5] instead"),
      refusal_2d("same with a stride", x, w, {.stride = 2, .padding = "same"},
                 "padding \"same\" is not supported for strided convolutions"),
      {"padding by another name",
       [=](Device d) {
         return conv2d(ones(x, {.device = d}), ones(w, {.device = d}), {}, {.padding = "foo"});
       },
       "'foo' is not a valid value for padding, which is 'valid' or 'same'"},
      refusal_2d("groups", x, w, {.groups = 0}, "non-positive groups is not supported"),
      refusal_2d("stride", x, w, {.stride = {1, 0}}, "non-positive stride is not supported"),
      refusal_2d("padding", x, w, {.padding = -1}, "negative padding is not supported"),
      refusal_2d("dilation", x, w, {.dilation = 0}, "dilation should be greater than zero"),
      wrong_operand("bias", kFloat32, kFloat32, {3}, kFloat32,
                    "Given weight of size [2, 3, 3, 3], expected bias to be 1-dimensional with 2 "
                    "elements, but got bias of size [3] instead"),
      wrong_operand("dtype of the bias", kFloat32, kFloat32, {2}, kFloat64,
                    "Input type (float) and bias type (double) should be the same"),
      wrong_operand("dtype of the weight", kFloat16, kFloat32, {2}, kFloat16,
                    "Input type (c10::Half) and weight type (float) should be the same"),
      wrong_operand("integers", kInt64, kInt64, {2}, kInt64,
                    "\"conv2d\" not implemented for 'Long'")};
}

std::vector<Row> rows_2d() {
  Row plain = row_2d("", {},
                     {{{1, 1, 3, 3}, {1, 1, 2, 2}},
                      {{2, 2, 3, 4}, {3, 2, 2, 3}, {3}},
                      {{1, 3, 4, 4}, {2, 3, 1, 1}, {2}},
                      {{3, 17, 5, 7}, {19, 17, 3, 3}, {19}},
                      {{35, 2, 6, 5}, {33, 2, 5, 5}},
                      {{2, 64, 4, 4}, {16, 64, 3, 3}},
                      {{2, 20, 11, 10}, {12, 20, 3, 3}, {12}},
                      {{1, 36, 4, 5}, {68, 36, 2, 2}, {68}},
                      {{2, 4, 3}, {1, 2, 2, 3}, {1}},
                      {{0, 2, 4, 4}, {3, 2, 3, 3}, {3}},
                      {{2, 0, 4, 4}, {3, 0, 3, 3}, {3}}});
  plain.refusals = refusals_2d();
  const std::vector<std::vector<Shape>> wide = {{{1, 2, 5, 4}, {1, 2, 3, 2}, {1}},
                                                {{2, 3, 9, 11}, {4, 3, 3, 3}, {4}},
                                                {{1, 16, 8, 8}, {16, 16, 4, 3}}};
  return {plain,
          row_2d("stride", {.stride = {2, 3}}, wide),
          row_2d("padding", {.padding = {1, 2}}, wide),
          row_2d("dilation", {.dilation = {2, 1}}, wide),
          row_2d("stride, padding and dilation", {.stride = 2, .padding = {3, 1}, .dilation = 2},
                 {{{1, 2, 5, 5}, {2, 2, 2, 2}, {2}}, {{2, 3, 10, 9}, {5, 3, 3, 3}, {5}}}),
          row_2d("kernel wider than the input", {.padding = 3},
                 {{{1, 1, 2, 1}, {1, 1, 5, 4}}, {{2, 3, 3, 2}, {2, 3, 7, 7}, {2}}}),
          row_2d("groups", {.padding = 1, .groups = 2},
                 {{{1, 2, 3, 3}, {4, 1, 2, 2}, {4}},
                  {{2, 6, 5, 4}, {4, 3, 3, 3}, {4}},
                  {{1, 32, 5, 5}, {32, 16, 3, 3}}}),
          row_2d("depthwise", {.stride = {1, 2}, .padding = 1, .groups = 3},
                 {{{1, 3, 3, 4}, {3, 1, 3, 3}, {3}}, {{3, 3, 6, 7}, {6, 1, 3, 3}, {6}}})};
}

std::vector<Row> activated_rows() {
  struct Case {
    const char* name;
    Activation activation;
    double (*f)(double);
  };
  std::vector<Row> rows;
  for (const Case& c :
       {Case{"relu", Activation::kRelu, [](double x) { return x > 0 ? x : 0; }},
        Case{"gelu", Activation::kGelu,
             [](double x) { return x * 0.5 * std::erfc(-x * std::sqrt(0.5)); }},
        Case{"gelu_tanh", Activation::kGeluTanh, [](double x) {
               return x / (1 + std::exp(-2 * std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
             }}}) {
    const Conv2dOptions o = {.padding = {0, 1}};
    Row r = row_2d(c.name, o,
                   {{{2, 2, 3, 4}, {3, 2, 2, 3}, {3}},
                    {{2, 3, 4}, {4, 2, 2, 2}, {4}},
                    {{2, 3, 9, 7}, {8, 3, 3, 3}},
                    {{2, 16, 9, 7}, {20, 16, 3, 3}, {20}},
                    {{0, 2, 4, 4}, {3, 2, 3, 3}, {3}},
                    {{2, 0, 4, 4}, {3, 0, 3, 3}, {3}}});
    r.f = [o, a = c.activation](const Tensors& x) {
      return conv2d(x[0], x[1], x.size() > 2 ? x[2] : Tensor(), o, a);
    };
    r.reference = [f = of_each(c.f), z = r.reference](const std::vector<Array>& x) {
      return f({z(x)});
    };
    rows.push_back(std::move(r));
  }
  return rows;
}

std::vector<Row> rows_1d() {
  Row plain = row_1d("", {},
                     {{{1, 1, 4}, {1, 1, 3}},
                      {{2, 3, 7}, {4, 3, 2}, {4}},
                      {{3, 6}, {2, 3, 3}, {2}},
                      {{5, 16, 33}, {17, 16, 5}, {17}},
                      {{0, 2, 5}, {3, 2, 3}, {3}}});
  plain.refusals = {
      refusal_1d("channels", {1, 4, 5}, {2, 3, 3},
                 "Given groups=1, weight of size [2, 3, 3], expected input[1, 4, 5] to have 3 "
                 "channels, but got 4 channels instead"),
      refusal_1d("kernel", {1, 3, 5}, {2, 3, 7},
                 "Calculated padded input size per channel: (5). Kernel size: (7). Kernel size "
                 "can't be greater than actual input size"),
      refusal_1d("rank", {1, 1, 3, 5}, {2, 3, 3},
                 "Expected 2D (unbatched) or 3D (batched) input to conv1d, but got input of size: "
                 "[1, 1, 3, 5]"),
      refusal_1d("rank of the weight", {1, 3, 5}, {2, 3, 3, 3},
                 "Expected 4-dimensional input for 4-dimensional weight [2, 3, 3, 3], but got "
                 "3-dimensional input of size [1, 3, 5] instead")};
  return {plain, row_1d("all options", {.stride = 2, .padding = 2, .dilation = 2, .groups = 2},
                        {{{1, 2, 6}, {2, 1, 3}, {2}}, {{3, 4, 11}, {6, 2, 3}}})};
}

// --- padding="same": dilation * (kernel - 1) in total, an odd one at the end ---

std::vector<Row> same_rows() {
  struct Case {
    Pair kernel, dilation;
  };
  std::vector<Row> rows;
  for (const Case& c : {Case{{3, 3}, 1}, Case{{2, 4}, 1}, Case{{3, 2}, {2, 3}}}) {
    const Pair total(c.dilation.h * (c.kernel.h - 1), c.dilation.w * (c.kernel.w - 1));
    Row r = row_2d(concat_to_string("same, kernel ", c.kernel.h, "x", c.kernel.w),
                   {.padding = "same", .dilation = c.dilation},
                   {{{1, 2, 3, 4}, {2, 2, c.kernel.h, c.kernel.w}, {2}},
                    {{2, 5, 4}, {3, 2, c.kernel.h, c.kernel.w}}});
    r.samples[1][0] = {2, 5, 4};
    r.reference = [=,
                   o = in_3d(Conv2dOptions{.padding = {total.h, total.w}, .dilation = c.dilation})](
                      const std::vector<Array>& x) {
      // The fully padded result contains every position where kernel and input overlap. The "same"
      // result starts at half of the total padding.
      const Array y = reference_of(2, o)(x);
      Shape shape = y.shape;
      const int h = shape.size() - 2;
      shape[h] -= total.h;
      shape[h + 1] -= total.w;
      return gathered(y, shape, [&](Shape at) {
        at[h] += total.h - total.h / 2;
        at[h + 1] += total.w - total.w / 2;
        return at;
      });
    };
    rows.push_back(std::move(r));
  }
  // The total is 1, 2 and 3, of which the input of the reference has the larger half on both sides.
  Row deep = row_3d("same, kernel 2x3x4", {.padding = "same"},
                    {{{1, 2, 3, 2, 4}, {2, 2, 2, 3, 4}, {2}}, {{2, 4, 3, 5}, {3, 2, 2, 3, 4}}});
  deep.reference = [](const std::vector<Array>& x) {
    const Array y = reference_of(3, {.padding = {1, 1, 2}})(x);
    Shape shape = y.shape;
    shape[-3] -= 1;
    shape[-1] -= 1;
    return gathered(y, shape, [](Shape at) {
      at[-3] += 1;
      at[-1] += 1;
      return at;
    });
  };
  rows.push_back(std::move(deep));
  rows.push_back(row_2d("valid", {.padding = "valid"}, {{{1, 2, 3, 4}, {2, 2, 2, 2}, {2}}}));
  rows.push_back(row_1d("same", {.padding = "same"}, {{{2, 2, 5}, {3, 2, 3}, {3}}}));
  rows.back().reference = reference_of(1, {.padding = {0, 0, 1}});
  return rows;
}

// --- transposed ---

// Each element of x adds its contribution to all outputs that its kernel covers.
Array spread(const Array& x, const Array& weight, const ConvTranspose3dOptions& o) {
  const Shape &s = x.shape, &k = weight.shape;
  const auto out = [&](int i, int64_t Triple::*side) {
    return (s[i] - 1) * (o.stride.*side) - 2 * (o.padding.*side) + o.dilation.*side * (k[i] - 1) +
           o.output_padding.*side + 1;
  };
  Array y{{s[0], k[1] * o.groups, out(2, &Triple::d), out(3, &Triple::h), out(4, &Triple::w)}, {}};
  y.v.resize(size_t(y.shape.numel()), 0);
  for (int64_t i = 0; i < s.numel(); ++i) {
    const Shape at = index_of(s, i);
    for (int64_t j = 0; j < k[1] * k[2] * k[3] * k[4]; ++j) {
      const Shape tap = index_of({k[1], k[2], k[3], k[4]}, j);
      const Triple to = input_of({at[2], at[3], at[4]}, {tap[1], tap[2], tap[3]}, o);
      if (!is_inside(to, y.shape)) continue;
      const int64_t c = at[1] / (s[1] / o.groups) * k[1] + tap[0];
      y.v[size_t(flat_index(y.shape, {at[0], c, to.d, to.h, to.w}))] +=
          x.v[size_t(i)] * weight.v[size_t(flat_index(k, {at[1], tap[0], tap[1], tap[2], tap[3]}))];
    }
  }
  return y;
}

Row transposed_row(const std::string& name, const std::string& variant, Function f, int dims,
                   const ConvTranspose3dOptions& o, std::vector<std::vector<Shape>> samples) {
  Row r = row(name, variant, std::move(f), dims, {}, std::move(samples));
  r.reference = of_spatial(dims, [o](const Array& x, const Array& w) { return spread(x, w, o); });
  return r;
}

Row transposed_row(int dims, const std::string& variant, const ConvTranspose2dOptions& o,
                   std::vector<std::vector<Shape>> samples) {
  const auto f = [=](const Tensors& x) {
    const Tensor bias = x.size() > 2 ? x[2] : Tensor();
    if (dims == 2) return conv_transpose2d(x[0], x[1], bias, o);
    return conv_transpose1d(x[0], x[1], bias,
                            {o.stride.w, o.padding.w, o.output_padding.w, o.groups, o.dilation.w});
  };
  return transposed_row(dims == 1 ? "conv_transpose1d" : "conv_transpose2d", variant, f, dims,
                        in_3d(o), std::move(samples));
}

Row transposed_3d(const std::string& variant, const ConvTranspose3dOptions& o,
                  std::vector<std::vector<Shape>> samples) {
  const auto f = [=](const Tensors& x) {
    return conv_transpose3d(x[0], x[1], x.size() > 2 ? x[2] : Tensor(), o);
  };
  return transposed_row("conv_transpose3d", variant, f, 3, o, std::move(samples));
}

std::vector<Refusal> transposed_refusals() {
  const auto refused = [](const std::string& what, Shape x, Shape weight, ConvTranspose2dOptions o,
                          const std::string& text, Shape bias = {}) {
    return Refusal{what,
                   [=](Device d) {
                     return conv_transpose2d(ones(x, {.device = d}), ones(weight, {.device = d}),
                                             bias.empty() ? Tensor() : ones(bias, {.device = d}),
                                             o);
                   },
                   text};
  };
  const Shape x = {1, 4, 5, 5}, w = {4, 2, 3, 3};
  return {
      refused(
          "channels", {1, 3, 5, 5}, w, {},
          "Given transposed=1, weight of size [4, 2, 3, 3], expected input[1, 3, 5, 5] to have 4 "
          "channels, but got 3 channels instead"),
      refused("bias", x, w, {},
              "Given transposed=1, weight of size [4, 2, 3, 3], expected bias to be 1-dimensional "
              "with 2 elements, but got bias of size [3] instead",
              {3}),
      refused("output_padding", x, w, {.stride = 2, .output_padding = 2},
              "output padding must be smaller than either stride or dilation, but got "
              "output_padding_height: 2 output_padding_width: 2 stride_height: 2 stride_width: 2 "
              "dilation_height: 1 dilation_width: 1"),
      refused("negative", x, w, {.output_padding = -1}, "negative output_padding is not supported"),
      refused(
          "small", {1, 4, 1, 1}, w, {.padding = 2},
          "Given input size per channel: (1 x 1). Calculated output size per channel: (-1 x -1). "
          "Output size is too small"),
      refused("groups", x, w, {.groups = 3},
              "Given groups=3, expected weight to be divisible by 3 at dimension 0"),
      refused("rank", {1, 4}, w, {},
              "Expected 3D (unbatched) or 4D (batched) input to conv_transpose2d, but got input of "
              "size: [1, 4]"),
      refused(
          "empty", {1, 4, 0, 5}, w, {},
          "Only zero batch or zero channel inputs are supported, but got input shape: [1, 4, 0, "
          "5]"),
      refused("no outputs", x, {4, 0, 3, 3}, {},
              "non-empty 2D or 4D weight tensor expected, but got: [4, 0, 3, 3]"),
      refused("stride", x, w, {.stride = 0}, "non-positive stride is not supported"),
      refused("padding", x, w, {.padding = -1}, "negative padding is not supported"),
      refused("dilation", x, w, {.dilation = 0}, "dilation should be greater than zero")};
}

std::vector<Row> transposed_rows() {
  std::vector<Row> rows = {
      transposed_row(2, "", {},
                     {{{1, 1, 2, 2}, {1, 1, 2, 2}},
                      {{2, 2, 3, 2}, {2, 3, 2, 3}, {3}},
                      {{2, 3, 3}, {2, 1, 2, 2}, {1}},
                      {{3, 17, 5, 4}, {17, 19, 3, 3}, {19}},
                      {{2, 16, 6, 5}, {16, 32, 3, 3}},
                      {{0, 2, 3, 3}, {2, 3, 2, 2}, {3}}}),
      transposed_row(2, "stride, padding and output_padding",
                     {.stride = {2, 3}, .padding = {1, 0}, .output_padding = {1, 2}},
                     {{{1, 2, 3, 2}, {2, 2, 3, 2}, {2}}, {{2, 16, 4, 4}, {16, 8, 4, 4}, {8}}}),
      transposed_row(2, "groups and dilation", {.padding = 1, .groups = 2, .dilation = {1, 2}},
                     {{{1, 2, 3, 3}, {2, 2, 2, 2}, {4}}, {{2, 6, 5, 4}, {6, 2, 3, 3}, {4}}}),
      transposed_row(2, "output_padding beyond the stride",
                     {.padding = 1, .output_padding = {2, 1}, .dilation = 3},
                     {{{1, 2, 2, 3}, {2, 1, 2, 2}, {1}}}),
      transposed_row(1, "", {},
                     {{{1, 1, 3}, {1, 1, 2}}, {{2, 3, 4}, {3, 2, 3}, {2}}, {{3, 5}, {3, 2, 2}}}),
      transposed_row(1, "all options",
                     {.stride = {1, 2},
                      .padding = {0, 1},
                      .output_padding = {0, 1},
                      .groups = 2,
                      .dilation = {1, 2}},
                     {{{1, 2, 4}, {2, 1, 3}, {2}}, {{2, 4, 5}, {4, 3, 2}}})};
  rows[0].refusals = transposed_refusals();
  rows[4].refusals = {
      {"rank of the weight",
       [](Device d) {
         return conv_transpose1d(ones({1, 4, 3}, {.device = d}), ones({4, 2, 3, 3}, {.device = d}));
       },
       "Expected 4-dimensional input for 4-dimensional weight [4, 2, 3, 3], but got "
       "3-dimensional input of size [1, 4, 3] instead"}};
  return rows;
}

// --- three dimensions ---

Refusal refusal_3d(const std::string& what, Shape x, Shape weight, Conv3dOptions o,
                   const std::string& text, Shape bias = {}) {
  return {what,
          [=](Device d) {
            return conv3d(ones(x, {.device = d}), ones(weight, {.device = d}),
                          bias.empty() ? Tensor() : ones(bias, {.device = d}), o);
          },
          text};
}

// Messages of PyTorch 2.11.
std::vector<Refusal> refusals_3d() {
  const Shape x = {1, 3, 5, 5, 5}, w = {2, 3, 3, 3, 3};
  return {
      refusal_3d("channels", {1, 4, 5, 5, 5}, w, {},
                 "Given groups=1, weight of size [2, 3, 3, 3, 3], expected input[1, 4, 5, 5, 5] to "
                 "have 3 channels, but got 4 channels instead"),
      refusal_3d("channels of groups", x, w, {.groups = 2},
                 "Given groups=2, weight of size [2, 3, 3, 3, 3], expected input[1, 3, 5, 5, 5] to "
                 "have 6 channels, but got 3 channels instead"),
      refusal_3d("kernel", x, {2, 3, 7, 3, 3}, {.padding = {0, 1, 0}},
                 "Calculated padded input size per channel: (5 x 7 x 5). Kernel size: (7 x 3 x 3). "
                 "Kernel size can't be greater than actual input size"),
      refusal_3d("dilated kernel", x, w, {.dilation = {3, 1, 1}},
                 "Calculated padded input size per channel: (5 x 5 x 5). Kernel size: (7 x 3 x 3). "
                 "Kernel size can't be greater than actual input size"),
      refusal_3d("empty kernel", x, {2, 3, 0, 3, 3}, {},
                 "kernel size should be greater than zero, but got (0 x 3 x 3)"),
      refusal_3d("rank", {5, 5}, w, {},
                 "Expected 4D (unbatched) or 5D (batched) input to conv3d, but got input of size: "
                 "[5, 5]"),
      refusal_3d("rank of the weight", x, {3, 3, 3, 3}, {},
                 "Expected 4-dimensional input for 4-dimensional weight [3, 3, 3, 3], but got "
                 "5-dimensional input of size [1, 3, 5, 5, 5] instead"),
      refusal_3d("same with a stride", x, w, {.stride = {2, 1, 1}, .padding = "same"},
                 "padding \"same\" is not supported for strided convolutions"),
      refusal_3d("stride", x, w, {.stride = {0, 1, 1}}, "non-positive stride is not supported"),
      refusal_3d("padding", x, w, {.padding = {-1, 0, 0}}, "negative padding is not supported"),
      refusal_3d("dilation", x, w, {.dilation = {0, 1, 1}}, "dilation should be greater than zero"),
      refusal_3d("bias", x, w, {},
                 "Given weight of size [2, 3, 3, 3, 3], expected bias to be 1-dimensional with 2 "
                 "elements, but got bias of size [3] instead",
                 {3})};
}

// Sizes at which a dimension is pointwise are computed as convolutions of fewer dimensions.
std::vector<Row> rows_3d() {
  Row plain = row_3d("", {},
                     {{{1, 1, 3, 2, 3}, {1, 1, 2, 2, 2}},
                      {{2, 2, 3, 4, 3}, {3, 2, 2, 3, 2}, {3}},
                      {{1, 3, 2, 3, 4}, {2, 3, 1, 1, 1}, {2}},
                      {{2, 2, 4, 3, 3}, {3, 2, 1, 2, 2}, {3}},
                      {{2, 2, 4, 3, 3}, {3, 2, 3, 1, 1}, {3}},
                      {{2, 2, 3, 4, 3}, {3, 2, 2, 1, 2}, {3}},
                      {{3, 17, 4, 5, 6}, {19, 17, 3, 3, 3}, {19}},
                      {{35, 2, 4, 3, 5}, {33, 2, 3, 2, 3}},
                      {{2, 32, 3, 4, 4}, {16, 32, 3, 3, 3}},
                      {{1, 20, 4, 4, 5}, {68, 20, 2, 2, 2}, {68}},
                      {{2, 4, 3, 3}, {1, 2, 2, 2, 3}, {1}},
                      {{0, 2, 4, 4, 4}, {3, 2, 3, 3, 3}, {3}},
                      {{2, 0, 4, 4, 4}, {3, 0, 3, 3, 3}, {3}}});
  plain.refusals = refusals_3d();
  const std::vector<std::vector<Shape>> wide = {{{1, 2, 4, 5, 4}, {1, 2, 2, 3, 2}, {1}},
                                                {{2, 3, 5, 7, 6}, {4, 3, 3, 3, 3}, {4}},
                                                {{1, 16, 5, 6, 6}, {16, 16, 3, 4, 3}}};
  Row relu = row_3d("relu", {.padding = {1, 0, 1}},
                    {{{2, 2, 3, 3, 4}, {3, 2, 2, 2, 3}, {3}},
                     {{2, 16, 4, 5, 3}, {20, 16, 3, 3, 3}, {20}},
                     {{0, 2, 4, 4, 4}, {3, 2, 3, 3, 3}, {3}},
                     {{2, 0, 4, 4, 4}, {3, 0, 3, 3, 3}, {3}}});
  relu.f = [](const Tensors& x) {
    return conv3d(x[0], x[1], x.size() > 2 ? x[2] : Tensor(), {.padding = {1, 0, 1}}, "relu");
  };
  relu.reference = [f = of_each([](double x) { return x > 0 ? x : 0; }),
                    z = relu.reference](const std::vector<Array>& x) { return f({z(x)}); };
  return {
      plain,
      row_3d("stride", {.stride = {2, 3, 1}}, wide),
      row_3d("stride of pointwise dimensions", {.stride = {2, 1, 1}},
             {{{2, 3, 4, 3, 5}, {4, 3, 1, 1, 1}, {4}}, {{1, 2, 5, 3, 3}, {3, 2, 1, 2, 2}}}),
      row_3d("padding", {.padding = {1, 2, 0}}, wide),
      row_3d("padding of a pointwise dimension", {.padding = {1, 0, 0}},
             {{{2, 3, 2, 3, 2}, {4, 3, 1, 2, 2}, {4}}}),
      row_3d("dilation", {.dilation = {2, 1, 1}}, wide),
      row_3d("stride, padding and dilation",
             {.stride = {1, 2, 2}, .padding = {2, 1, 3}, .dilation = {2, 1, 2}},
             {{{1, 2, 4, 3, 5}, {2, 2, 2, 2, 2}, {2}}, {{2, 3, 5, 6, 5}, {5, 3, 3, 3, 2}, {5}}}),
      row_3d("kernel wider than the input", {.padding = 2},
             {{{1, 1, 2, 1, 2}, {1, 1, 4, 3, 5}}, {{2, 3, 1, 3, 2}, {2, 3, 5, 5, 5}, {2}}}),
      row_3d("groups", {.padding = {0, 1, 1}, .groups = 2},
             {{{1, 2, 2, 3, 3}, {4, 1, 2, 2, 2}, {4}},
              {{2, 6, 3, 4, 3}, {4, 3, 2, 3, 3}, {4}},
              {{1, 32, 3, 4, 4}, {32, 16, 3, 3, 3}}}),
      row_3d("depthwise", {.stride = {1, 1, 2}, .padding = 1, .groups = 3},
             {{{1, 3, 2, 3, 4}, {3, 1, 3, 3, 3}, {3}}, {{3, 3, 4, 5, 4}, {6, 1, 3, 3, 3}, {6}}}),
      row_3d("depthwise, planes apart",
             {.stride = {2, 1, 1}, .padding = 2, .dilation = {2, 1, 1}, .groups = 3},
             {{{2, 3, 6, 4, 5}, {3, 1, 3, 3, 3}, {3}}, {{1, 3, 2, 3, 3}, {3, 1, 2, 3, 3}}}),
      row_3d("valid", {.padding = "valid"}, {{{1, 2, 3, 3, 4}, {2, 2, 2, 2, 2}, {2}}}),
      relu};
}

std::vector<Refusal> transposed_refusals_3d() {
  const auto refused = [](const std::string& what, Shape x, Shape weight, ConvTranspose3dOptions o,
                          const std::string& text) {
    return Refusal{what,
                   [=](Device d) {
                     return conv_transpose3d(ones(x, {.device = d}), ones(weight, {.device = d}),
                                             {}, o);
                   },
                   text};
  };
  const Shape x = {1, 4, 5, 5, 5}, w = {4, 2, 3, 3, 3};
  return {
      refused("channels", {1, 3, 5, 5, 5}, w, {},
              "Given transposed=1, weight of size [4, 2, 3, 3, 3], expected input[1, 3, 5, 5, "
              "5] to have 4 channels, but got 3 channels instead"),
      refused("output_padding", x, w, {.stride = 2, .output_padding = {2, 0, 0}},
              "output padding must be smaller than either stride or dilation, but got "
              "output_padding_depth: 2 output_padding_height: 0 output_padding_width: 0 "
              "stride_depth: 2 stride_height: 2 stride_width: 2 dilation_depth: 1 "
              "dilation_height: 1 dilation_width: 1"),
      refused("negative", x, w, {.output_padding = {-1, 0, 0}},
              "negative output_padding is not supported"),
      refused("small", {1, 4, 1, 1, 1}, w, {.padding = {2, 0, 0}},
              "Given input size per channel: (1 x 1 x 1). Calculated output size per channel: "
              "(-1 x 3 x 3). Output size is too small"),
      refused("rank", {1, 4}, w, {},
              "Expected 4D (unbatched) or 5D (batched) input to conv_transpose3d, but got input "
              "of size: [1, 4]"),
      refused("empty", {1, 4, 0, 5, 5}, w, {},
              "Only zero batch or zero channel inputs are supported, but got input shape: [1, "
              "4, 0, 5, 5]"),
      refused("no outputs", x, {4, 0, 3, 3, 3}, {},
              "non-empty 5D weight tensor expected, but got: [4, 0, 3, 3, 3]"),
      refused("stride", x, w, {.stride = {0, 1, 1}}, "non-positive stride is not supported")};
}

std::vector<Row> transposed_rows_3d() {
  std::vector<Row> rows = {
      transposed_3d("", {},
                    {{{1, 1, 2, 2, 2}, {1, 1, 2, 2, 2}},
                     {{2, 2, 2, 3, 2}, {2, 3, 2, 2, 3}, {3}},
                     {{2, 2, 3, 3}, {2, 1, 2, 2, 2}, {1}},
                     {{2, 2, 3, 2, 2}, {2, 3, 1, 2, 2}, {3}},
                     {{3, 17, 3, 4, 3}, {17, 19, 3, 3, 3}, {19}},
                     {{2, 16, 3, 5, 4}, {16, 32, 3, 3, 3}},
                     {{0, 2, 3, 3, 3}, {2, 3, 2, 2, 2}, {3}}}),
      transposed_3d(
          "stride, padding and output_padding",
          {.stride = {2, 3, 2}, .padding = {1, 0, 1}, .output_padding = {1, 2, 0}},
          {{{1, 2, 2, 2, 3}, {2, 2, 3, 2, 2}, {2}}, {{2, 16, 3, 3, 3}, {16, 8, 4, 4, 3}, {8}}}),
      transposed_3d(
          "groups and dilation", {.padding = {1, 0, 1}, .groups = 2, .dilation = {1, 2, 1}},
          {{{1, 2, 2, 3, 2}, {2, 2, 2, 2, 2}, {4}}, {{2, 6, 3, 4, 3}, {6, 2, 3, 2, 3}, {4}}}),
      transposed_3d("output_padding beyond the stride",
                    {.padding = 1, .output_padding = {2, 1, 0}, .dilation = 3},
                    {{{1, 2, 2, 2, 3}, {2, 1, 2, 2, 2}, {1}}})};
  rows[0].refusals = transposed_refusals_3d();
  return rows;
}

// Sets the arguments of a benchmark of a convolution without padding.
void set_bench(Row& row, const std::vector<Shape>& shapes) {
  row.bench = shapes;
  row.flops = [](const std::vector<Shape>& s) {
    int64_t pixels = 1;
    for (int d = 2; d < s[0].size(); ++d) pixels *= s[0][d] - s[1][d] + 1;
    return 2.0 * double(s[0][0] * pixels * s[1].numel());
  };
}

}  // namespace

std::vector<Row> conv_rows() {
  std::vector<Row> rows = rows_2d(), volumes = rows_3d();
  set_bench(rows[0], {{32, 64, 28, 28}, {64, 64, 3, 3}, {64}});
  set_bench(volumes[0], {{4, 32, 16, 28, 28}, {32, 32, 3, 3, 3}, {32}});
  for (Row& r : volumes) rows.push_back(std::move(r));
  for (auto more : {activated_rows, rows_1d, same_rows, transposed_rows, transposed_rows_3d}) {
    for (Row& r : more()) rows.push_back(std::move(r));
  }
  return rows;
}

}  // namespace taper::v0::test
