#include <cmath>
#include <functional>

#include "autograd/ops/binary_ops.h"
#include "autograd/ops/nn/loss_ops.h"
#include "framework/factory/factories.h"
#include "tests/op_table/op_table.h"

namespace taper::v0::test {
namespace {

constexpr Reduction kReductions[] = {Reduction::kMean, Reduction::kSum, Reduction::kNone};
const char* name_of(Reduction r) {
  return r == Reduction::kMean ? "mean" : r == Reduction::kSum ? "sum" : "none";
}
const Tolerance kTolerance = {.float32 = 1e-5, .float16 = 4e-3, .bfloat16 = 3e-2};

Array reduced(const Array& x, Reduction reduction, double count) {
  if (reduction == Reduction::kNone) return x;
  double sum = 0;
  for (const double v : x.v) sum += v;
  return {{}, {reduction == Reduction::kMean ? sum / count : sum}};
}

// --- one class per row, or probabilities of classes ---

// Reshapes [N, C, d1, ...] or [C] to [rows, C].
Array class_last(const Array& x) {
  if (x.shape.size() == 1) return {{1, x.shape[0]}, x.v};
  Shape shape = x.shape;
  shape.erase(1);
  shape.push_back(x.shape[1]);
  Array y = gathered(x, shape, [](const Shape& at) {
    Shape from = at;
    from.erase(at.size() - 1);
    from.insert(1, at.back());
    return from;
  });
  y.shape = {shape.numel() / x.shape[1], x.shape[1]};
  return y;
}

struct Case {
  std::string variant;
  Reduction reduction = Reduction::kMean;
  int64_t ignore = kIgnoreIndex;
  bool weighted = false;
  double smoothing = 0;

