#include <cmath>

#include "autograd/ops/unary.h"
#include "framework/factories.h"
#include "tests/op_table/op_table.h"

namespace taper::inline v0::test {
namespace {

using Call = Tensor (*)(const Tensor&);

// 0-dim, empty, odd sizes below and above a vector's and a thread's share.
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

// Keeps the dtype of integers.
Row exact(const std::string& name, Call f, std::function<double(double)> reference) {
  Row r = row(name, f, std::move(reference));
  r.dtypes = numbers();
  return r;
}

// Gives float32 for integers and bool.
Row smooth(const std::string& name, Call f, std::function<double(double)> reference,
           Domain domain = {}) {
  Row r = row(name, f, std::move(reference));
  r.dtypes = everything();
  r.gives = Gives::floating;
  r.domains = {domain};
  return r;
}

Row predicate(const std::string& name, Call f, std::function<double(double)> reference) {
  Row r = row(name, f, std::move(reference));
  r.dtypes = everything();
  r.gives = Gives::boolean;
  r.derivative = Derivative::none;
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

double signum(double x) { return double(x > 0) - double(x < 0); }
double logistic(double x) { return 1 / (1 + std::exp(-x)); }
double gelu_by_erf(double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); }
double gelu_by_tanh(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}
double bent(double x, double beta, double threshold) {
  return x * beta > threshold ? x : std::log1p(std::exp(x * beta)) / beta;
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
      smooth("log1p", log1p, [](double x) { return std::log1p(x); }, {-0.8, 3}),
      smooth("sin", sin, [](double x) { return std::sin(x); }, {-4, 4}),
      smooth("cos", cos, [](double x) { return std::cos(x); }, {-4, 4}),
      smooth("tanh", tanh, [](double x) { return std::tanh(x); }),
      smooth("sigmoid", sigmoid, logistic),
      smooth("erf", erf, [](double x) { return std::erf(x); }),
      exact("floor", floor, [](double x) { return std::floor(x); }),
      exact("ceil", ceil, [](double x) { return std::ceil(x); }),
      exact("round", round, [](double x) { return std::nearbyint(x); }),
  };
}

// The halves themselves, where round has no slope.
Row round_of_halves() {
  Row r = with_variant(exact("round", round, [](double x) { return std::nearbyint(x); }), "halves");
  r.domains = {{-4, 4, 0.5}};
  r.derivative = Derivative::none;
  return r;
}

Tensor steep_leaky_relu(const Tensor& x) { return leaky_relu(x, 0.3); }
Tensor tall_elu(const Tensor& x) { return elu(x, 1.7); }
Tensor gelu_erf(const Tensor& x) { return gelu(x); }
Tensor gelu_tanh(const Tensor& x) { return gelu(x, true); }
Tensor softplus_default(const Tensor& x) { return softplus(x); }
// A threshold inside the domain, so that both branches are met.
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
  floats.gives = Gives::floating;
  return {
      with_refusal(both, {"no bound", [](Device d) { return clamp(ones({2}, {.device = d}), {}); },
                          "torch.clamp: At least one of 'min' or 'max' must not be None"}),
      floats,
      clamped(
          "min", [](const Tensor& x) { return clamp(x, -1); }, between(-1, INFINITY)),
      clamped(
          "max", [](const Tensor& x) { return clamp(x, {}, 1); }, between(-INFINITY, 1))};
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
  };
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
  // Bounds without their fractions.
  Row whole = with_variant(exact(
                               "hardtanh", [](const Tensor& x) { return hardtanh(x, -1.5, 2.5); },
                               [](double x) { return x < -1  ? -1
                                                     : x > 2 ? 2
                                                             : x; }),
                           "integers");
  whole.domains = {{-4, 4}};
  whole.dtypes = {kInt64, kInt32, kInt16, kInt8};
  whole.derivative = Derivative::none;
  return {six, between, whole};
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
  for (const auto& part : {arithmetic(), activations(), clamps(), bounded(), predicates()}) {
    rows.insert(rows.end(), part.begin(), part.end());
  }
  return rows;
}

}  // namespace taper::inline v0::test
