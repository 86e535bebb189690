#include <cmath>

#include "autograd/ops/matmul.h"
#include "framework/factories.h"
#include "tests/op_table/op_table.h"

namespace taper::inline v0::test {
namespace {

// Products of up to 1025 terms of size 1.
const Tolerance kProducts{.float64 = 1e-11, .float32 = 3e-5, .float16 = 1e-2, .bfloat16 = 6e-2};

Array plus(const Array& a, const Array& b) {
  return of_pairs([](double x, double y) { return x + y; })({a, b});
}

Array turned(const Array& x) {
  return gathered(x, {x.shape[1], x.shape[0]}, [](const Shape& at) { return Shape{at[1], at[0]}; });
}

Row row(const std::string& name, Function f, std::vector<std::vector<Shape>> samples) {
  return {.name = name,
          .f = std::move(f),
          .reference = [](const std::vector<Array>& x) { return matrix_product(x[0], x[1]); },
          .samples = std::move(samples),
          .domains = {{-1, 1}},
          .dtypes = floating(),
          .tolerance = kProducts};
}

std::function<Tensor(Device)> call(Tensor (*f)(const Tensor&, const Tensor&), Shape a, Shape b,
                                   DType second = kFloat32) {
  return
      [=](Device d) { return f(ones(a, {.device = d}), ones(b, {.dtype = second, .device = d})); };
}

std::vector<Row> products() {
  Row matrices = row("mm", [](const Tensors& x) { return mm(x[0], x[1]); },
                     {{{2, 3}, {3, 4}},
                      {{1, 1}, {1, 1}},
                      {{17, 5}, {5, 3}},
                      {{3, 1025}, {1025, 2}},
                      {{1, 7}, {7, 1}},
                      {{0, 3}, {3, 2}},
                      {{2, 0}, {0, 3}}});
  matrices.refusals = {{"shapes", call(mm, {2, 3}, {4, 5}),
                        "mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)"},
                       {"dtypes", call(mm, {2, 3}, {3, 5}, kFloat64),
                        "expected m1 and m2 to have the same dtype, but got: float != double"},
                       {"rank", call(mm, {2, 2, 2}, {2, 2}), "self must be a matrix"},
                       {"rank of the second", call(mm, {2, 2}, {2}), "mat2 must be a matrix"}};
  Row batches = row("bmm", [](const Tensors& x) { return bmm(x[0], x[1]); },
                    {{{2, 3, 4}, {2, 4, 5}},
                     {{1, 1, 1}, {1, 1, 1}},
                     {{3, 1, 17}, {3, 17, 1}},
                     {{0, 2, 3}, {0, 3, 2}},
                     {{2, 3, 0}, {2, 0, 2}}});
  batches.refusals = {
      {"rank", call(bmm, {2, 2}, {2, 2, 2}), "batch1 must be a 3D tensor"},
      {"rank of the second", call(bmm, {2, 2, 2}, {2, 2}), "batch2 must be a 3D tensor"},
      {"batch", call(bmm, {2, 3, 4}, {3, 4, 5}),
       "Expected size for first two dimensions of batch2 tensor to be: [2, 4] but got: [3, 4]."}};
  Row any_rank = row("matmul", [](const Tensors& x) { return matmul(x[0], x[1]); },
                     {{{3}, {3}},
                      {{3}, {3, 2}},
                      {{2, 3}, {3}},
                      {{2, 3}, {3, 4}},
                      {{2, 3, 4}, {4}},
                      {{2, 3, 4}, {4, 2}},
                      {{3}, {2, 3, 4}},
                      {{2, 3}, {4, 3, 2}},
                      {{2, 2, 3}, {2, 3, 2}},
                      {{1, 2, 3}, {4, 3, 2}},
                      {{2, 1, 2, 3}, {3, 3, 2}},
                      {{0, 2, 3}, {3, 2}},
                      {{2, 3, 0}, {0, 2}},
                      {{2, 17}, {17, 3}}});
  any_rank.refusals = {
      {"0-dim", call(matmul, {}, {3}),
       "both arguments to matmul need to be at least 1D, but they are 0D and 1D"},
      {"shapes", call(matmul, {2, 3}, {4, 5}),
       "mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)"},
      {"vectors", call(matmul, {3}, {4}),
       "inconsistent tensor size, expected tensor [3] and src [4] to have the same "
       "number of elements, but got 3 and 4 elements respectively"},
      {"matrix and vector", call(matmul, {2, 3}, {4}),
       "size mismatch, got input (2), mat (2x3), vec (4)"},
      {"batch and vector", call(matmul, {2, 3, 4}, {5}),
       "size mismatch, got input (6), mat (6x4), vec (5)"},
      {"vector and matrix", call(matmul, {3}, {4, 2}),
       "mat1 and mat2 shapes cannot be multiplied (1x3 and 4x2)"},
      {"batch and matrix", call(matmul, {2, 3, 4}, {5, 6}),
       "mat1 and mat2 shapes cannot be multiplied (6x4 and 5x6)"},
      {"vector and batch", call(matmul, {3}, {2, 4, 5}),
       "Expected size for first two dimensions of batch2 tensor to be: [2, 3] but "
       "got: [2, 4]."},
      {"batch of batches", call(matmul, {2, 2, 3, 4}, {2, 5, 5}),
       "Expected size for first two dimensions of batch2 tensor to be: [4, 4] but "
       "got: [4, 5]."},
      {"batches", call(matmul, {2, 3, 4}, {3, 4, 5}),
       "The size of tensor a (2) must match the size of tensor b (3) at "
       "non-singleton dimension 0"}};
  Row pairs = row("outer", [](const Tensors& x) { return outer(x[0], x[1]); },
                  {{{3}, {4}}, {{1}, {1}}, {{0}, {3}}, {{17}, {65}}});
  pairs.dtypes = everything();
  pairs.reference = [](const std::vector<Array>& x) {
    return matrix_product({{x[0].shape[0], 1}, x[0].v}, {{1, x[1].shape[0]}, x[1].v});
  };
  pairs.domains = {{-2, 2}};
  pairs.refusals = {
      {"rank", call(outer, {2, 2}, {2}), "outer: Expected 1-D argument self, but got 2-D"},
      {"rank of the second", call(outer, {2}, {2, 2}),
       "outer: Expected 1-D argument vec2, but got 2-D"}};
  return {matrices, batches, any_rank, pairs};
}

struct NamedActivation {
  const char* name;
  Activation activation;
  double (*f)(double);
};
constexpr NamedActivation kActivations[] = {
    {"relu", Activation::relu, [](double x) { return x > 0 ? x : 0; }},
    {"gelu", Activation::gelu, [](double x) { return x * 0.5 * std::erfc(-x * std::sqrt(0.5)); }},
    {"gelu_tanh", Activation::gelu_tanh, [](double x) {
       return x / (1 + std::exp(-2 * std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
     }}};

std::vector<Row> affine_maps() {
  Row with_bias = row("addmm", [](const Tensors& x) { return addmm(x[0], x[1], x[2]); },
                      {{{4}, {2, 3}, {3, 4}},
                       {{2, 4}, {2, 3}, {3, 4}},
                       {{}, {1, 1}, {1, 1}},
                       {{3}, {17, 5}, {5, 3}}});
  with_bias.reference = [](const std::vector<Array>& x) {
    return plus(matrix_product(x[1], x[2]), x[0]);
  };
  with_bias.refusals = {{"rank",
                         [](Device d) {
                           return addmm(ones({2}, {.device = d}), ones({2}, {.device = d}),
                                        ones({2, 2}, {.device = d}));
                         },
                         "mat1 must be a matrix"},
                        {"bias",
                         [](Device d) {
                           return addmm(ones({3}, {.device = d}), ones({2, 3}, {.device = d}),
                                        ones({3, 4}, {.device = d}));
                         },
                         "The expanded size of the tensor (4) must match the existing size (3) at "
                         "non-singleton dimension 1.  Target sizes: [2, 4].  Tensor sizes: [3]"},
                        {"dtype of the bias",
                         [](Device d) {
                           return addmm(ones({4}, {.dtype = kFloat64, .device = d}),
                                        ones({2, 3}, {.device = d}), ones({3, 4}, {.device = d}));
                         },
                         "self and mat2 must have the same dtype, but got Double and Float"}};
  Row scaled = with_bias;
  scaled.variant = "beta and alpha";
  scaled.f = [](const Tensors& x) { return addmm(x[0], x[1], x[2], 0.5, -2); };
  scaled.reference = [](const std::vector<Array>& x) {
    return of_pairs([](double xy, double b) { return 0.5 * b - 2 * xy; })(
        {matrix_product(x[1], x[2]), x[0]});
  };
  scaled.refusals.clear();

  const std::vector<std::vector<Shape>> inputs = {
      {{2, 3}, {4, 3}, {4}},       {{3}, {2, 3}, {2}},         {{2, 3, 5}, {4, 5}, {4}},
      {{1, 1}, {1, 1}, {1}},       {{17, 33}, {3, 33}, {3}},   {{0, 3}, {2, 3}, {2}},
      {{3, 1025}, {5, 1025}, {5}}, {{2, 2, 2, 3}, {1, 3}, {1}}};
  Row full = row(
      "linear", [](const Tensors& x) { return linear(x[0], x[1], x[2]); }, inputs);
  full.reference = [](const std::vector<Array>& x) {
    return plus(matrix_product(x[0], turned(x[1])), x[2]);
  };
  full.refusals = {
      {"shapes",
       [](Device d) {
         return linear(ones({2, 4}, {.device = d}), ones({1, 3}, {.device = d}),
                       ones({1}, {.device = d}));
       },
       "mat1 and mat2 shapes cannot be multiplied (2x4 and 3x1)"},
      {"dtypes",
       [](Device d) {
         return linear(ones({2, 3}, {.device = d}), ones({1, 3}, {.dtype = kFloat64, .device = d}));
       },
       "expected m1 and m2 to have the same dtype, but got: float != double"},
      {"bias",
       [](Device d) {
         return linear(ones({2, 3}, {.device = d}), ones({4, 3}, {.device = d}),
                       ones({1}, {.device = d}));
       },
       "addmm: bias must be a float32 tensor of shape [4], got float32 [1]"}};
  Row bare = full;
  bare.variant = "without bias";
  bare.f = [](const Tensors& x) { return linear(x[0], x[1]); };
  bare.reference = [](const std::vector<Array>& x) { return matrix_product(x[0], turned(x[1])); };
  bare.samples.clear();
  for (const auto& sample : inputs) bare.samples.push_back({sample[0], sample[1]});
  bare.refusals.clear();
  std::vector<Row> rows = {with_bias, scaled, full, bare};
  for (const auto& [name, activation, f] : kActivations) {
    Row fused = full;
    fused.variant = name;
    fused.f = [a = activation](const Tensors& x) { return linear(x[0], x[1], x[2], a); };
    fused.reference = [g = of_each(f), z = full.reference](const std::vector<Array>& x) {
      return g({z(x)});
    };
    fused.refusals = {{"integers",
                       [a = activation](Device d) {
                         const Tensor x = ones({2, 2}, {.dtype = kInt64, .device = d});
                         return linear(x, x, {}, a);
                       },
                       "\"linear\" not implemented for 'Long'",
                       "\"addmm\" not implemented for 'Long'"}};
    rows.push_back(fused);
    fused.variant = std::string(name) + ", without bias";
    fused.f = [a = activation](const Tensors& x) { return linear(x[0], x[1], {}, a); };
    fused.reference = [g = of_each(f), z = bare.reference](const std::vector<Array>& x) {
      return g({z(x)});
    };
    fused.samples = bare.samples;
    fused.refusals.clear();
    rows.push_back(fused);
  }
  return rows;
}

}  // namespace

std::vector<Row> matmul_rows() {
  std::vector<Row> rows = products();
  for (Row& r : rows) {
    if (r.name != "matmul" && r.name != "mm") continue;
    r.bench = {{1024, 1024}, {1024, 1024}};
    r.flops = [](const std::vector<Shape>& s) { return 2.0 * double(s[0].numel() * s[1][1]); };
  }
  for (Row& r : affine_maps()) rows.push_back(std::move(r));
  return rows;
}

}  // namespace taper::inline v0::test