  Tensor weight(const Tensor& x) const {
    if (!weighted) return {};
    const int64_t classes = x.size(x.dim() > 1 ? 1 : 0);
    return ((arange(classes, {.device = x.device()}) + 1) / 4).to(x.dtype());
  }
  double weight(size_t c) const { return weighted ? double(c + 1) / 4 : 1; }
  CrossEntropyOptions options(const Tensor& x) const {
    return {weight(x), ignore, reduction, smoothing};
  }
};

// The negative log likelihood of classes.
Array likelihood(const Array& logp, const Array& target, const Case& c) {
  const auto classes = size_t(logp.shape[1]);
  Array losses{target.shape, {}};
  double total = 0;
  for (size_t i = 0; i < target.v.size(); ++i) {
    const auto t = int64_t(target.v[i]);
    double loss = 0;
    if (t != c.ignore) {
      const double weight = c.weight(size_t(t));
      total += weight;
      loss = -(1 - c.smoothing) * weight * logp.v[i * classes + size_t(t)];
      for (size_t k = 0; k < classes; ++k) {
        loss -= c.smoothing / double(classes) * c.weight(k) * logp.v[i * classes + k];
      }
    }
    losses.v.push_back(loss);
  }
  return reduced(losses, c.reduction, total);
}

// The expected negative log likelihood.
Array expectation(const Array& logits, const Array& target, const Case& c) {
  const Array logp = normalised(class_last(logits), 1, true), p = class_last(target);
  Array losses{logits.shape, {}};
  losses.shape.erase(logits.shape.size() > 1 ? 1 : 0);
  const auto classes = size_t(logp.shape[1]);
  for (size_t i = 0; i < logp.v.size(); i += classes) {
    double loss = 0;
    for (size_t k = 0; k < classes; ++k) {
      const double share = (1 - c.smoothing) * p.v[i + k] + c.smoothing / double(classes);
      loss -= c.weight(k) * share * logp.v[i + k];
    }
    losses.v.push_back(loss);
  }
  return reduced(losses, c.reduction, double(losses.v.size()));
}

std::vector<Case> class_cases() {
  std::vector<Case> cases;
  for (const Reduction r : kReductions) {
    const std::string name = name_of(r);
    cases.push_back({name, r});
    cases.push_back({name + ", ignoring 1", r, 1});
    cases.push_back({name + ", weights", r, kIgnoreIndex, true});
    cases.push_back({name + ", weights, ignoring 1", r, 1, true});
  }
  return cases;
}

const std::vector<std::vector<Shape>> kClassSamples = {
    {{3, 4}, {3}},       {{5, 1025}, {5}},          {{128, 10}, {128}}, {{17, 3}, {17}},
    {{2, 3, 4}, {2, 4}}, {{2, 5, 3, 2}, {2, 3, 2}}, {{4, 3}, {4}}};

std::vector<Row> cross_entropy_rows() {
  std::vector<Row> rows;
  std::vector<Case> cases = class_cases();
  for (const Reduction r : kReductions) {
    cases.push_back({concat_to_string(name_of(r), ", smoothed"), r, kIgnoreIndex, false, 0.2});
    cases.push_back(
        {concat_to_string(name_of(r), ", smoothed, weights, ignoring 1"), r, 1, true, 0.2});
  }
  for (const Case& c : cases) {
    rows.push_back(
        {.name = "cross_entropy",
         .variant = c.variant,
         .f = [c](const Tensors& x) { return cross_entropy(x[0], x[1], c.options(x[0])); },
         .reference =
             [c](const std::vector<Array>& x) {
               return likelihood(normalised(class_last(x[0]), 1, true), x[1], c);
             },
         .samples = kClassSamples,
         .domains = {{-4, 4}, {0, 2, 1, kInt64}},
         .dtypes = floating(),
         .tolerance = kTolerance});
    // If every target is ignored, the mean is 0 / 0.
    if (c.ignore != 1)
      rows.back().samples.insert(rows.back().samples.end(), {{{3}, {}}, {{1, 3}, {1}}});
  }
  for (const Case& c :
       {Case{"probabilities, mean"}, Case{"probabilities, sum", Reduction::kSum},
        Case{"probabilities, none", Reduction::kNone},
        Case{"probabilities, weights, smoothed", Reduction::kMean, -1, true, 0.2}}) {
    rows.push_back(
        {.name = "cross_entropy",
         .variant = c.variant,
         .f = [c](const Tensors& x) { return cross_entropy(x[0], x[1], c.options(x[0])); },
         .reference = [c](const auto& x) { return expectation(x[0], x[1], c); },
         .samples = {{{3, 4}, {3, 4}}, {{4}, {4}}, {{2, 3, 2}, {2, 3, 2}}, {{5, 65}, {5, 65}}},
         .domains = {{-4, 4}, {0, 1}},
         .dtypes = floating(),
         .tolerance = kTolerance});
  }
  return rows;
}

// In blocks of the fewest rows. The classes include one that no target has.
std::vector<Row> linear_cross_entropy_rows() {
  std::vector<Row> rows;
  for (const Case& c :
       {Case{"mean"}, Case{"sum", Reduction::kSum}, Case{"mean, ignoring 1", Reduction::kMean, 1},
        Case{"none", Reduction::kNone},
        Case{"smoothed", Reduction::kMean, kIgnoreIndex, false, 0.2}}) {
    Row row{.name = "linear_cross_entropy",
            .variant = c.variant,
            .f =
                [c](const Tensors& x) {
                  return linear_cross_entropy(x[0], x[1], x[2], c.options(x[0]), 1);
                },
            .reference =
                [c](const std::vector<Array>& x) {
                  const Array weight =
                      gathered(x[1], {x[1].shape[1], x[1].shape[0]}, [](const Shape& at) {
                        return Shape{at[1], at[0]};
                      });
                  return likelihood(normalised(matrix_product(x[0], weight), 1, true), x[2], c);
                },
            .samples = {{{3, 5}, {4, 5}, {3}}, {{5, 8}, {65, 8}, {5}}, {{300, 2}, {3, 2}, {300}}},
            .domains = {{-1, 1}, {-1, 1}, {0, 2, 1, kInt64}},
            .dtypes = floating(),
            .tolerance = kTolerance};
    rows.push_back(row);
  }
  return rows;
}

std::vector<Refusal> linear_cross_entropy_refusals() {
  return {{"shapes",
           [](Device d) {
             return linear_cross_entropy(ones({2, 4}, {.device = d}), ones({1, 3}, {.device = d}),
                                         zeros({2}, {.dtype = kInt64, .device = d}));
           },
           "mat1 and mat2 shapes cannot be multiplied (2x4 and 3x1)"},
          {"number of targets",
           [](Device d) {
             return linear_cross_entropy(ones({2, 3}, {.device = d}), ones({4, 3}, {.device = d}),
                                         zeros({3}, {.dtype = kInt64, .device = d}));
           },
           "Expected input batch_size (2) to match target batch_size (3)."}};
}

std::vector<Row> nll_rows() {
  std::vector<Row> rows;
  for (const Case& c : class_cases()) {
    rows.push_back(
        {.name = "nll_loss",
         .variant = c.variant,
         .f =
             [c](const Tensors& x) {
               return nll_loss(x[0], x[1], {c.weight(x[0]), c.ignore, c.reduction});
             },
         .reference =
             [c](const std::vector<Array>& x) { return likelihood(class_last(x[0]), x[1], c); },
         .samples = kClassSamples,
         .domains = {{-4, 0}, {0, 2, 1, kInt64}},
         .dtypes = floating(),
         .tolerance = kTolerance});
  }
  return rows;
}

// Refusals that cross_entropy and nll_loss share.
template <class F> std::vector<Refusal> class_refusals(F f) {
  const auto call = [f](const Shape& x, const Shape& target, DType type = kInt64) {
    return [=](Device d) {
      return f(ones(x, {.device = d}), zeros(target, {.dtype = type, .device = d}), Tensor());
    };
  };
  const auto weighted = [f](const Tensor& weight) {
    return [=](Device d) {
      return f(ones({2, 3}, {.device = d}), zeros({2}, {.dtype = kInt64, .device = d}),
               weight.to(d));
    };
  };
  return {
      {"batch", call({2, 3}, {3}), "Expected input batch_size (2) to match target batch_size (3)."},
      {"target dtype", call({2, 3}, {2}, kFloat32), "expected scalar type Long but found Float"},
      {"no batch", call({3}, {2}),
       "For 1D input, 1D target must have size 1, but got target size: 2"},
      {"rows", call({2, 3, 4}, {2, 5}), "Expected target size [2, 4], got [2, 5]"},
      {"rank", call({2, 3, 4}, {2}), "Expected target size [2, 4], got [2]"},
      {"images", call({2, 3, 4, 4}, {2, 4, 5}),
       "size mismatch (got input: [2, 3, 4, 4] , target: [2, 4, 5]"},
      {"weight", weighted(ones({4})),
       "weight tensor should be defined either for all 3 classes or no classes but got weight "
       "tensor of shape: [4]"},
      {"weight dtype", weighted(ones({3}, {.dtype = kFloat64})),
       "expected scalar type Float but found Double"},
      {"class beyond",
       [f](Device d) {
         return f(ones({2, 3}, {.device = d}), tensor({0, 3}, {.dtype = kInt64, .device = d}),
                  Tensor())
             .cpu();
       },
       "Target 3 is out of bounds.", "index 3 is out of bounds for a dimension with size 3"}};
}

std::vector<Refusal> cross_entropy_refusals() {
  std::vector<Refusal> refusals =
      class_refusals([](const Tensor& x, const Tensor& target, const Tensor& weight) {
        return cross_entropy(x, target, {.weight = weight});
      });
  const auto call = [](DType type, CrossEntropyOptions o) {
    return [=](Device d) {
      return cross_entropy(ones({2, 3}, {.device = d}), ones({2, 3}, {.dtype = type, .device = d}),
                           o);
    };
  };
  refusals.push_back(
      {"probabilities", call(kInt64, {}),
       "Expected floating point type for target with class probabilities, got Long"});
  refusals.push_back({"probabilities ignored", call(kFloat32, {.ignore_index = 1}),
                      "ignore_index is not supported for floating point target"});
  refusals.push_back({"smoothing", call(kFloat32, {.label_smoothing = 1.5}),
                      "label_smoothing must be between 0.0 and 1.0. Got: 1.5"});
  return refusals;
}

// --- losses of pairs ---

struct PairLoss {
  std::string name, variant;
  std::function<Tensor(const Tensor&, const Tensor&, Reduction)> f;
  std::function<double(double, double)> reference;
  std::vector<Domain> domains = {{-2, 2}};
  std::vector<std::vector<Shape>> samples = {
      {{3, 4}, {3, 4}}, {{}, {}}, {{17}, {17}}, {{2, 300}, {2, 300}}};
};

std::vector<Row> pair_rows(const PairLoss& loss) {
  std::vector<Row> rows;
  for (const Reduction r : kReductions) {
    rows.push_back({.name = loss.name,
                    .variant = loss.variant + name_of(r),
                    .f = [=](const Tensors& x) { return loss.f(x[0], x[1], r); },
                    .reference =
                        [=](const std::vector<Array>& x) {
                          const Array y = of_pairs(loss.reference)(x);
                          return reduced(y, r, double(y.v.size()));
                        },
                    .samples = loss.samples,
                    .domains = loss.domains,
                    .dtypes = floating(),
                    .tolerance = kTolerance});
  }
  return rows;
}

double bce(double x, double y, double positive) {
  const double log_p = -std::log1p(std::exp(-x)), log_not = -std::log1p(std::exp(x));
  return -(positive * y * log_p + (1 - y) * log_not);
}
double huber(double a, double b, double delta) {
  const double d = std::abs(a - b);
  return d <= delta ? d * d / 2 : delta * (d - delta / 2);
}

std::vector<PairLoss> pair_losses() {
  const auto constant_like = [](const Tensor& x, double value) {
    return full({1}, value, {.dtype = x.dtype(), .device = x.device()});
  };
  const std::vector<Domain> odds = {{-6, 6}, {0, 1}};
  return {
      {"mse_loss", "", mse_loss, [](double a, double b) { return (a - b) * (a - b); }},
      {"l1_loss", "", l1_loss, [](double a, double b) { return std::abs(a - b); }},
      {"huber_loss", "delta 0.75, ",
       [](const Tensor& x, const Tensor& y, Reduction r) { return huber_loss(x, y, r, 0.75); },
       [](double a, double b) { return huber(a, b, 0.75); }},
      {"smooth_l1_loss", "beta 0.5, ",
       [](const Tensor& x, const Tensor& y, Reduction r) { return smooth_l1_loss(x, y, r, 0.5); },
       [](double a, double b) { return huber(a, b, 0.5) / 0.5; }},
      {"smooth_l1_loss", "beta 0, ",
       [](const Tensor& x, const Tensor& y, Reduction r) { return smooth_l1_loss(x, y, r, 0); },
       [](double a, double b) { return std::abs(a - b); }},
      {"binary_cross_entropy_with_logits", "",
       [](const Tensor& x, const Tensor& y, Reduction r) {
         return binary_cross_entropy_with_logits(x, y, {.reduction = r});
       },
       [](double x, double y) { return bce(x, y, 1); }, odds},
      {"binary_cross_entropy_with_logits", "weights, ",
       [=](const Tensor& x, const Tensor& y, Reduction r) {
         const Tensor y_of_x = binary_cross_entropy_with_logits(
             x, y,
             {x.dim() > 0 ? constant_like(x, 0.5) : constant_like(x, 0.5).squeeze(0),
              x.dim() > 0 ? constant_like(x, 3) : constant_like(x, 3).squeeze(0), r});
         return y_of_x;
       },
       [](double x, double y) { return 0.5 * bce(x, y, 3); }, odds},
      {"binary_cross_entropy",
       "",
       [](const Tensor& x, const Tensor& y, Reduction r) {
         return binary_cross_entropy(x, y, {.reduction = r});
       },
       [](double x, double y) { return -y * std::log(x) - (1 - y) * std::log1p(-x); },
       {{0.1, 0.9}, {0, 1}}},
      {"binary_cross_entropy",
       "weights, ",
       [=](const Tensor& x, const Tensor& y, Reduction r) {
         return binary_cross_entropy(x, y, {x.dim() > 0 ? constant_like(x, 3) : Tensor(), r});
       },
       [](double x, double y) { return -3 * y * std::log(x) - 3 * (1 - y) * std::log1p(-x); },
       {{0.1, 0.9}, {0, 1}},
       {{{3, 4}, {3, 4}}, {{17}, {17}}}},
      {"kl_div",
       "",
       [](const Tensor& x, const Tensor& y, Reduction r) { return kl_div(x, y, r); },
       [](double x, double y) { return y * (std::log(y) - x); },
       {{-4, 0}, {0.1, 1}}},
      {"kl_div",
       "log target, ",
       [](const Tensor& x, const Tensor& y, Reduction r) { return kl_div(x, y, r, true); },
       [](double x, double y) { return std::exp(y) * (y - x); },
       {{-4, 0}, {-4, 0}}}};
}

// Predictions of exactly 0 and 1 that are wrong: logarithms are clamped at -100.
Row certain_bce() {
  return {.name = "binary_cross_entropy",
          .variant = "0 and 1",
          .f =
              [](const Tensors& x) {
                return binary_cross_entropy(x[0], x[1], {.reduction = Reduction::kNone});
              },
          .reference = of_pairs([](double x, double y) { return x == y ? 0 : 100; }),
          .samples = {{{17}, {17}}},
          .domains = {{0, 1, 1}},
          .dtypes = floating(),
          .derivative = Derivative::kNone,
          .tolerance = kTolerance};
}

std::vector<Row> kl_rows() {
  const auto batchmean = [](const std::vector<Array>& x) {
    const Array y = of_pairs([](double a, double b) { return b * (std::log(b) - a); })(x);
    return reduced(y, Reduction::kMean, double(x[0].shape[0]));
  };
  const auto with_zeros = [](double x, double y) { return y == 0 ? 0 : y * (std::log(y) - x); };
  return {{.name = "kl_div",
           .variant = "batchmean",
           .f = [](const Tensors& x) { return kl_div(x[0], x[1], Reduction::kBatchmean); },
           .reference = batchmean,
           .samples = {{{3, 4}, {3, 4}}, {{17}, {17}}},
           .domains = {{-4, 0}, {0.1, 1}},
           .dtypes = floating(),
           .tolerance = kTolerance},
          {.name = "kl_div",
           .variant = "targets of 0",
           .f = [](const Tensors& x) { return kl_div(x[0], x[1], Reduction::kNone); },
           .reference = of_pairs(with_zeros),
           .samples = {{{17}, {17}}},
           .domains = {{-4, 0}, {0, 1, 0.5}},
           .dtypes = floating(),
           .derivative = Derivative::kNone,
           .tolerance = kTolerance}};
}

using PairFunction = Tensor (*)(const Tensor&, const Tensor&);
Refusal pair_refusal(const char* what, PairFunction f, const Shape& a, const Shape& b,
                     const char* text) {
  return {what, [=](Device d) { return f(ones(a, {.device = d}), ones(b, {.device = d})); }, text};
}

// Refusals belong to an operator, not to a variant, so the first row of its name gets them.
void refuse(std::vector<Row>& rows, const std::string& name, std::vector<Refusal> refusals) {
  for (Row& row : rows) {
    if (row.name != name) continue;
    row.refusals = std::move(refusals);
    return;
  }
}

}  // namespace

std::vector<Row> loss_rows() {
  std::vector<Row> rows = cross_entropy_rows();
  const auto add = [&](std::vector<Row> more) {
    for (Row& row : more) rows.push_back(std::move(row));
  };
  add(nll_rows());
  add(linear_cross_entropy_rows());
  for (const PairLoss& loss : pair_losses()) add(pair_rows(loss));
  add(kl_rows());
  add({certain_bce()});
  const auto plain_bce = [](const Tensor& x, const Tensor& y) {
    return binary_cross_entropy(x, y);
  };
  refuse(rows, "binary_cross_entropy",
         {pair_refusal("shapes", plain_bce, {2, 3}, {3},
                       "Using a target size ([3]) that is different to the input size "
                       "([2, 3]) is not supported."),
          {"dtypes",
           [](Device d) {
             return binary_cross_entropy(ones({2}, {.device = d}),
                                         ones({2}, {.dtype = kFloat64, .device = d}));
           },
           "Found dtype Double but expected Float"}});
  refuse(rows, "cross_entropy", cross_entropy_refusals());
  refuse(rows, "linear_cross_entropy", linear_cross_entropy_refusals());
  refuse(rows, "nll_loss",
         class_refusals([](const Tensor& x, const Tensor& target, const Tensor& weight) {
           return nll_loss(x, target, {.weight = weight});
         }));
  refuse(
      rows, "mse_loss",
      {pair_refusal(
           "broadcast", [](const Tensor& x, const Tensor& y) { return mse_loss(x, y); }, {3, 1},
           {3},
           "Using a target size ([3]) that is different to the input size "
           "([3, 1]). This will likely lead to incorrect results due to "
           "broadcasting. Please ensure they have the same size."),
       pair_refusal(
           "shapes", [](const Tensor& x, const Tensor& y) { return mse_loss(x, y); }, {2, 3},
           {2, 4}, "The size of tensor a (3) must match the size of tensor b (4)"),
       pair_refusal(
           "batchmean",
           [](const Tensor& x, const Tensor& y) { return mse_loss(x, y, Reduction::kBatchmean); },
           {2}, {2}, "batchmean is not a valid value for reduction")});
  refuse(rows, "l1_loss",
         {pair_refusal(
             "a number", [](const Tensor& x, const Tensor& y) { return l1_loss(x, y); }, {3}, {},
             "Using a target size ([]) that is different to the input size")});
  refuse(
      rows, "huber_loss",
      {pair_refusal(
           "broadcast", [](const Tensor& x, const Tensor& y) { return huber_loss(x, y); }, {3},
           {3, 1}, "Using a target size ([3, 1]) that is different to the input"),
       pair_refusal(
           "delta",
           [](const Tensor& x, const Tensor& y) { return huber_loss(x, y, Reduction::kMean, 0); },
           {2}, {2}, "huber_loss does not support non-positive values for delta.")});
  refuse(rows, "smooth_l1_loss",
         {pair_refusal(
              "broadcast", [](const Tensor& x, const Tensor& y) { return smooth_l1_loss(x, y); },
              {2, 3}, {3}, "Using a target size ([3]) that is different to the input"),
          pair_refusal(
              "beta",
              [](const Tensor& x, const Tensor& y) {
                return smooth_l1_loss(x, y, Reduction::kMean, -1);
              },
              {2}, {2}, "smooth_l1_loss does not support negative values for beta.")});
  refuse(
      rows, "binary_cross_entropy_with_logits",
      {pair_refusal(
          "shapes",
          [](const Tensor& x, const Tensor& y) { return binary_cross_entropy_with_logits(x, y); },
          {2, 3}, {3},
          "Target size ([3]) must be the same as input size "
          "([2, 3])")});
  refuse(rows, "kl_div",
         {{"integers",
           [](Device d) {
             return kl_div(ones({2}, {.device = d}), ones({2}, {.dtype = kInt64, .device = d}));
           },
           "kl_div: Integral inputs not supported."}});
  return rows;
}

}  // namespace taper::v0::test
