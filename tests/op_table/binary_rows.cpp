#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "autograd/ops/binary_ops.h"
#include "tests/op_table/op_table.h"

namespace taper::v0::test {
namespace {

using Call = Tensor (*)(const Tensor&, const Tensor&);

// Equal shapes, and shapes broadcast on either side; 0-dim, empty and odd sizes.
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

const std::vector<std::vector<Shape>> kTriples = {
    {{}, {}, {}},        {{3}, {3}, {3}}, {{2, 3}, {3}, {2, 1}},    {{3, 1}, {4}, {}},
    {{}, {5}, {5}},      {{0}, {1}, {0}}, {{1025}, {1025}, {1025}}, {{2, 1, 4}, {3, 1}, {1, 4}},
    {{1025}, {}, {1025}}};

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

// Rows with bool results. Values are on a coarse grid, so that equal pairs occur.
Row predicate(const std::string& name, Call f, std::function<double(double, double)> reference) {
  Row r = row(name, f, std::move(reference), everything());
  r.domains = {{-2, 2, 1}};
  r.gives = Gives::kBoolean;
  r.derivative = Derivative::kNone;
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

// The domains of divisors exclude 0.
std::vector<Row> quotients() {
  Row product = row(
      "mul", mul, [](double a, double b) { return a * b; }, everything());
  Row quotient = row(
      "div", div, [](double a, double b) { return a / b; }, everything());
  quotient.domains = {{-3, 3}, {0.6, 3}};
  quotient.gives = Gives::kFloating;
  Row whole = row(
      "floor_divide", floor_divide, [](double a, double b) { return std::floor(a / b); },
      numbers());
  whole.domains = {{-9, 9}, {0.6, 3}};
  whole.derivative = Derivative::kNone;
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
  whole_power.derivative = Derivative::kNone;
  whole_power.specials = false;
  // Covers negative and zero bases, too.
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

// Quotients rounded down and toward zero. The gradient is 0.
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
       "'up' is not a valid value for rounding_mode, which is 'trunc' or 'floor'"});
  return {down, cut};
}

// One operand is a number, which does not promote a dtype of its own kind.
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
          "fmod", "number", [](const Tensor& x) { return fmod(x, 3); },
          [](double x) { return std::fmod(x, 3); }),
      with_number(
          "floor_divide", "number", [](const Tensor& x) { return floor_divide(x, 3); },
          [](double x) { return std::floor(x / 3); }),
  };
  rows[4].gives = Gives::kFloating;
  rows.back().derivative = Derivative::kNone;
  // Numbers that are not exact in float32 (2.1, 0.1), or whose logarithm is not (65).
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
  Row angle = with_number(
      "atan2", "number", [](const Tensor& x) { return atan2(x, 2); },
      [](double x) { return std::atan2(x, 2); });
  Row added = with_number(
      "logaddexp", "number", [](const Tensor& x) { return logaddexp(x, 1); },
      [](double x) { return std::log(std::exp(x) + std::exp(1)); });
  Row times = with_number(
      "xlogy", "number", [](const Tensor& x) { return xlogy(x, 3); },
      [](double x) { return x * std::log(3); });
  Row log = with_number(
      "xlogy", "number first", [](const Tensor& x) { return xlogy(3, x); },
      [](double x) { return 3 * std::log(x); });
  log.domains = {{0.6, 3}};
  for (Row* r : {&angle, &added, &times, &log}) {
    r->gives = Gives::kFloating;
    rows.push_back(*r);
  }
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
    r.gives = Gives::kBoolean;
    r.derivative = Derivative::kNone;
  }
  return rows;
}

