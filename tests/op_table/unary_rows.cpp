#include <cmath>
#include <functional>

#include "autograd/ops/binary_ops.h"
#include "autograd/ops/unary_ops.h"
#include "framework/factory/factories.h"
#include "tests/op_table/op_table.h"

namespace taper::v0::test {
namespace {

using Call = Tensor (*)(const Tensor&);

// 0-dim, empty, and odd sizes below and above the width of a vector and the elements per thread.
const std::vector<std::vector<Shape>> kShapes = {{{}},  {{0}},  {{2, 0, 3}}, {{1}},
                                                 {{3}}, {{17}}, {{1025}},    {{3, 5, 7}}};

Row row(const std::string& name, Call f, std::function<double(double)> reference) {
  return {.name = name,
          .f = [f](const Tensors& x) { return f(x[0]); },
          .reference = of_each(std::move(reference)),
          .samples = kShapes,
          .dtypes = floating(),
          .specials = true};
}

// The result has the dtype of integer arguments.
Row exact(const std::string& name, Call f, std::function<double(double)> reference) {
  Row r = row(name, f, std::move(reference));
  r.dtypes = numbers();
  return r;
}

// The result is float32 for integers and bool.
Row smooth(const std::string& name, Call f, std::function<double(double)> reference,
           Domain domain = {}) {
  Row r = row(name, f, std::move(reference));
  r.dtypes = everything();
  r.gives = Gives::kFloating;
  r.domains = {domain};
  return r;
}

Row predicate(const std::string& name, Call f, std::function<double(double)> reference) {
  Row r = row(name, f, std::move(reference));
  r.dtypes = everything();
  r.gives = Gives::kBoolean;
  r.derivative = Derivative::kNone;
  return r;
}

Row with_refusal(Row r, Refusal refusal) {
  r.refusals.push_back(std::move(refusal));
  return r;
}

Row with_variant(Row r, const std::string& variant) {
  r.variant = variant;
  return r;
}

// For functions composed of two operators: accepts the dtypes that both accept.
Row exact_of_floats(const std::string& name, Call f, std::function<double(double)> reference) {
  Row r = smooth(name, f, std::move(reference));
  r.dtypes = numbers();
  return r;
}

double six(double x) { return x < 0 ? 0 : x > 6 ? 6 : x; }
double signum(double x) { return double(x > 0) - double(x < 0); }
double logistic(double x) { return 1 / (1 + std::exp(-x)); }
double gelu_by_erf(double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); }
double gelu_by_tanh(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}
double bent(double x, double beta, double threshold) {
  return x * beta > threshold ? x : std::log1p(std::exp(x * beta)) / beta;
}

// Uses only the recurrence, whatever the sign, and the first terms of the series.
double digamma_by_sums(double x) {
  if (x == 0) return std::copysign(INFINITY, -x);
  if (std::isinf(x) || (x < 0 && x == std::floor(x))) return x > 0 ? x : NAN;
  long double y = 0, w = x;
  for (; w < 100; w += 1) y -= 1 / w;
  const long double z = 1 / (w * w);
  return double(y + std::log(w) - 0.5L / w -
                z * (1.0L / 12 - z * (1.0L / 120 - z * (1.0L / 252 - z / 240))));
}

// Solves erf(y) = x by bisection in extended precision.
double erfinv_by_steps(double x) {
  if (std::abs(x) > 1 || std::isnan(x)) return NAN;
  if (std::abs(x) == 1) return std::copysign(INFINITY, x);
  const long double a = std::abs(x);
  long double y = 0, low = 0, high = 30;
  for (int i = 0; i < 200; ++i) {
    y = (low + high) / 2;
    ((a < 0.5L ? std::erf(y) < a : std::erfc(y) > 1 - a) ? low : high) = y;
  }
  // Bisection is exact to an absolute error only, which is too coarse near 0.
  return a < 1e-6L ? x * std::sqrt(M_PI) / 2 : std::copysign(double(y), x);
}

std::vector<Row> arithmetic() {
  const Domain positive{0.2, 3};
  return {
      with_refusal(exact("neg", neg, [](double x) { return -x; }),
                   {"bool", [](Device d) { return neg(ones({2}, {.dtype = kBool, .device = d})); },
                    "Negation, the `-` operator, on a bool tensor is not supported."}),
      exact("abs", abs, [](double x) { return std::abs(x); }),
      exact("sign", sign, signum),
      exact("square", square, [](double x) { return x * x; }),
      smooth(
          "sqrt", sqrt, [](double x) { return std::sqrt(x); }, positive),
      smooth(
          "rsqrt", rsqrt, [](double x) { return 1 / std::sqrt(x); }, positive),
      smooth(
          "reciprocal", reciprocal, [](double x) { return 1 / x; }, positive),
      smooth("exp", exp, [](double x) { return std::exp(x); }),
      smooth("expm1", expm1, [](double x) { return std::expm1(x); }),
      smooth(
          "log", log, [](double x) { return std::log(x); }, positive),
      smooth(
          "log2", log2, [](double x) { return std::log2(x); }, positive),
      smooth(
          "log10", log10, [](double x) { return std::log10(x); }, positive),
      smooth("exp2", exp2, [](double x) { return std::exp2(x); }),
      smooth("tan", tan, [](double x) { return std::tan(x); }, {-1.3, 1.3}),
      smooth("asin", asin, [](double x) { return std::asin(x); }, {-0.8, 0.8}),
      smooth("acos", acos, [](double x) { return std::acos(x); }, {-0.8, 0.8}),
      smooth("atan", atan, [](double x) { return std::atan(x); }),
      smooth("sinh", sinh, [](double x) { return std::sinh(x); }),
      smooth("cosh", cosh, [](double x) { return std::cosh(x); }),
      smooth("lgamma", lgamma, [](double x) { return std::lgamma(x); }, {0.3, 6}),
      with_variant(smooth("lgamma", lgamma, [](double x) { return std::lgamma(x); }, {-0.8, -0.2}),
                   "below 0"),
      smooth("digamma", digamma, digamma_by_sums, {0.6, 6}),
      with_variant(smooth("digamma", digamma, digamma_by_sums, {-0.7, -0.3}), "below 0"),
      smooth("log1p", log1p, [](double x) { return std::log1p(x); }, {-0.8, 3}),
      smooth("sin", sin, [](double x) { return std::sin(x); }, {-4, 4}),
      smooth("cos", cos, [](double x) { return std::cos(x); }, {-4, 4}),
      smooth("tanh", tanh, [](double x) { return std::tanh(x); }),
      smooth("sigmoid", sigmoid, logistic),
      smooth("erf", erf, [](double x) { return std::erf(x); }),
      smooth("erfinv", erfinv, erfinv_by_steps, {-0.9, 0.9}),
      with_variant(smooth("erfinv", erfinv, erfinv_by_steps, {0.9, 0.98}), "tail"),
      exact("floor", floor, [](double x) { return std::floor(x); }),
      exact("ceil", ceil, [](double x) { return std::ceil(x); }),
      exact("round", round, [](double x) { return std::nearbyint(x); }),
      exact("trunc", trunc, [](double x) { return std::trunc(x); }),
      smooth("frac", frac, [](double x) { return x - std::trunc(x); }),
      exact(
          "nan_to_num", [](const Tensor& x) { return nan_to_num(x, 0.5, 100, -200); },
          [](double x) { return std::isnan(x)   ? 0.5
                                : std::isinf(x) ? (x > 0 ? 100 : -200)
                                                : x; }),
  };
}

// Rounds multiples of one half, where round is not differentiable.
Row round_of_halves() {
  Row r = with_variant(exact("round", round, [](double x) { return std::nearbyint(x); }), "halves");
  r.domains = {{-4, 4, 0.5}};
  r.derivative = Derivative::kNone;
  return r;
}

Tensor steep_leaky_relu(const Tensor& x) { return leaky_relu(x, 0.3); }
Tensor tall_elu(const Tensor& x) { return elu(x, 1.7); }
Tensor gelu_erf(const Tensor& x) { return gelu(x); }
Tensor gelu_tanh(const Tensor& x) { return gelu(x, "tanh"); }
Tensor softplus_default(const Tensor& x) { return softplus(x); }
// The threshold is inside the domain, so that both branches run.
Tensor softplus_bent(const Tensor& x) { return softplus(x, 2.5, 3); }

std::vector<Row> clamps() {
  const auto between = [](double low, double high) {
    return [=](double x) { return x < low ? low : x > high ? high : x; };
  };
  const auto clamped = [](const std::string& variant, Call f, std::function<double(double)> g) {
    return with_variant(exact("clamp", f, std::move(g)), variant);
  };
  Row both = clamped(
      "", [](const Tensor& x) { return clamp(x, -1, 1); }, between(-1, 1));
  Row floats = clamped(
      "float bounds", [](const Tensor& x) { return clamp(x, -0.4, 1.4); }, between(-0.4, 1.4));
  floats.gives = Gives::kFloating;
  return {
      with_refusal(
          both, {"no bound", [](Device d) { return clamp(ones({2}, {.device = d}), std::nullopt); },
                 "taper::clamp: At least one of min or max must not be std::nullopt"}),
      floats,
      clamped(
          "min", [](const Tensor& x) { return clamp(x, -1); }, between(-1, INFINITY)),
      clamped(
          "max", [](const Tensor& x) { return clamp(x, {}, 1); }, between(-INFINITY, 1))};
}

// clamp_min and clamp_max, with a number and with a tensor.
std::vector<Row> one_sided_clamps() {
  const auto low = [](double a, double b) { return std::max(a, b); };
  const auto high = [](double a, double b) { return std::min(a, b); };
  std::vector<Row> rows;
  for (const bool is_min : {true, false}) {
    const std::string name = is_min ? "clamp_min" : "clamp_max";
    Row number = exact(name,
                       is_min ? Call([](const Tensor& x) { return clamp_min(x, 1); })
                              : Call([](const Tensor& x) { return clamp_max(x, 1); }),
                       [=](double x) {
                         return std::isnan(x) ? x : is_min ? low(x, 1) : high(x, 1);
                       });
    Row tensors{.name = name,
                .variant = "tensor",
                .f =
                    [=](const Tensors& x) {
                      return is_min ? clamp_min(x[0], x[1]) : clamp_max(x[0], x[1]);
                    },
                .reference = is_min ? of_pairs(low) : of_pairs(high),
                .samples = {{{}, {}}, {{17}, {17}}, {{2, 3}, {3}}, {{0}, {1}}},
                .dtypes = numbers()};
    rows.push_back(number);
    rows.push_back(tensors);
  }
  return rows;
}

std::vector<Row> activations() {
  return {
      exact("relu", relu, [](double x) { return x < 0 ? 0 : x; }),
      smooth("leaky_relu", steep_leaky_relu, [](double x) { return x > 0 ? x : 0.3 * x; }),
      smooth("elu", tall_elu, [](double x) { return x > 0 ? x : 1.7 * std::expm1(x); }),
      smooth("gelu", gelu_erf, gelu_by_erf),
      with_variant(smooth("gelu", gelu_tanh, gelu_by_tanh), "tanh"),
      smooth("silu", silu, [](double x) { return x * logistic(x); }),
      smooth("softplus", softplus_default, [](double x) { return bent(x, 1, 20); }),
      with_variant(smooth("softplus", softplus_bent, [](double x) { return bent(x, 2.5, 3); }),
                   "bent"),
      smooth("selu", selu,
             [](double x) {
               return 1.0507009873554804934 * (x > 0 ? x : 1.6732632423543772848 * std::expm1(x));
             }),
      with_refusal(smooth(
                       "celu", [](const Tensor& x) { return celu(x, 1.7); },
                       [](double x) { return x > 0 ? x : 1.7 * std::expm1(x / 1.7); }),
                   {"alpha", [](Device d) { return celu(ones({2}, {.device = d}), 0); },
                    "alpha cannot be 0 for CELU"}),
      smooth("hardsigmoid", hardsigmoid, [](double x) { return six(x + 3) / 6; }, {-5, 5}),
      smooth("hardswish", hardswish, [](double x) { return x * six(x + 3) / 6; }, {-5, 5}),
      smooth("mish", mish, [](double x) { return x * std::tanh(std::log1p(std::exp(x))); }),
      smooth("logsigmoid", logsigmoid,
             [](double x) { return std::min(x, 0.0) - std::log1p(std::exp(-std::abs(x))); }),
      smooth("softsign", softsign, [](double x) { return x / (1 + std::abs(x)); }),
      exact_of_floats("tanhshrink", tanhshrink, [](double x) { return x - std::tanh(x); }),
      smooth(
          "hardshrink", [](const Tensor& x) { return hardshrink(x); },
          [](double x) { return std::abs(x) <= 0.5 ? 0 : x; }),
      with_refusal(smooth(
                       "softshrink", [](const Tensor& x) { return softshrink(x); },
                       [](double x) { return std::abs(x) <= 0.5 ? 0 : x - std::copysign(0.5, x); }),
                   {"lambda", [](Device d) { return softshrink(ones({2}, {.device = d}), -1); },
                    "lambda must be in range [0, "}),
  };
}

Row glu_row(const std::string& variant, int64_t dim) {
  return {.name = "glu",
          .variant = variant,
          .f = [dim](const Tensors& x) { return glu(x[0], dim); },
          .reference =
              [dim](const std::vector<Array>& x) {
                const int64_t d = wrap_dim(dim, x[0].shape.size());
                Shape half = x[0].shape;
                half[int(d)] /= 2;
                const auto part = [&](int64_t start) {
                  return gathered(x[0], half, [=](Shape at) {
                    at[int(d)] += start;
                    return at;
                  });
                };
                return of_pairs([](double a, double b) { return a * logistic(b); })(
                    {part(0), part(half[int(d)])});
              },
          .samples = {{{2, 4}}, {{6, 2, 4}}, {{2, 0, 2}}, {{34, 66}}},
          .dtypes = floating()};
}

Row prelu_row() {
  Row r{.name = "prelu",
        .f = [](const Tensors& x) { return prelu(x[0], x[1]); },
        .reference =
            [](const std::vector<Array>& x) {
              Array y = x[0];
              for (size_t i = 0; i < y.v.size(); ++i) {
                const bool one = x[1].v.size() == 1;
                const size_t channel = one ? 0 : size_t(index_of(y.shape, int64_t(i))[1]);
                if (!(y.v[i] > 0)) y.v[i] *= x[1].v[channel];
              }
              return y;
            },
        .samples = {{{2, 3, 4}, {3}}, {{2, 3}, {1}}, {{5}, {}}, {{}, {1}}, {{0, 2}, {2}}},
        .domains = {{-2, 2}, {-1, 1}},
        .dtypes = floating()};
  const auto refusal = [](const char* what, Shape x, Tensor weight, const char* text) {
    return Refusal{what, [=](Device d) { return prelu(ones(x, {.device = d}), weight.to(d)); },
                   text};
  };
  r.refusals = {refusal("channels", {2, 3}, ones({2}),
                        "Mismatch of parameter numbers and input channel size. Found parameter "
                        "numbers = 2 and channel size = 3."),
                refusal("number", {}, ones({2}), "Not allow zero-dim input tensor."),
                refusal("matrix", {2, 2}, ones({1, 1}),
                        "prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = 2"),
                refusal("dtype", {2, 2}, ones({2}, {.dtype = kFloat64}),
                        "prelu: Type promoting not supported. Got Float and Double")};
  return r;
}

std::vector<Row> gates() {
  Row last = glu_row("", -1);
  last.refusals = {{"odd",
                    [](Device d) {
                      return glu(ones({3, 2}, {.device = d}), 0);
                    },
                    "Halving dimension must be even, but dimension 0 is size 3"},
                   {"number", [](Device d) { return glu(ones({}, {.device = d})); },
                    "glu does not support scalars because halving size must be even"}};
  Row first = glu_row("dim 0", 0);
  return {last, first, prelu_row()};
}

std::vector<Row> bounded() {
  Row six = exact("relu6", relu6, [](double x) { return x < 0 ? 0 : x > 6 ? 6 : x; });
  six.domains = {{-3, 9}};
  const auto hard = [](const Tensor& x) { return hardtanh(x, -0.4, 1.4); };
  Row between = row("hardtanh", hard, [](double x) { return x < -0.4 ? -0.4 : x > 1.4 ? 1.4 : x; });
  const auto of = [](DType t, double low, double high) {
    return [=](Device d) { return hardtanh(ones({2}, {.dtype = t, .device = d}), low, high); };
  };
  between.refusals = {{"bounds", of(kFloat32, 2, 1), "min_val cannot be greater than max_val"},
                      {"bool", of(kBool, 0, 1), "Bool inputs not supported for hardtanh"},
                      {"unsigned", of(kUInt8, -1, 1),
                       "cannot do hardtanh on an unsigned type with negative limits"},
                      {"too large for uint8", of(kUInt8, 0, 300),
                       "value cannot be converted to type uint8_t without overflow"},
                      {"too large for half", of(kFloat16, -1e6, 1e6),
                       "value cannot be converted to type c10::Half without overflow"}};
  // For integers, the fractions of the bounds are discarded.
  Row whole = with_variant(exact(
                               "hardtanh", [](const Tensor& x) { return hardtanh(x, -1.5, 2.5); },
                               [](double x) { return x < -1  ? -1
                                                     : x > 2 ? 2
                                                             : x; }),
                           "integers");
  whole.domains = {{-4, 4}};
  whole.dtypes = {kInt64, kInt32, kInt16, kInt8};
  whole.derivative = Derivative::kNone;
  return {six, between, whole};
}

// All three arguments are tensors. Either bound may be the larger one.
Row clamp_by_tensors() {
  return {.name = "clamp",
          .variant = "tensors",
          .f = [](const Tensors& x) { return clamp(x[0], x[1], x[2]); },
          .reference =
              [](const std::vector<Array>& x) {
                const Array above =
                    of_pairs([](double a, double b) { return std::max(a, b); })({x[0], x[1]});
                return of_pairs([](double a, double b) { return std::min(a, b); })({above, x[2]});
              },
          .samples = {{{}, {}, {}},
                      {{17}, {17}, {17}},
                      {{2, 3}, {3}, {2, 1}},
                      {{5}, {}, {2, 1}},
                      {{0}, {1}, {0}},
                      {{1025}, {1025}, {1}}},
          .domains = {{-2, 2}, {-1.3, 0.4}, {-0.6, 1.3}},
          .dtypes = numbers()};
}

// Only one bound is given.
std::vector<Row> half_clamps() {
  Row low = clamp_by_tensors(), high = low;
  low.variant = "tensor min";
  low.f = [](const Tensors& x) { return clamp(x[0], x[1]); };
  low.reference = of_pairs([](double a, double b) { return std::max(a, b); });
  high.variant = "tensor max";
  high.f = [](const Tensors& x) { return clamp(x[0], Tensor(), x[1]); };
  high.reference = of_pairs([](double a, double b) { return std::min(a, b); });
  for (Row* r : {&low, &high}) {
    r->samples = {{{}, {}}, {{17}, {17}}, {{2, 3}, {3}}, {{0}, {1}}};
    r->domains = {{-2, 2}};
  }
  return {clamp_by_tensors(), low, high};
}

// One row for each dtype; other dtypes are refused.
std::vector<Row> inversions() {
  std::vector<Row> rows;
  for (const DType t : {kInt64, kInt32, kInt16, kInt8, kUInt8, kBool}) {
    Row r = row("bitwise_not", bitwise_not,
                [t](double x) { return t == kBool ? double(x == 0) : double(~int64_t(x)); });
    r.variant = name_of(t);
    r.domains = {{-100, 100, 1, t}};
    if (t == kBool) r.domains = {{0, 1, 1, t}};
    r.dtypes = {t};
    r.derivative = Derivative::kNone;
    r.specials = false;
    rows.push_back(r);
  }
  rows[0].refusals = {{"floats", [](Device d) { return ~ones({2}, {.device = d}); },
                       "\"bitwise_not_cpu\" not implemented for 'Float'",
                       "\"bitwise_not_cuda\" not implemented for 'Float'"}};
  return rows;
}

std::vector<Row> predicates() {
  Row negation = predicate("logical_not", logical_not, [](double x) { return x == 0; });
  negation.domains = {{-1, 1, 1}};
  return {negation, predicate("isnan", isnan, [](double x) { return std::isnan(x); }),
          predicate("isinf", isinf, [](double x) { return std::isinf(x); }),
          predicate("isfinite", isfinite, [](double x) { return std::isfinite(x); })};
}

}  // namespace

std::vector<Row> unary_rows() {
  std::vector<Row> rows{round_of_halves()};
  for (const auto& part : {arithmetic(), activations(), clamps(), one_sided_clamps(), bounded(),
                           gates(), half_clamps(), inversions(), predicates()}) {
    rows.insert(rows.end(), part.begin(), part.end());
  }
  return rows;
}

}  // namespace taper::v0::test
