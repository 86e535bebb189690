#include <cmath>
#include <limits>

#include "autograd/ops/binary.h"
#include "tests/op_table/op_table.h"

namespace taper::inline v0::test {
namespace {

using Call = Tensor (*)(const Tensor&, const Tensor&);

// Equal and broadcast shapes on either side; 0-dim, empty and odd sizes.
const std::vector<std::vector<Shape>> kPairs = {{{}, {}},
                                                {{3}, {3}},
                                                {{2, 3}, {3}},
                                                {{2, 3, 4}, {3, 1}},
                                                {{2, 1, 4}, {3, 1}},
                                                {{1}, {4, 3}},
                                                {{}, {5}},
                                                {{5}, {}},
                                                {{0}, {1}},
                                                {{2, 0, 3}, {1, 3}},
                                                {{17}, {17}},
                                                {{1025}, {1025}},
                                                {{1025}, {1}},
                                                {{2, 1, 3, 1, 2}, {2, 3, 2, 2}}};

Refusal broadcast_refusal(Call f) {
  return {"shapes",
          [f](Device d) {
            return f(empty({2, 3}, {.device = d}), empty({2, 4}, {.device = d}));
          },
          "The size of tensor a (3) must match the size of tensor b (4) at non-singleton "
          "dimension 1"};
}

Row row(const std::string& name, Call f, std::function<double(double, double)> reference,
        std::vector<DType> dtypes) {
  return {.name = name,
          .f = [f](const Tensors& x) { return f(x[0], x[1]); },
          .reference = of_pairs(std::move(reference)),
          .samples = kPairs,
          .dtypes = std::move(dtypes),
          .specials = true,
          .refusals = {broadcast_refusal(f)}};
}

// Bool results; values on a coarse grid, so that equals are met.
Row predicate(const std::string& name, Call f, std::function<double(double, double)> reference) {
  Row r = row(name, f, std::move(reference), everything());
  r.domains = {{-2, 2, 1}};
  r.gives = Gives::boolean;
  r.derivative = Derivative::none;
  return r;
}

double larger(double a, double b) { return a > b || std::isnan(a) ? a : b; }
double smaller(double a, double b) { return a < b || std::isnan(a) ? a : b; }
double python_mod(double a, double b) {
  const double r = std::fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

Tensor plain_add(const Tensor& a, const Tensor& b) { return add(a, b); }
Tensor plain_sub(const Tensor& a, const Tensor& b) { return sub(a, b); }
Tensor scaled_add(const Tensor& a, const Tensor& b) { return add(a, b, -3); }
Tensor scaled_sub(const Tensor& a, const Tensor& b) { return sub(a, b, 2); }

std::vector<Row> sums() {
  Row with_alpha = row(
      "add", scaled_add, [](double a, double b) { return a - 3 * b; }, numbers());
  Row less_alpha = row(
      "sub", scaled_sub, [](double a, double b) { return a - 2 * b; }, floating());
  with_alpha.variant = "alpha";
  with_alpha.dtypes = {kFloat32, kFloat64, kFloat16, kBFloat16, kInt64, kInt32};
  less_alpha.variant = "alpha";
  Row minus = row("sub", plain_sub, [](double a, double b) { return a - b; },
                  {kFloat32, kFloat64, kFloat16, kBFloat16, kInt64, kInt32, kInt16, kInt8});
  minus.refusals.push_back(
      {"bool",
       [](Device d) {
         return sub(ones({2}, {.dtype = kBool, .device = d}),
                    ones({2}, {.dtype = kBool, .device = d}));
       },
       "Subtraction, the `-` operator, with two bool tensors is not supported."});
  minus.refusals.push_back(
      {"one bool",
       [](Device d) { return ones({2}, {.device = d}) - ones({2}, {.dtype = kBool, .device = d}); },
       "Subtraction, the `-` operator, with a bool tensor is not supported."});
  minus.refusals.push_back({"alpha",
                            [](Device d) {
                              const Tensor x = ones({2}, {.dtype = kInt64, .device = d});
                              return sub(x, x, 1.5);
                            },
                            "For integral input tensors, argument alpha must not be a floating "
                            "point number."});
  return {row(
              "add", plain_add, [](double a, double b) { return a + b; }, everything()),
          with_alpha, minus, less_alpha};
}

// Divisors keep away from 0.
std::vector<Row> quotients() {
  Row product = row(
      "mul", mul, [](double a, double b) { return a * b; }, everything());
  Row quotient = row(
      "div", div, [](double a, double b) { return a / b; }, everything());
  quotient.domains = {{-3, 3}, {0.6, 3}};
  quotient.gives = Gives::floating;
  Row whole = row(
      "floor_divide", floor_divide, [](double a, double b) { return std::floor(a / b); },
      numbers());
  whole.domains = {{-9, 9}, {0.6, 3}};
  whole.derivative = Derivative::none;
  whole.specials = false;
  Row rest = row("remainder", remainder, python_mod, numbers());
  rest.domains = {{-9, 9}, {0.6, 3}};
  rest.specials = false;
  rest.tolerance.gradient = 8;
  Row power = row(
      "pow", pow, [](double a, double b) { return std::pow(a, b); }, numbers());
  power.domains = {{0.6, 2.4}, {-2, 3}};
  power.dtypes = floating();
  power.tolerance.float32 = 4e-6;
  Row whole_power = power;
  whole_power.variant = "integers";
  whole_power.domains = {{-3, 3, 1}, {0, 3, 1}};
  whole_power.dtypes = {kInt64, kInt32};
  whole_power.derivative = Derivative::none;
  whole_power.specials = false;
  // Also of negative and zero bases.
  Row whole_exponent = power;
  whole_exponent.variant = "whole exponents";
  whole_exponent.domains = {{-2, 2, 1}, {1, 3, 1, kInt64}};
  whole_exponent.specials = false;
  power.refusals.push_back({"bool",
                            [](Device d) {
                              const Tensor x = ones({2}, {.dtype = kBool, .device = d});
                              return pow(x, x);
                            },
                            "\"pow\" not implemented for 'Bool'"});
  power.refusals.push_back(
      {"negative integer",
       [](Device d) { return pow(ones({2}, {.dtype = kInt64, .device = d}), -1); },
       "Integers to negative integer powers are not allowed."});
  return {product, quotient, whole, rest, power, whole_power, whole_exponent};
}

// Quotients rounded down and towards zero; the gradient is 0.
std::vector<Row> whole_quotients() {
  Row down = row(
      "div", [](const Tensor& a, const Tensor& b) { return div(a, b, "floor"); },
      [](double a, double b) { return std::floor(a / b); }, numbers());
  Row cut = row(
      "div", [](const Tensor& a, const Tensor& b) { return div(a, b, "trunc"); },
      [](double a, double b) { return std::trunc(a / b); }, numbers());
  down.variant = "floor";
  cut.variant = "trunc";
  for (Row* r : {&down, &cut}) {
    r->domains = {{-9, 9}, {0.6, 3}};
    r->specials = false;
  }
  cut.refusals.push_back(
      {"mode", [](Device d) { return div(ones({2}, {.device = d}), 2, "up"); },
       "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found 'up'"});
  return {down, cut};
}

// A number on one side: it raises no dtype of its own kind.
Row with_number(const std::string& name, const std::string& variant, Tensor (*f)(const Tensor&),
                std::function<double(double)> reference) {
  return {.name = name,
          .variant = variant,
          .f = [f](const Tensors& x) { return f(x[0]); },
          .reference = of_each(std::move(reference)),
          .samples = {{{}}, {{0}}, {{3}}, {{17, 3}}},
          .dtypes = numbers()};
}

std::vector<Row> numbers_beside() {
  std::vector<Row> rows = {
      with_number(
          "maximum", "number", [](const Tensor& x) { return maximum(x, 1); },
          [](double x) { return std::max(x, 1.0); }),
      with_number(
          "minimum", "number", [](const Tensor& x) { return minimum(x, 1); },
          [](double x) { return std::min(x, 1.0); }),
      with_number(
          "remainder", "number", [](const Tensor& x) { return remainder(x, 3); },
          [](double x) { return python_mod(x, 3); }),
      with_number(
          "pow", "number above", [](const Tensor& x) { return pow(x, 3); },
          [](double x) { return x * x * x; }),
      with_number(
          "pow", "number below", [](const Tensor& x) { return pow(2.5, x); },
          [](double x) { return std::pow(2.5, x); }),
      with_number(
          "where", "number", [](const Tensor& x) { return where(x > 0, x, 3); },
          [](double x) { return x > 0 ? x : 3; }),
      with_number(
          "where", "number first", [](const Tensor& x) { return where(x >= 1, 1, x); },
          [](double x) { return x >= 1 ? 1 : x; }),
      with_number(
          "floor_divide", "number", [](const Tensor& x) { return floor_divide(x, 3); },
          [](double x) { return std::floor(x / 3); }),
  };
  rows[4].gives = Gives::floating;
  rows.back().derivative = Derivative::none;
  // Numbers, and logarithms of numbers, that float32 cannot hold.
  Row fraction = with_number(
      "pow", "fraction above", [](const Tensor& x) { return pow(x, 2.1); },
      [](double x) { return std::pow(x, 2.1); });
  fraction.domains = {{0.2, 3}};
  Row whole = with_number(
      "pow", "integer below", [](const Tensor& x) { return pow(65, x); },
      [](double x) { return std::pow(65, x); });
  Row small = with_number(
      "pow", "fraction below", [](const Tensor& x) { return pow(0.1, x); },
      [](double x) { return std::pow(0.1, x); });
  Row down = with_number(
      "div", "floor, number", [](const Tensor& x) { return div(x, 3, "floor"); },
      [](double x) { return std::floor(x / 3); });
  Row cut = with_number(
      "div", "trunc, number", [](const Tensor& x) { return div(x, 3, "trunc"); },
      [](double x) { return std::trunc(x / 3); });
  for (Row* r : {&fraction, &whole, &small}) {
    r->dtypes = {kFloat32, kFloat64};
    r->tolerance.float32 = 1e-5;
    rows.push_back(*r);
  }
  for (Row* r : {&down, &cut}) {
    r->domains = {{-9, 9}};
    rows.push_back(*r);
  }
  return rows;
}

std::vector<Row> comparisons_with_numbers() {
  std::vector<Row> rows = {
      with_number(
          "eq", "number", [](const Tensor& x) { return eq(x, 1); },
          [](double x) { return double(x == 1); }),
      with_number(
          "ne", "number", [](const Tensor& x) { return ne(x, 1); },
          [](double x) { return double(x != 1); }),
      with_number(
          "lt", "number", [](const Tensor& x) { return x < 0.5; },
          [](double x) { return double(x < 0.5); }),
      with_number(
          "le", "number", [](const Tensor& x) { return x <= 1; },
          [](double x) { return double(x <= 1); }),
      with_number(
          "gt", "number", [](const Tensor& x) { return x > 0.5; },
          [](double x) { return double(x > 0.5); }),
      with_number(
          "ge", "number", [](const Tensor& x) { return x >= 1; },
          [](double x) { return double(x >= 1); }),
  };
  for (Row& r : rows) {
    r.domains = {{-2, 2, 1}};
    r.dtypes = everything();
    r.gives = Gives::boolean;
    r.derivative = Derivative::none;
  }
  return rows;
}

Row where_row() {
  // Each argument in the shape of all, then element by element.
  const Reference spread = of_pairs([](double, double b) { return b; });
  Row r{.name = "where",
        .f = [](const Tensors& x) { return where(x[0], x[1], x[2]); },
        .reference =
            [spread](const std::vector<Array>& x) {
              const Shape shape =
                  broadcast_shapes(broadcast_shapes(x[0].shape, x[1].shape), x[2].shape);
              const Array all{shape, std::vector<double>(size_t(shape.numel()))};
              const Array c = spread({all, x[0]}), a = spread({all, x[1]});
              Array y = spread({all, x[2]});
              for (size_t i = 0; i < y.v.size(); ++i) y.v[i] = c.v[i] != 0 ? a.v[i] : y.v[i];
              return y;
            },
        .samples = {{{}, {}, {}},
                    {{3}, {3}, {3}},
                    {{2, 3}, {3}, {2, 1}},
                    {{3, 1}, {4}, {}},
                    {{}, {5}, {5}},
                    {{0}, {1}, {0}},
                    {{1025}, {1025}, {1025}},
                    {{2, 1, 4}, {3, 1}, {1, 4}}},
        .domains = {{0, 1, 1, kBool}, Domain()},
        .dtypes = everything()};
  r.refusals = {
      {"condition",
       [](Device d) {
         const Tensor x = ones({2}, {.device = d});
         return where(x, x, x);
       },
       "where expected condition to be a boolean tensor, but got a tensor with dtype Float"},
      {"shapes",
       [](Device d) {
         return where(ones({2}, {.dtype = kBool, .device = d}), ones({3}, {.device = d}), 0);
       },
       "The size of tensor a (2) must match the size of tensor b (3) at non-singleton dimension "
       "0"}};
  return r;
}

std::vector<Row> predicates() {
  return {
      predicate("eq", eq, [](double a, double b) { return a == b; }),
      predicate("ne", ne, [](double a, double b) { return a != b; }),
      predicate("lt", lt, [](double a, double b) { return a < b; }),
      predicate("le", le, [](double a, double b) { return a <= b; }),
      predicate("gt", gt, [](double a, double b) { return a > b; }),
      predicate("ge", ge, [](double a, double b) { return a >= b; }),
      predicate("logical_and", logical_and, [](double a, double b) { return a != 0 && b != 0; }),
      predicate("logical_or", logical_or, [](double a, double b) { return a != 0 || b != 0; }),
      predicate("logical_xor", logical_xor,
                [](double a, double b) { return (a != 0) != (b != 0); }),
  };
}

std::vector<Row> selections() {
  Row most = row("maximum", maximum, larger, numbers());
  Row least = row("minimum", minimum, smaller, numbers());
  Row mask = row(
      "masked", masked, [](double a, double b) { return b != 0 ? a : 0; }, numbers());
  mask.domains = {{-2, 2}, {0, 1, 1, kBool}};
  mask.refusals.clear();
  mask.specials = false;
  Row summed{.name = "sum_to",
             .f = [](const Tensors& x) { return sum_to(x[0], x[1].shape()); },
             .reference =
                 [](const std::vector<Array>& x) {
                   Array y{x[1].shape, std::vector<double>(x[1].v.size())};
                   const Shape& full = x[0].shape;
                   for (size_t i = 0; i < x[0].v.size(); ++i) {
                     const Shape at = index_of(full, int64_t(i));
                     Shape to = y.shape;
                     for (int d = 0; d < to.size(); ++d) {
                       to[d] = to[d] == 1 ? 0 : at[full.size() - to.size() + d];
                     }
                     y.v[size_t(flat_index(y.shape, to))] += x[0].v[i];
                   }
                   return y;
                 },
             .samples = {{{2, 3, 4}, {3, 1}},
                         {{2, 3, 4}, {2, 3, 4}},
                         {{2, 3}, {}},
                         {{3, 5, 1}, {1, 5, 1}},
                         {{0, 3}, {1, 3}},
                         {{1, 1, 3}, {3}},
                         {{7, 1025}, {1025}}},
             .domains = {Domain(), {0, 1, 1, kBool}},
             .dtypes = floating(),
             .tolerance = {.float32 = 1e-5, .float16 = 4e-3, .bfloat16 = 3e-2}};
  return {most, least, mask, summed};
}

}  // namespace

std::vector<Row> binary_rows() {
  std::vector<Row> rows;
  for (const auto& part :
       {sums(), quotients(), whole_quotients(), numbers_beside(), predicates(),
        comparisons_with_numbers(), selections(), std::vector<Row>{where_row()}}) {
    rows.insert(rows.end(), part.begin(), part.end());
  }
  return rows;
}

}  // namespace taper::inline v0::test