Row where_row() {
  Row r{.name = "where",
        .f = [](const Tensors& x) { return where(x[0], x[1], x[2]); },
        .reference = of_triples([](double c, double a, double b) { return c != 0 ? a : b; }),
        .samples = kTriples,
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

// Two numbers: the dtype follows from them alone.
std::vector<Row> wheres_of_numbers() {
  std::vector<Row> rows;
  const auto add = [&](const char* variant, Scalar a, Scalar b, Gives gives) {
    rows.push_back({.name = "where",
                    .variant = variant,
                    .f = [=](const Tensors& x) { return where(x[0], a, b); },
                    .reference = of_each([=](double c) { return (c != 0 ? a : b).to_double(); }),
                    .samples = {{{}}, {{0}}, {{17}}, {{3, 5, 7}}},
                    .domains = {{0, 1, 1, kBool}},
                    .dtypes = {kFloat32},
                    .gives = gives,
                    .derivative = Derivative::kNone});
  };
  add("floats", 1.5, -2.5, Gives::kSame);
  add("integer and float", 3, 0.25, Gives::kSame);
  add("bool and float", true, 2.5, Gives::kSame);
  add("integers", 7, -1, Gives::kInt64);
  add("bool and integer", true, 2, Gives::kInt64);
  add("bools", false, true, Gives::kBoolean);
  rows[0].refusals = {
      {"condition", [](Device d) { return where(ones({2}, {.device = d}), 1.0, 2.0); },
       "where expected condition to be a boolean tensor, but got a tensor with dtype Float"}};
  return rows;
}

// Angles, and logarithms of sums and products.
std::vector<Row> of_two_floats() {
  Row cut = row(
      "fmod", fmod, [](double a, double b) { return std::fmod(a, b); }, numbers());
  cut.domains = {{-9, 9}, {0.6, 3}};
  cut.specials = false;
  cut.tolerance.gradient = 8;
  Row angle = row(
      "atan2", atan2, [](double y, double x) { return std::atan2(y, x); }, everything());
  Row added = row(
      "logaddexp", logaddexp,
      [](double a, double b) {
        return std::isinf(a) && a == b ? a
                                       : std::fmax(a, b) + std::log1p(std::exp(-std::abs(a - b)));
      },
      everything());
  Row product = row(
      "xlogy", xlogy,
      [](double a, double b) { return std::isnan(b) ? b
                                      : a == 0      ? 0
                                                    : a * std::log(b); },
      everything());
  product.domains = {{-2, 2}, {0.6, 3}};
  for (Row* r : {&angle, &added, &product}) r->gives = Gives::kFloating;
  return {cut, angle, added, product};
}

std::vector<Row> of_three() {
  Row between{.name = "lerp",
              .f = [](const Tensors& x) { return lerp(x[0], x[1], x[2]); },
              .reference = of_triples([](double a, double b, double w) { return a + w * (b - a); }),
              .samples = kTriples,
              .domains = {Domain(), Domain(), {-0.5, 1.5}},
              .dtypes = floating(),
              .tolerance = {.float16 = 3e-3, .bfloat16 = 2e-2}};
  between.refusals = {{"dtypes",
                       [](Device d) {
                         return lerp(ones({2}, {.device = d}),
                                     ones({2}, {.dtype = kFloat64, .device = d}), 0.5);
                       },
                       "expected dtype float for `end` but got dtype double"},
                      {"integers",
                       [](Device d) {
                         const Tensor x = ones({2}, {.dtype = kInt64, .device = d});
                         return lerp(x, x, 0.5);
                       },
                       "\"lerp_kernel\" not implemented for 'Long'"}};
  Row by_number = between;
  by_number.variant = "number";
  by_number.f = [](const Tensors& x) { return lerp(x[0], x[1], 0.3); };
  by_number.reference = of_pairs([](double a, double b) { return a + 0.3 * (b - a); });
  by_number.samples = kPairs;
  by_number.refusals.clear();
  Row product{.name = "addcmul",
              .f = [](const Tensors& x) { return addcmul(x[0], x[1], x[2], 3); },
              .reference = of_triples([](double x, double a, double b) { return x + 3 * a * b; }),
              .samples = kTriples,
              .dtypes = numbers()};
  Row quotient{.name = "addcdiv",
               .f = [](const Tensors& x) { return addcdiv(x[0], x[1], x[2], -2); },
               .reference = of_triples([](double x, double a, double b) { return x - 2 * a / b; }),
               .samples = kTriples,
               .domains = {Domain(), Domain(), {0.6, 3}},
               .dtypes = floating()};
  quotient.refusals = {{"integers",
                        [](Device d) {
                          const Tensor x = ones({2}, {.dtype = kInt64, .device = d});
                          return addcdiv(x, x, x);
                        },
                        "Integer division with addcdiv is no longer supported, and in a future  "
                        "release addcdiv will perform a true division of tensor1 and tensor2."}};
  return {between, by_number, product, quotient};
}

// One row for each dtype; other dtypes are refused.
std::vector<Row> bits() {
  struct Op {
    const char* name;
    Call f;
    Tensor (*by_five)(const Tensor&);
    int64_t (*of)(int64_t, int64_t);
  };
  const Op ops[] = {{"bitwise_and", bitwise_and, [](const Tensor& x) { return x & 5; },
                     [](int64_t a, int64_t b) { return a & b; }},
                    {"bitwise_or", bitwise_or, [](const Tensor& x) { return x | 5; },
                     [](int64_t a, int64_t b) { return a | b; }},
                    {"bitwise_xor", bitwise_xor, [](const Tensor& x) { return x ^ 5; },
                     [](int64_t a, int64_t b) { return a ^ b; }}};
  std::vector<Row> rows;
  for (const Op& op : ops) {
    const auto of = [f = op.of](double a, double b) { return double(f(int64_t(a), int64_t(b))); };
    for (const DType t : {kInt64, kInt32, kInt16, kInt8, kUInt8, kBool}) {
      Row r = row(op.name, op.f, of, {t});
      r.variant = name_of(t);
      r.domains = {{-100, 100, 1, t}};
      if (t == kBool) r.domains = {{0, 1, 1, t}};
      r.derivative = Derivative::kNone;
      r.specials = false;
      r.refusals.clear();
      rows.push_back(r);
      if (t == kBool) continue;
      r.variant += ", number";
      r.f = [f = op.by_five](const Tensors& x) { return f(x[0]); };
      r.reference = of_each([of](double x) { return of(x, 5); });
      r.samples = {{{}}, {{17, 3}}};
      rows.push_back(r);
    }
    rows[rows.size() - 2].refusals = {
        {"floats",
         [f = op.f](Device d) {
           const Tensor x = ones({2}, {.device = d});
           return f(x, x);
         },
         concat_to_string("\"", op.name, "_cpu\" not implemented for 'Float'"),
         concat_to_string("\"", op.name, "_cuda\" not implemented for 'Float'")}};
  }
  return rows;
}

// Comparisons that return one bool for all elements.
Row verdict(const std::string& name, bool (*f)(const Tensor&, const Tensor&),
            std::function<bool(double, double)> of) {
  Row r = predicate(name, eq, [](double, double) { return 0; });
  r.f = [f](const Tensors& x) {
    return full({}, f(x[0], x[1]), {.dtype = kBool, .device = x[0].device()});
  };
  r.reference = [of](const std::vector<Array>& x) {
    const Array each = of_pairs([&](double a, double b) { return double(of(a, b)); })(x);
    const bool all = std::ranges::all_of(each.v, [](double v) { return v != 0; });
    return Array{{}, {double(all)}};
  };
  r.samples = {{{}, {}}, {{3}, {3}}, {{0}, {0}}, {{1}, {1}}, {{17}, {17}}};
  r.domains = {{1, 1.3, 0.25}};
  r.refusals.clear();
  return r;
}

std::vector<Row> closeness() {
  Row each = predicate(
      "isclose", [](const Tensor& a, const Tensor& b) { return isclose(a, b, 0.5, 0.25); },
      [](double a, double b) { return a == b || std::abs(a - b) <= 0.25 + 0.5 * std::abs(b); });
  each.specials = false;  // infinities have no finite distance, but equal ones are close
  const auto negative = [](double rtol, double atol) {
    return [=](Device d) {
      const Tensor x = ones({2}, {.device = d});
      return isclose(x, x, rtol, atol);
    };
  };
  each.refusals.push_back(
      {"rtol", negative(-1, 0), "rtol must be greater than or equal to zero, but got -1"});
  each.refusals.push_back(
      {"atol", negative(0, -1), "atol must be greater than or equal to zero, but got -1"});
  each.refusals.push_back({"dtypes",
                           [](Device d) {
                             return isclose(ones({2}, {.device = d}),
                                            ones({2}, {.dtype = kFloat64, .device = d}));
                           },
                           "Float did not match Double"});
  Row nans = each;
  nans.variant = "nan, infinities";
  nans.f = [](const Tensors& x) { return isclose(x[0], x[1], 0.5, 0.25, true); };
  nans.reference = of_pairs([](double a, double b) {
    const bool near = std::isfinite(a - b) && std::abs(a - b) <= 0.25 + 0.5 * std::abs(b);
    return a == b || near || (std::isnan(a) && std::isnan(b));
  });
  nans.dtypes = floating();
  nans.specials = true;
  nans.refusals.clear();
  Row all = verdict(
      "allclose", [](const Tensor& a, const Tensor& b) { return allclose(a, b, 0, 0.1); },
      [](double a, double b) { return std::abs(a - b) <= 0.1; });
  Row same = verdict("equal", equal, [](double a, double b) { return a == b; });
  Row shapes = same;
  shapes.variant = "shapes";
  shapes.reference = [](const std::vector<Array>&) { return Array{{}, {0}}; };
  shapes.samples = {{{3}, {4}}, {{2, 1}, {2}}, {{}, {1}}};
  return {each, nans, all, same, shapes};
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
      "zero_outside", zero_outside, [](double a, double b) { return b != 0 ? a : 0; }, numbers());
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
       {sums(), quotients(), whole_quotients(), numbers_beside(), of_two_floats(), of_three(),
        bits(), closeness(), predicates(), comparisons_with_numbers(), selections(),
        std::vector<Row>{where_row()}, wheres_of_numbers()}) {
    rows.insert(rows.end(), part.begin(), part.end());
  }
  return rows;
}

}  // namespace taper::v0::test
