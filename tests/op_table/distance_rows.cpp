// Rows of losses of distances and variances, and of CTC.
#include <algorithm>
#include <cmath>
#include <functional>

#include "autograd/ops/binary_ops.h"
#include "autograd/ops/nn/loss_ops.h"
#include "autograd/ops/reduce_ops.h"
#include "autograd/ops/shape_ops.h"
#include "framework/factory/factories.h"
#include "tests/op_table/op_table.h"

namespace taper::v0::test {
namespace {

const Tolerance kTolerance = {.float32 = 1e-5, .float16 = 6e-3, .bfloat16 = 4e-2};

Array summed(const Array& x, Reduction r) {
  if (r == Reduction::kNone) return x;
  double sum = 0;
  for (const double v : x.v) sum += v;
  return {{}, {r == Reduction::kMean ? sum / double(x.v.size()) : sum}};
}

// One row for each reduction of a loss. `each` computes the loss's elements.
std::vector<Row> reductions(Row row, std::function<Tensor(const Tensors&, Reduction)> f,
                            Reference each) {
  std::vector<Row> rows;
  row.tolerance = kTolerance;
  const std::string variant = row.variant;
  for (const auto& [r, name] :
       {std::pair(Reduction::kMean, "mean"), std::pair(Reduction::kSum, "sum"),
        std::pair(Reduction::kNone, "none")}) {
    row.variant = variant + name;
    row.f = [f, r](const Tensors& x) { return f(x, r); };
    row.reference = [each, r](const std::vector<Array>& x) { return summed(each(x), r); };
    rows.push_back(row);
    row.refusals.clear();
  }
  return rows;
}

// --- vectors ---

// Returns f(sum x y, sum x x, sum y y) along dim, with x and y broadcast.
Array of_products(const Array& x, const Array& y, int64_t dim,
                  const std::function<double(double, double, double)>& f) {
  const auto dot = [&](std::function<double(double, double)> product) {
    return reduced(of_pairs(std::move(product))({x, y}), {dim}, false, [](const auto& slice) {
      double sum = 0;
      for (const double v : slice) sum += v;
      return sum;
    });
  };
  Array out = dot([](double a, double b) { return a * b; });
  const Array xx = dot([](double a, double) { return a * a; });
  const Array yy = dot([](double, double b) { return b * b; });
  for (size_t i = 0; i < out.v.size(); ++i) out.v[i] = f(out.v[i], xx.v[i], yy.v[i]);
  return out;
}

Row similarity(const std::string& variant, int64_t dim, double eps) {
  return {
      .name = "cosine_similarity",
      .variant = variant,
      .f = [=](const Tensors& x) { return cosine_similarity(x[0], x[1], dim, eps); },
      .reference =
          [=](const std::vector<Array>& x) {
            return of_products(x[0], x[1], dim, [=](double xy, double xx, double yy) {
              return xy / std::max(std::sqrt(xx), eps) / std::max(std::sqrt(yy), eps);
            });
          },
      .samples = {{{3, 4}, {3, 4}}, {{2, 3, 5}, {3, 5}}, {{17, 65}, {17, 65}}, {{4, 3}, {1, 3}}},
      .dtypes = floating(),
      .tolerance = kTolerance};
}

std::vector<Row> similarities() {
  Row last = similarity("", -1, 1e-8);
  last.refusals = {{"integers",
                    [](Device d) {
                      const Tensor x = ones({2}, {.dtype = kInt64, .device = d});
                      return cosine_similarity(x, x, 0);
                    },
                    "expected common dtype to be floating point, yet common dtype is Long"}};
  // eps limits the norms in the result but is ignored by the gradient, so the gradient is not that
  // of finite differences.
  Row short_ones = similarity("short vectors", 1, 10);
  short_ones.derivative = Derivative::kNone;
  return {last, similarity("dim 1", 1, 1e-8), short_ones};
}

std::vector<Row> embeddings() {
  Row row{.name = "cosine_embedding_loss",
          .samples = {{{3, 4}, {3, 4}, {3}}, {{5}, {5}, {}}, {{17, 65}, {17, 65}, {17}}},
          .domains = {Domain(), Domain(), {-1.4, 1.4, 1, kInt64}},
          .dtypes = floating()};
  const auto refusal = [](const char* what, Shape x, Shape target, const char* text) {
    return Refusal{what,
                   [=](Device d) {
                     const Tensor ones_of_x = ones(x, {.device = d});
                     return cosine_embedding_loss(ones_of_x, ones_of_x,
                                                  ones(target, {.device = d}));
                   },
                   text};
  };
  row.refusals = {
      refusal("matrix", {2, 2}, {1, 1},
              "0D or 1D target tensor expected, multi-target not supported"),
      refusal(
          "vector", {2}, {2},
          "1D target tensor expects 2D input tensors, but found inputs with sizes [2] and [2]."),
      refusal("number", {2, 2}, {},
              "0D target tensor expects 1D input tensors, but found inputs with sizes [2, 2] and "
              "[2, 2].")};
  return reductions(
      row,
      [](const Tensors& x, Reduction r) { return cosine_embedding_loss(x[0], x[1], x[2], 0.2, r); },
      [](const std::vector<Array>& x) {
        Array y = of_products(x[0], x[1], -1, [](double xy, double xx, double yy) {
          return xy / std::sqrt(xx * yy);
        });
        for (size_t i = 0; i < y.v.size(); ++i) {
          const double t = x[2].v[i], cosine = y.v[i];
          y.v[i] = t == 1 ? 1 - cosine : t == -1 ? std::max(0.0, cosine - 0.2) : 0;
        }
        return y;
      });
}

std::vector<Row> rankings() {
  Row row{.name = "margin_ranking_loss",
          .samples = {{{3, 4}, {3, 4}, {3, 4}}, {{}, {}, {}}, {{300}, {300}, {300}}},
          .dtypes = floating()};
  row.refusals = {{"dims",
                   [](Device d) {
                     const Tensor x = ones({2}, {.device = d});
                     return margin_ranking_loss(x, x, ones({}, {.device = d}));
                   },
                   "margin_ranking_loss: All input tensors should have same dimension but got "
                   "sizes: input1: [2], input2: [2], target: []"}};
  return reductions(
      row,
      [](const Tensors& x, Reduction r) { return margin_ranking_loss(x[0], x[1], x[2], 0.3, r); },
      of_triples([](double a, double b, double t) { return std::max(0.0, 0.3 - t * (a - b)); }));
}

// |x - y + eps|_p along the last dimension.
Array distances(const Array& x, const Array& y, double p) {
  const Array powers =
      of_pairs([p](double a, double b) { return std::pow(std::abs(a - b + 1e-6), p); })({x, y});
  return reduced(powers, {-1}, false, [p](const std::vector<double>& slice) {
    double sum = 0;
    for (const double v : slice) sum += v;
    return std::pow(sum, 1 / p);
  });
}

std::vector<Row> triplets(const std::string& variant, double p, bool swap) {
  Row row{.name = "triplet_margin_loss",
          .variant = variant,
          .samples = {{{3, 4}, {3, 4}, {3, 4}},
                      {{5}, {5}, {5}},
                      {{2, 3, 5}, {2, 1, 5}, {2, 3, 5}},
                      {{17, 65}, {17, 65}, {17, 65}}},
          .dtypes = floating()};
  const auto refusal = [](const char* what, Shape negative, double margin, const char* text) {
    return Refusal{what,
                   [=](Device d) {
                     const Tensor x = ones({2}, {.device = d});
                     return triplet_margin_loss(x, x, ones(negative, {.device = d}),
                                                {.margin = margin});
                   },
                   text};
  };
  row.refusals = {refusal("dims", {2, 2}, 1,
                          "The anchor, positive, and negative tensors are expected to have the "
                          "same number of dimensions, but got: anchor 1D, positive 1D, and "
                          "negative 2D inputs"),
                  refusal("margin", {2}, -1, "margin must be greater than 0, got -1")};
  return reductions(
      row,
      [=](const Tensors& x, Reduction r) {
        return triplet_margin_loss(x[0], x[1], x[2],
                                   {.margin = 0.7, .p = p, .swap = swap, .reduction = r});
      },
      [=](const std::vector<Array>& x) {
        Array away = distances(x[0], x[2], p);
        const auto pairs = [](auto f) { return of_pairs(f); };
        if (swap) {
          away = pairs([](double a, double b) { return std::min(a, b); })(
              {away, distances(x[1], x[2], p)});
        }
        return pairs([](double near, double far) { return std::max(0.0, near - far + 0.7); })(
            {distances(x[0], x[1], p), away});
      });
}

std::vector<Row> gaussians(const std::string& variant, bool full) {
  Row row{.name = "gaussian_nll_loss",
          .variant = variant,
          .samples = {{{3, 4}, {3, 4}, {3, 4}},
                      {{3, 4}, {3, 4}, {3}},
                      {{3, 4}, {3, 4}, {3, 1}},
                      {{}, {}, {}},
                      {{300}, {300}, {300}}},
          .domains = {Domain(), Domain(), {0.4, 2}},
          .dtypes = floating()};
  row.refusals = {{"sizes",
                   [](Device d) {
                     const Tensor x = ones({2}, {.device = d});
                     return gaussian_nll_loss(x, x, ones({3}, {.device = d}));
                   },
                   "var is of incorrect size"}};
  return reductions(
      row,
      [=](const Tensors& x, Reduction r) {
        return gaussian_nll_loss(x[0], x[1], x[2], {.full = full, .reduction = r});
      },
      [=](std::vector<Array> x) {
        if (x[2].shape.size() < x[0].shape.size()) x[2].shape.push_back(1);
        return of_triples([=](double a, double b, double v) {
          return 0.5 * (std::log(v) + (a - b) * (a - b) / v + (full ? std::log(2 * M_PI) : 0));
        })(x);
      });
}

// --- margins and counts ---

// A row of logits, as a reference sees it.
struct Scores {
  int64_t rows, classes;
  const Array& x;
  double operator()(int64_t n, int64_t c) const { return x.v[size_t(n * classes + c)]; }
};
Scores scores_of(const Array& x) {
  const int64_t classes = x.shape.size() == 0 ? 1 : x.shape.back();
  return {int64_t(x.v.size()) / classes, classes, x};
}

// Returns call(ones(x), full(target, value)) as a function of the device.
template <class F>
std::function<Tensor(Device)> of_sizes(F call, Shape x, Shape target, double value = 0,
                                       DType dtype = kInt64) {
  return [=](Device d) {
    return call(ones(x, {.device = d}), full(target, value, {.dtype = dtype, .device = d})).cpu();
  };
}

// Refusals that the losses of class scores share. `target` is the shape of a target of two rows.
template <class F> std::vector<Refusal> score_refusals(F call, const Shape& target) {
  const char* const empty =
      "Expected non-empty vector or matrix with optional 0-dim batch size, but got: ";
  return {{"three dimensions", of_sizes(call, {2, 2, 2}, target), empty},
          {"no classes", of_sizes(call, {2, 0}, target), empty},
          {"float target", of_sizes(call, {2, 3}, target, 0, kFloat32),
           "expected scalar type Long but found Float"},
          {"integer scores",
           [=](Device d) {
             return call(ones({2, 3}, {.dtype = kInt64, .device = d}),
                         zeros(target, {.dtype = kInt64, .device = d}));
           },
           "\""}};
}

std::vector<Row> multi_margins(const std::string& variant, const MultiMarginOptions& options,
                               bool weighted) {
  Row row{.name = "multi_margin_loss",
          .variant = variant,
          .samples = {{{4, 3}, {4}}, {{5}, {}}, {{3}, {1}}, {{17, 65}, {17}}},
          .domains = {Domain(), {0, 2, 1, kInt64}},
          .dtypes = floating()};
  // The weight of class c is (c + 1) / 2.
  const auto with = [=](const Tensor& x) {
    MultiMarginOptions o = options;
    if (weighted) {
      o.weight = (arange(x.size(-1), {.dtype = x.dtype(), .device = x.device()}) + 1) / 2;
    }
    return o;
  };
  if (!weighted) {
    const auto call = [](const Tensor& x, const Tensor& t) { return multi_margin_loss(x, t); };
    const auto weight = [](Shape shape) {
      return [=](const Tensor& x, const Tensor& t) {
        return multi_margin_loss(x, t, {.weight = ones(shape, {.device = x.device()})});
      };
    };
    const auto cubes = [](const Tensor& x, const Tensor& t) {
      return multi_margin_loss(x, t, {.p = 3});
    };
    row.refusals = score_refusals(call, {2});
    for (const Refusal& refusal : std::vector<Refusal>{
             {"power", of_sizes(cubes, {2, 3}, {2}), "only p == 1 and p == 2 supported"},
             {"sizes", of_sizes(call, {3, 3}, {2}),
              "inconsistent target size, expected 3 but got [2]"},
             {"weight of another size", of_sizes(weight({2}), {2, 3}, {2}),
              "inconsistent weight size, expected 3 but got [2]"},
             {"matrix of weights", of_sizes(weight({3, 1}), {2, 3}, {2}),
              "weight must be one-dimensional"},
             {"class beyond", of_sizes(call, {2, 3}, {2}, 3), "target out of range"},
             {"class below", of_sizes(call, {2, 3}, {2}, -1), "target out of range"}}) {
      row.refusals.push_back(refusal);
    }
  }
  return reductions(
      row,
      [=](const Tensors& x, Reduction r) {
        MultiMarginOptions o = with(x[0]);
        o.reduction = r;
        return multi_margin_loss(x[0], x[1], o);
      },
      [=](const std::vector<Array>& x) {
        const Scores s = scores_of(x[0]);
        Array y{x[1].shape, {}};
        for (int64_t n = 0; n < s.rows; ++n) {
          const auto t = int64_t(x[1].v[size_t(n)]);
          double sum = 0;
          for (int64_t c = 0; c < s.classes; ++c) {
            const double distance = std::max(0.0, options.margin - s(n, t) + s(n, c));
            if (c != t) sum += std::pow(distance, double(options.p));
          }
          y.v.push_back(sum / double(s.classes) * (weighted ? double(t + 1) / 2 : 1));
        }
        return y;
      });
}

std::vector<Row> multilabel_margins() {
  Row row{.name = "multilabel_margin_loss",
          .samples = {{{4, 3}, {4, 3}}, {{5}, {5}}, {{9, 4}, {9, 4}}, {{2, 65}, {2, 65}}},
          .domains = {Domain(), {-1, 2, 1, kInt64}},
          .dtypes = floating()};
  const auto call = [](const Tensor& x, const Tensor& t) { return multilabel_margin_loss(x, t); };
  row.refusals = score_refusals(call, {2, 3});
  row.refusals.push_back({"sizes", of_sizes(call, {2, 3}, {2, 4}),
                          "inconsistent target size: [2, 4] for input of size: [2, 3]"});
  for (const double beyond : {3, -2}) {
    row.refusals.push_back(
        {"class", of_sizes(call, {2, 3}, {2, 3}, beyond), "argument #2 'target' is out of range"});
  }
  return reductions(
      row, [](const Tensors& x, Reduction r) { return multilabel_margin_loss(x[0], x[1], r); },
      [](const std::vector<Array>& x) {
        const Scores s = scores_of(x[0]), targets = scores_of(x[1]);
        Array y{x[0].shape.size() < 2 ? Shape{} : Shape{s.rows}, {}};
        for (int64_t n = 0; n < s.rows; ++n) {
          std::vector<int64_t> labels;
          for (int64_t j = 0; j < s.classes && targets(n, j) >= 0; ++j) {
            labels.push_back(int64_t(targets(n, j)));
          }
          double sum = 0;
          for (const int64_t label : labels) {
            for (int64_t c = 0; c < s.classes; ++c) {
              const bool is_other = std::ranges::count(labels, c) == 0;
              if (is_other) sum += std::max(0.0, 1 - s(n, label) + s(n, c));
            }
          }
          y.v.push_back(sum / double(s.classes));
        }
        return y;
      });
}

const std::vector<std::vector<Shape>> kPairs = {{{3, 4}, {3, 4}}, {{}, {}}, {{300}, {300}}};

std::vector<Row> soft_margins() {
  Row row{.name = "soft_margin_loss", .samples = kPairs, .dtypes = floating()};
  row.samples.push_back({{3, 4}, {4}});
  const auto call = [](const Tensor& x, const Tensor& t) { return soft_margin_loss(x, t); };
  row.refusals = {{"larger target", of_sizes(call, {2, 1}, {2}),
                   "output with shape [2, 1] doesn't match the broadcast shape [2, 2]"},
                  {"sizes", of_sizes(call, {2}, {3}), "The size of tensor a (2) must match"}};
  return reductions(
      row, [](const Tensors& x, Reduction r) { return soft_margin_loss(x[0], x[1], r); },
      of_pairs([](double x, double t) { return std::log1p(std::exp(-t * x)); }));
}

std::vector<Row> multilabel_soft_margins(const std::string& variant, bool weighted) {
  Row row{.name = "multilabel_soft_margin_loss",
          .variant = variant,
          .samples = {{{3, 4}, {3, 4}}, {{5}, {5}}, {{2, 3, 4}, {3, 4}}, {{17, 65}, {17, 65}}},
          .domains = {Domain(), {0, 1}},
          .dtypes = floating()};
  const auto call = [](const Tensor& x, const Tensor& t) {
    return multilabel_soft_margin_loss(x, t);
  };
  row.refusals = {
      {"numbers", of_sizes(call, {}, {}), "Dimension specified as -1 but tensor has no dimensions"},
      {"sizes", of_sizes(call, {2, 3}, {2, 4}), "The size of tensor a (3) must match"}};
  return reductions(
      row,
      [=](const Tensors& x, Reduction r) {
        const Tensor weight =
            full({x[0].size(-1)}, 3, {.dtype = x[0].dtype(), .device = x[0].device()});
        return multilabel_soft_margin_loss(
            x[0], x[1], {.weight = weighted ? weight : Tensor(), .reduction = r});
      },
      [=](const std::vector<Array>& x) {
        const Array each = of_pairs([=](double a, double t) {
          const double yes = std::log1p(std::exp(-a)), no = std::log1p(std::exp(a));
          return (weighted ? 3 : 1) * (t * yes + (1 - t) * no);
        })(x);
        return reduced(each, {-1}, false, [](const std::vector<double>& slice) {
          double sum = 0;
          for (const double v : slice) sum += v;
          return sum / double(slice.size());
        });
      });
}

std::vector<Row> poissons(const std::string& variant, bool log_input, bool full) {
  Row row{.name = "poisson_nll_loss",
          .variant = variant,
          .samples = kPairs,
          .domains = {log_input ? Domain{-1, 1} : Domain{0.3, 3}, {0, 3}},
          .dtypes = floating()};
  row.samples.push_back({{3, 1}, {4}});
  const auto call = [](const Tensor& x, const Tensor& t) { return poisson_nll_loss(x, t); };
  row.refusals = {{"sizes", of_sizes(call, {2}, {3}), "The size of tensor a ("}};
  return reductions(
      row,
      [=](const Tensors& x, Reduction r) {
        return poisson_nll_loss(x[0], x[1], {.log_input = log_input, .full = full, .reduction = r});
      },
      of_pairs([=](double x, double t) {
        const double loss = log_input ? std::exp(x) - t * x : x - t * std::log(x + 1e-8);
        return loss + (full && t > 1 ? t * std::log(t) - t + 0.5 * std::log(2 * M_PI * t) : 0);
      }));
}

std::vector<Row> hinges() {
  Row row{.name = "hinge_embedding_loss",
          .samples = kPairs,
          .domains = {Domain(), {-1, 1, 1, kInt64}},
          .dtypes = floating()};
  row.samples.push_back({{3, 1}, {4}});
  const auto call = [](const Tensor& x, const Tensor& t) { return hinge_embedding_loss(x, t); };
  row.refusals = {{"sizes", of_sizes(call, {2}, {3}), "The size of tensor a ("}};
  return reductions(
      row, [](const Tensors& x, Reduction r) { return hinge_embedding_loss(x[0], x[1], 0.7, r); },
      of_pairs([](double x, double t) {
        return (t != 1 ? std::max(0.0, 0.7 - x) : 0) + (t != -1 ? x : 0);
      }));
}

std::vector<Row> pairwise_distances() {
  std::vector<Row> rows;
  for (const double p : {2.0, 3.0}) {
    for (const bool keepdim : {false, true}) {
      rows.push_back(
          {.name = "pairwise_distance",
           .variant = concat_to_string("p ", p, keepdim ? ", keepdim" : ""),
           .f = [=](const Tensors& x) { return pairwise_distance(x[0], x[1], p, 1e-6, keepdim); },
           .reference =
               [=](const std::vector<Array>& x) {
                 Array y = distances(x[0], x[1], p);
                 if (keepdim) y.shape.push_back(1);
                 return y;
               },
           .samples = {{{3, 4}, {3, 4}},
                       {{5}, {5}},
                       {{2, 3, 5}, {5}},
                       {{0, 3}, {0, 3}},
                       {{17, 65}, {17, 65}}},
           .dtypes = floating(),
           .tolerance = kTolerance});
    }
  }
  rows[0].refusals = {
      {"sizes",
       [](Device d) {
         return pairwise_distance(ones({2, 3}, {.device = d}), ones({3, 3}, {.device = d}));
       },
       "The size of tensor a (2) must match the size of tensor b (3)"}};
  return rows;
}

// --- CTC ---

// Returns the labels of a path: repetitions are merged, then blanks are removed.
std::vector<int64_t> said(const std::vector<int64_t>& path, int64_t blank) {
  std::vector<int64_t> text;
  for (size_t t = 0; t < path.size(); ++t) {
    if (path[t] != blank && (t == 0 || path[t] != path[t - 1])) text.push_back(path[t]);
  }
  return text;
}

// Computes the loss by enumerating all paths. logp is [T, N, C].
double ctc_by_paths(const Array& logp, int64_t n, int64_t steps, std::vector<int64_t> target,
                    int64_t blank) {
  const int64_t N = logp.shape[1], C = logp.shape[2];
  double total = 0;
  for (int64_t code = 0; code < int64_t(std::pow(C, steps)); ++code) {
    std::vector<int64_t> path;
    double chance = 0;
    for (int64_t t = 0, rest = code; t < steps; ++t, rest /= C) {
      path.push_back(rest % C);
      chance += logp.v[size_t((t * N + n) * C + path.back())];
    }
    if (said(path, blank) == target) total += std::exp(chance);
  }
  return -std::log(total);
}

struct CtcCase {
  std::string variant;
  Reduction reduction = Reduction::kMean;
  int64_t blank = 0;
  bool joined = false;  // all targets concatenated in one dimension
  bool zero_infinity = false;
};

// Every second length is shorter by one.
int64_t length_of(int64_t full, int64_t n) { return full - n % 2; }

Tensor lengths(int64_t full, int64_t rows) {
  std::vector<int64_t> all;
  for (int64_t n = 0; n < rows; ++n) all.push_back(length_of(full, n));
  return tensor(all, {.dtype = kInt64});
}

Tensor ctc_of_logits(const CtcCase& c, const Tensor& x, const Tensor& targets) {
  const DType dtype = x.dtype() == kFloat64 ? kFloat64 : kFloat32;
  const Tensor logp = log_softmax(x.to(dtype), -1);
  if (x.dim() == 2) {
    const auto one = [](int64_t n) { return full({}, n, {.dtype = kInt64}); };
    return ctc_loss(logp, targets, one(x.size(0)), one(targets.size(0)),
                    {.blank = c.blank, .reduction = c.reduction});
  }
  const int64_t N = targets.size(0), S = targets.size(1);
  Tensor given = targets;
  if (c.joined) {
    Tensors parts;
    for (int64_t n = 0; n < N; ++n) parts.push_back(targets[n].narrow(0, 0, length_of(S, n)));
    given = cat(parts, 0);
  }
  return ctc_loss(logp, given, lengths(x.size(0), N), lengths(S, N),
                  {.blank = c.blank, .reduction = c.reduction, .zero_infinity = c.zero_infinity});
}

Row ctc_row(const CtcCase& c) {
  Row row{.name = "ctc_loss",
          .variant = c.variant,
          .f = [c](const Tensors& x) { return ctc_of_logits(c, x[0], x[1]); },
          .reference =
              [c](const std::vector<Array>& x) {
                Array logp = normalised(x[0], -1, true);
                const bool alone = logp.shape.size() == 2;
                if (alone) logp.shape.insert(1, 1);
                const int64_t N = logp.shape[1], S = x[1].shape.back();
                Array y{alone ? Shape{} : Shape{N}, {}};
                for (int64_t n = 0; n < N; ++n) {
                  const auto first = x[1].v.begin() + n * S;
                  const double loss = ctc_by_paths(logp, n, length_of(logp.shape[0], n),
                                                   {first, first + length_of(S, n)}, c.blank);
                  const bool zero = c.zero_infinity && std::isinf(loss);
                  y.v.push_back(zero ? 0 : loss);
                  if (c.reduction == Reduction::kMean) {
                    y.v.back() /= double(std::max<int64_t>(1, length_of(S, n)));
                  }
                }
                return summed(y, c.reduction);
              },
          .samples = {{{5, 2, 3}, {2, 2}}, {{4, 3, 4}, {3, 1}}, {{6, 1, 3}, {1, 3}}},
          .domains = {Domain(), {1, 2, 1, kInt64}},
          .dtypes = {kFloat32, kFloat64},
          .derivative = Derivative::kFirst,
          .tolerance = {.float32 = 1e-5, .float16 = 1e-2, .bfloat16 = 6e-2}};
  if (!c.joined) row.samples.push_back({{5, 3}, {2}});
  return row;
}

std::vector<Row> ctc_rows() {
  std::vector<Row> rows;
  for (const CtcCase& c :
       {CtcCase{"mean"}, CtcCase{"sum", Reduction::kSum}, CtcCase{"none", Reduction::kNone},
        CtcCase{"joined targets", Reduction::kMean, 0, true}}) {
    rows.push_back(ctc_row(c));
  }
  Row last = ctc_row({"last class blank", Reduction::kNone, 2});
  last.samples = {{{5, 2, 3}, {2, 2}}, {{5, 3}, {2}}};
  last.domains = {Domain(), {0, 1, 1, kInt64}};
  // Three labels do not fit into two steps.
  Row none = ctc_row({"no path", Reduction::kNone, 0, false, true});
  none.samples = {{{2, 3, 3}, {3, 3}}};
  const auto call = [](Tensor targets, int64_t steps, int64_t length, int64_t blank = 0,
                       Shape shape = {5, 2, 3}) {
    return [=](Device d) {
      const auto lengths = [](int64_t n) { return full({2}, n, {.dtype = kInt64}); };
      return ctc_loss(zeros(shape, {.device = d}), targets.to(d), lengths(steps), lengths(length),
                      {.blank = blank})
          .cpu();
    };
  };
  const Tensor two = ones({2, 2}, {.dtype = kInt64});
  const std::string checking = " (while checking arguments for ctc_loss_allocate_outputs)";
  rows[0].refusals = {
      {"blank", call(two, 5, 2, 3), "blank must be in label range"},
      {"steps", call(two, 6, 2),
       "Expected input_lengths to have value at most 5, but got value 6" + checking},
      {"negative", call(two, 5, -1),
       "Expected target_lengths to have value at least 0, but got value -1" + checking},
      {"length", call(two, 5, 3),
       "Expected tensor to have size at least 3 at dimension 1, but got size 2 for argument #2 "
       "'targets'" +
           checking},
      {"joined", call(ones({3}, {.dtype = kInt64}), 5, 2),
       "Expected tensor to have size 4 at dimension 0, but got size 3 for argument #2 'targets'" +
           checking},
      {"rows", call(ones({3, 2}, {.dtype = kInt64}), 5, 2),
       "Expected tensor to have size 2 at dimension 0, but got size 3 for argument #2 'targets'" +
           checking},
      {"empty", call(two, 0, 2, 0, {0, 2, 3}), "log_probs tensor must not be empty"},
      {"batch", call(two, 5, 2, 0, {5, 3, 3}), "input_lengths must be of size batch_size"},
      {"class", call(two + 2, 5, 2), "index 3 is out of bounds for a dimension with size 3"}};
  rows.push_back(last);
  rows.push_back(none);
  return rows;
}

}  // namespace

std::vector<Row> distance_rows() {
  std::vector<Row> rows;
  for (const auto& part :
       {similarities(), embeddings(), rankings(), triplets("", 2, false),
        triplets("swap, p 3, ", 3, true), gaussians("", false), gaussians("full, ", true),
        multi_margins("", {}, false), multi_margins("squares, ", {.p = 2, .margin = 0.7}, true),
        multilabel_margins(), soft_margins(), multilabel_soft_margins("", false),
        multilabel_soft_margins("weights, ", true), poissons("", true, false),
        poissons("full, ", true, true), poissons("rates, ", false, false), hinges(),
        pairwise_distances(), ctc_rows()}) {
    rows.insert(rows.end(), part.begin(), part.end());
  }
  return rows;
}

}  // namespace taper::v0::test
