#include <cmath>
#include <functional>

#include <gtest/gtest.h>

#include "autograd/ops/matmul_ops.h"
#include "autograd/ops/shape_ops.h"
#include "framework/factory/factories.h"
#include "tests/op_table/op_table.h"
#include "tests/testing.h"

namespace taper::v0::test {
namespace {

// Products of up to 1025 terms of size 1.
const Tolerance kProducts{.float64 = 1e-11, .float32 = 3e-5, .float16 = 1e-2, .bfloat16 = 6e-2};

Array plus(const Array& a, const Array& b) {
  return of_pairs([](double x, double y) { return x + y; })({a, b});
}

Array transposed(const Array& x) {
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

std::vector<Row> vector_products() {
  Row floats = row("dot", [](const Tensors& x) { return dot(x[0], x[1]); },
                   {{{3}, {3}}, {{1}, {1}}, {{0}, {0}}, {{1025}, {1025}}});
  floats.reference = [](const std::vector<Array>& x) {
    Array y = matrix_product({{1, x[0].shape[0]}, x[0].v}, {{x[1].shape[0], 1}, x[1].v});
    y.shape = {};
    return y;
  };
  const auto bools = [](Tensor (*f)(const Tensor&, const Tensor&)) {
    return [f](Device d) {
      const Tensor x = ones({3}, {.dtype = kBool, .device = d});
      return f(x, x);
    };
  };
  floats.refusals = {
      {"rank", call(dot, {2, 2}, {2}), "1D tensors expected, but got 2D and 1D tensors"},
      {"sizes", call(dot, {2}, {3}),
       "inconsistent tensor size, expected tensor [2] and src [3] to have the same number of "
       "elements, but got 2 and 3 elements respectively"},
      {"dtypes", call(dot, {2}, {2}, kFloat64),
       "dot : expected both vectors to have same dtype, but found Float and Double"},
      {"bool", bools(dot), "\"dot\" not implemented for 'Bool'"}};
  Row integers = floats;
  integers.variant = "integers";
  integers.refusals.clear();
  integers.samples = {{{3}, {3}}, {{0}, {0}}, {{17}, {17}}};
  integers.domains = {{0, 2, 1}};
  integers.dtypes = {kInt64, kInt32, kInt16, kInt8, kUInt8};
  integers.derivative = Derivative::kNone;

  const auto crossed = [](int64_t dim) {
    return [dim](const std::vector<Array>& x) {
      const Shape shape = of_pairs([](double a, double) { return a; })(x).shape;
      const int d = wrap_dim(dim, shape.size());
      const auto shifted = [&](const Array& v, int64_t by) {
        return gathered(v, shape, [&, by](Shape at) {
          at[d] = (at[d] + by) % 3;
          for (int i = 0; i < at.size(); ++i) at[i] %= v.shape[i];
          return at;
        });
      };
      const Reference times = of_pairs([](double a, double b) { return a * b; });
      return of_pairs([](double a, double b) { return a - b; })(
          {times({shifted(x[0], 1), shifted(x[1], 2)}),
           times({shifted(x[0], 2), shifted(x[1], 1)})});
    };
  };
  Row last = row("cross", [](const Tensors& x) { return cross(x[0], x[1], -1); },
                 {{{3}, {3}},
                  {{2, 3}, {2, 3}},
                  {{4, 3}, {1, 3}},
                  {{0, 3}, {0, 3}},
                  {{5, 1, 3}, {1, 7, 3}},
                  {{350, 3}, {350, 3}}});
  last.variant = "last dimension";
  last.reference = crossed(-1);
  last.domains = {{-2, 2, 0.25}};
  last.dtypes = numbers();
  last.tolerance = {.float16 = 8e-3, .bfloat16 = 6e-2};
  Row first = last;
  first.variant = "";
  first.f = [](const Tensors& x) { return cross(x[0], x[1]); };
  first.reference = crossed(0);
  first.samples = {{{3}, {3}}, {{3, 4}, {3, 1}}, {{3, 3}, {3, 3}}};
  const auto crosses = [](Shape a, Shape b, std::optional<IntArg> dim, DType second = kFloat32) {
    return [=](Device d) {
      return cross(ones(a, {.device = d}), ones(b, {.dtype = second, .device = d}), dim);
    };
  };
  first.refusals = {
      {"no dimension", crosses({2, 2}, {2, 2}, {}), "no dimension of size 3 in input"},
      {"length", crosses({2, 2}, {2, 2}, 1),
       "linalg.cross: inputs dimension 1 must have length 3. Got 2 and 2"},
      {"length of the second", crosses({3, 3}, {1, 3}, {}),
       "linalg.cross: inputs dimension 0 must have length 3. Got 3 and 1"},
      {"ranks", crosses({2, 3}, {3}, {}),
       "linalg.cross: inputs must have the same number of dimensions."},
      {"dim", crosses({3}, {3}, 4), "Dimension out of range"},
      {"numbers", crosses({}, {}, 0), "Dimension specified as 0 but tensor has no dimensions"},
      {"sizes", crosses({2, 3}, {4, 3}, 1), "The size of tensor a (2) must match"},
      {"dtypes", crosses({3}, {3}, {}, kFloat64), "expected scalar type Float but found Double"},
      {"bool", bools([](const Tensor& a, const Tensor& b) { return cross(a, b); }),
       "\"cross\" not implemented for 'Bool'"}};
  return {floats, integers, last, first};
}

// Sums over the indices that the output omits, element by element. Sizes of 1 broadcast.
Array sum_of_products(const std::string& equation, const std::vector<Array>& x) {
  const size_t arrow = equation.find("->");
  const std::string output = equation.substr(arrow + 2);
  std::vector<std::string> terms = {""};
  std::string letters = output;
  for (const char c : equation.substr(0, arrow)) {
    if (c == ',') {
      terms.emplace_back();
      continue;
    }
    terms.back() += c;
    if (letters.find(c) == std::string::npos) letters += c;
  }
  Shape sizes;
  for (const char c : letters) {
    sizes.push_back(1);
    for (size_t i = 0; i < terms.size(); ++i) {
      const size_t d = terms[i].find(c);
      if (d != std::string::npos && x[i].shape[int(d)] != 1) {
        sizes[sizes.size() - 1] = x[i].shape[int(d)];
      }
    }
  }
  Array y{Shape(sizes.begin(), sizes.begin() + output.size()), {}};
  y.v.resize(size_t(y.shape.numel()));
  for (int64_t n = 0; n < sizes.numel(); ++n) {
    const Shape at = index_of(sizes, n);
    double product = 1;
    for (size_t i = 0; i < terms.size(); ++i) {
      Shape place = x[i].shape;
      for (int d = 0; d < place.size(); ++d) {
        place[d] = place[d] == 1 ? 0 : at[int(letters.find(terms[i][size_t(d)]))];
      }
      product *= x[i].v[size_t(flat_index(x[i].shape, place))];
    }
    y.v[size_t(flat_index(y.shape, Shape(at.begin(), at.begin() + output.size())))] += product;
  }
  return y;
}

struct Equation {
  const char *text, *in_full;
  std::vector<std::vector<Shape>> samples;
};
const Equation kEquations[] = {
    {"ij,jk->ik",
     "ij,jk->ik",
     {{{2, 3}, {3, 4}},
      {{0, 3}, {3, 2}},
      {{2, 0}, {0, 3}},
      {{1, 1}, {1, 1}},
      {{17, 5}, {5, 33}},
      {{2, 1}, {3, 4}},
      {{2, 3}, {1, 4}}}},
    {" i j , j k -> k i ", "ij,jk->ki", {{{2, 3}, {3, 4}}}},
    {"ij,jk", "ij,jk->ik", {{{2, 3}, {3, 4}}}},
    {"ba", "ba->ab", {{{2, 3}}}},
    {"aB", "aB->Ba", {{{2, 3}}}},
    {"ij->", "ij->", {{{2, 3}}, {{0, 3}}}},
    {"ij->j", "ij->j", {{{2, 3}}, {{0, 3}}}},
    {"ii", "ii->", {{{3, 3}}, {{1, 1}}}},
    {"iji->ji", "iji->ji", {{{3, 2, 3}}}},
    {"iiijj->ji", "iiijj->ji", {{{2, 2, 2, 3, 3}}}},
    {"", "->", {{{}}}},
    {",->", ",->", {{{}, {}}}},
    {"ij,", "ij,->ij", {{{2, 3}, {}}}},
    {"i,j", "i,j->ij", {{{2}, {3}}, {{0}, {3}}}},
    {"i,i", "i,i->", {{{5}, {5}}, {{1}, {4}}}},
    {"ij,ij->ij", "ij,ij->ij", {{{2, 3}, {2, 3}}, {{2, 1}, {1, 3}}}},
    {"ij,kl->i", "ij,kl->i", {{{2, 3}, {3, 2}}}},
    {"bij,bjk->bik",
     "bij,bjk->bik",
     {{{2, 3, 4}, {2, 4, 5}}, {{1, 3, 4}, {2, 4, 5}}, {{0, 2, 3}, {0, 3, 2}}}},
    {"bhid,bhjd->bhij", "bhid,bhjd->bhij", {{{2, 2, 3, 4}, {2, 2, 2, 4}}}},
    {"...ij,...jk", "abij,abjk->abik", {{{2, 1, 2, 3}, {1, 2, 3, 2}}}},
    {"i...j,j->...i", "iabj,j->abi", {{{2, 2, 3, 2}, {2}}}},
    {"...d,d->...", "abd,d->ab", {{{2, 3, 4}, {4}}}},
    {"...ij->ij", "abij->ij", {{{2, 2, 3, 2}}}},
    {"ij->ij...", "ij->ij", {{{2, 3}}}},
    {"bn,anm,bm->ba",
     "bn,anm,bm->ba",
     {{{2, 5}, {3, 5, 4}, {2, 4}}, {{17, 3}, {5, 3, 4}, {17, 4}}}},
    {"i,ij,jk,k", "i,ij,jk,k->", {{{2}, {2, 3}, {3, 2}, {2}}}}};

Tensor einsum_of(const char* equation, Device d, const std::vector<Shape>& shapes) {
  Tensors x;
  for (const Shape& shape : shapes) x.push_back(ones(shape, {.device = d}));
  return einsum(equation, x);
}

struct BadEquation {
  const char* text;
  std::vector<Shape> shapes;
  const char* message;
};
const BadEquation kBadEquations[] = {
    {"", {}, "einsum(): must specify the equation string and at least one operand"},
    {"ij,jk", {{2, 3}}, "einsum(): fewer operands were provided than specified in the equation"},
    {"ij",
     {{2, 3}, {3, 4}},
     "einsum(): more operands were provided than specified in the equation"},
    {"i1",
     {{2, 3}},
     "einsum(): invalid subscript given at index 1 in the equation string, subscripts "
     "must be in [a-zA-Z]"},
    {"ij->->", {{2, 3}}, "einsum(): invalid subscript given at index 4 in the equation string"},
    {"ij- >j", {{2, 3}}, "einsum(): invalid subscript given at index 2 in the equation string"},
    {"ij,jk->ik,",
     {{2, 3}, {3, 4}},
     "einsum(): invalid subscript given at index 9 in the equation"},
    {"i.j", {{2, 3}}, "einsum(): found '.' for operand 0 that is not part of any ellipsis"},
    {"......",
     {{2, 3}},
     "einsum(): found '.' for operand 0 for which an ellipsis was already found"},
    {"ij->i.", {{2, 3}}, "einsum(): found '.' for output that is not part of any ellipsis (...)"},
    {"ij->......",
     {{2, 3}},
     "einsum(): found '.' for output but an ellipsis (...) was already found"},
    {"i",
     {{2, 3}},
     "einsum(): the number of subscripts in the equation (1) does not match the number of "
     "dimensions (2) for operand 0 and no ellipsis was given"},
    {"ijk...",
     {{2, 3}},
     "einsum(): the number of subscripts in the equation (3) is more than the number "
     "of dimensions (2) for operand 0"},
    {"ij->ii", {{2, 3}}, "einsum(): output subscript i appears more than once in the output"},
    {"ij->ik",
     {{2, 3}},
     "einsum(): output subscript k does not appear in the equation for any input "
     "operand"},
    {"ii",
     {{2, 3}},
     "einsum(): subscript i is repeated for operand 0 but the sizes don't match, 3 != 2"},
    {"ij,jk",
     {{2, 3}, {2, 3}},
     "einsum(): subscript j has size 2 for operand 1 which does not broadcast "
     "with previously seen size 3"},
    {"...,...", {{2, 3}, {3, 4}}, "einsum(): dimension 0 covered by ellipsis in operand 1"}};

std::vector<Row> named_sums() {
  std::vector<Row> rows;
  for (const Equation& e : kEquations) {
    rows.push_back(row(
        "einsum", [&e](const Tensors& x) { return einsum(e.text, x); }, e.samples));
    rows.back().variant = concat_to_string("'", e.text, "'");
    rows.back().reference = [&e](const std::vector<Array>& x) {
      return sum_of_products(e.in_full, x);
    };
  }
  for (const BadEquation& bad : kBadEquations) {
    rows[0].refusals.push_back(
        {bad.text, [&bad](Device d) { return einsum_of(bad.text, d, bad.shapes); }, bad.message});
  }
  struct Pairs {
    const char *variant, *in_full;
    Tensor (*f)(const Tensor&, const Tensor&);
    std::vector<std::vector<Shape>> samples;
  };
  const Pairs pairs[] = {
      {"",
       "abc,bcd->ad",
       [](const Tensor& a, const Tensor& b) { return tensordot(a, b); },
       {{{2, 3, 4}, {3, 4, 2}}, {{0, 2, 1}, {2, 1, 3}}, {{17, 3, 5}, {3, 5, 7}}}},
      {"0 dims",
       "ab,c->abc",
       [](const Tensor& a, const Tensor& b) { return tensordot(a, b, 0); },
       {{{2, 3}, {4}}}},
      {"lists",
       "abcd,cea->bde",
       [](const Tensor& a, const Tensor& b) {
         return tensordot(a, b, {0, -2}, {2, 0});
       },
       {{{2, 3, 4, 2}, {4, 3, 2}}, {{2, 3, 1, 2}, {4, 3, 2}}}}};
  for (const Pairs& p : pairs) {
    rows.push_back(row(
        "tensordot", [f = p.f](const Tensors& x) { return f(x[0], x[1]); }, p.samples));
    rows.back().variant = p.variant;
    rows.back().reference = [in_full = std::string(p.in_full)](const std::vector<Array>& x) {
      return sum_of_products(in_full, x);
    };
  }
  const auto dot = [](auto... dims) {
    return [=](Device d) {
      return tensordot(ones({2, 3}, {.device = d}), ones({3, 4}, {.device = d}), dims...);
    };
  };
  rows.back().refusals = {
      {"negative", dot(int64_t(-1)), "tensordot expects dims >= 0, but got dims=-1"},
      {"too many", dot(int64_t(3)),
       "tensordot expects dims <= a.dim() and b.dim(), but got dims=3"},
      {"lengths", dot(Shape{0, 1}, Shape{0}), "both dimension lists should have same length"},
      {"sizes", dot(Shape{0}, Shape{0}),
       "contracted dimensions need to match, but first has size 2 in dim 0 and second has size 3 "
       "in "
       "dim 0"},
      {"twice", dot(Shape{1, -1}, Shape{0, 0}), "dim 1 appears multiple times in the list of dims"},
      {"dim", dot(Shape{2}, Shape{0}),
       "Dimension out of range (expected to be in range of [-2, 1], but got 2)"},
      {"dtypes",
       [](Device d) {
         return tensordot(ones({2}, {.device = d}), ones({2}, {.dtype = kFloat64, .device = d}), 1);
       },
       "both inputs should have same dtype"}};
  return rows;
}

TEST(Einsum, NamesMoreDimensionsThanATensorHas) {
  const Tensor a = reshape(arange(12, {.dtype = kFloat64}), {1, 2, 1, 2, 3});
  const Tensor b = reshape(arange(12, {.dtype = kFloat64}), {3, 1, 2, 1, 2});
  const Tensor y = mm(reshape(a, {4, 3}), reshape(b, {3, 4}));
  EXPECT_TRUE(
      close(einsum("abcde,efghi->abcdfghi", {a, b}), reshape(y, {1, 2, 1, 2, 1, 2, 1, 2}), 1e-12));
}

struct NamedActivation {
  const char* name;
  Activation activation;
  double (*f)(double);
};
constexpr NamedActivation kActivations[] = {
    {"relu", Activation::kRelu, [](double x) { return x > 0 ? x : 0; }},
    {"gelu", Activation::kGelu, [](double x) { return x * 0.5 * std::erfc(-x * std::sqrt(0.5)); }},
    {"gelu_tanh", Activation::kGeluTanh, [](double x) {
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

  Row of_batches = with_bias;
  of_batches.name = "baddbmm";
  of_batches.f = [](const Tensors& x) { return baddbmm(x[0], x[1], x[2], 0.5, -2); };
  of_batches.reference = scaled.reference;
  of_batches.samples = {{{2, 2, 4}, {2, 2, 3}, {2, 3, 4}},
                        {{4}, {2, 2, 3}, {2, 3, 4}},
                        {{}, {1, 1, 1}, {1, 1, 1}},
                        {{2, 1, 1}, {2, 3, 0}, {2, 0, 2}}};
  const auto batches = [](Shape bias, Shape a, Shape b, DType of_bias) {
    return [=](Device d) {
      return baddbmm(ones(bias, {.dtype = of_bias, .device = d}), ones(a, {.device = d}),
                     ones(b, {.device = d}));
    };
  };
  of_batches.refusals = {
      {"rank", batches({2}, {2, 2}, {2, 2, 2}, kFloat32), "batch1 must be a 3D tensor"},
      {"batches", batches({2}, {5, 2, 3}, {5, 2, 3}, kFloat32),
       "Expected size for first two dimensions of batch2 tensor to be: [5, 3] but got: [5, 2]."},
      {"bias", batches({7}, {5, 2, 3}, {5, 3, 4}, kFloat32),
       "The expanded size of the tensor (4) must match the existing size (7) at non-singleton "
       "dimension 2.  Target sizes: [5, 2, 4].  Tensor sizes: [7]"},
      {"dtype of the bias", batches({4}, {5, 2, 3}, {5, 3, 4}, kFloat64),
       "Input dtypes must be the same, got: input double, batch1: float, batch2: float"}};

  const std::vector<std::vector<Shape>> inputs = {
      {{2, 3}, {4, 3}, {4}},       {{3}, {2, 3}, {2}},         {{2, 3, 5}, {4, 5}, {4}},
      {{1, 1}, {1, 1}, {1}},       {{17, 33}, {3, 33}, {3}},   {{0, 3}, {2, 3}, {2}},
      {{3, 1025}, {5, 1025}, {5}}, {{2, 2, 2, 3}, {1, 3}, {1}}};
  Row full = row(
      "linear", [](const Tensors& x) { return linear(x[0], x[1], x[2]); }, inputs);
  full.reference = [](const std::vector<Array>& x) {
    return plus(matrix_product(x[0], transposed(x[1])), x[2]);
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
  bare.reference = [](const std::vector<Array>& x) {
    return matrix_product(x[0], transposed(x[1]));
  };
  bare.samples.clear();
  for (const auto& sample : inputs) bare.samples.push_back({sample[0], sample[1]});
  bare.refusals.clear();
  std::vector<Row> rows = {with_bias, scaled, of_batches, full, bare};
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
    Row two = full;
    two.name = "feed_forward";
    two.variant = name;
    two.f = [a = activation](const Tensors& x) {
      return feed_forward(x[0], x[1], x[2], x[3], x[4], a);
    };
    two.reference = [g = of_each(f), z = full.reference](const std::vector<Array>& x) {
      return z({g({z(x)}), x[3], x[4]});
    };
    two.samples = {{{2, 3}, {4, 3}, {4}, {2, 4}, {2}},
                   {{2, 3, 5}, {4, 5}, {4}, {5, 4}, {5}},
                   {{1, 1}, {1, 1}, {1}, {1, 1}, {1}},
                   {{0, 3}, {2, 3}, {2}, {3, 2}, {3}}};
    two.refusals = {{"shapes",
                     [a = activation](Device d) {
                       const Tensor x = ones({2, 4}, {.device = d});
                       return feed_forward(x, ones({1, 3}, {.device = d}), {}, x, {}, a);
                     },
                     "mat1 and mat2 shapes cannot be multiplied (2x4 and 3x1)"}};
    rows.push_back(two);
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
  for (Row& r : vector_products()) rows.push_back(std::move(r));
  for (Row& r : named_sums()) rows.push_back(std::move(r));
  for (Row& r : affine_maps()) rows.push_back(std::move(r));
  return rows;
}

}  // namespace taper::v0::test
