#include <algorithm>
#include <cmath>

#include "autograd/ops/nn.h"
#include "framework/factories.h"
#include "framework/philox.h"
#include "tests/op_table/op_table.h"

namespace taper::test {
namespace {

// exp(x - max) / sum along a dimension of any array, or its logarithm.
Array normalised(const Array& x, int64_t dim, bool log) {
  const Array peak = reduced(x, {dim}, true, [](const std::vector<double>& s) {
    return *std::max_element(s.begin(), s.end());
  });
  const Reference minus = of_pairs([](double a, double b) { return a - b; });
  const Array shifted = minus({x, peak});
  const Array lse = reduced(shifted, {dim}, true, [](const std::vector<double>& s) {
    double sum = 0;
    for (const double v : s) sum += std::exp(v);
    return std::log(sum);
  });
  Array y = minus({shifted, lse});
  for (double& v : y.v) v = log ? v : std::exp(v);
  return y;
}

using Softmax = Tensor (*)(const Tensor&, int64_t);

std::vector<Row> softmax_rows(const std::string& name, Softmax f, bool log) {
  std::vector<Row> rows;
  for (const int64_t dim : {-1, 0, 1}) {
    rows.push_back(
        {.name = name,
         .variant = cat("dim ", dim),
         .f = [f, dim](const Tensors& x) { return f(x[0], dim); },
         .reference = [log,
                       dim](const std::vector<Array>& x) { return normalised(x[0], dim, log); },
         .samples = {{{3, 5}}, {{1, 1}}, {{2, 3, 4}}, {{3, 17, 2}}, {{2, 1025}}, {{0, 3}}},
         .domains = {{-6, 6}},
         .dtypes = floating(),
         .tolerance = {.float32 = 1e-5, .float16 = 2e-3, .bfloat16 = 1.6e-2}});
    if (dim == 0) rows.back().samples.pop_back();
  }
  rows[0].samples.push_back({{}});
  rows[0].samples.push_back({{7}});
  rows[0].refusals = {
      {"integers", [f](Device d) { return f(ones({2}, {.dtype = kInt64, .device = d}), 0); },
       cat("\"", name, "\" not implemented for 'Long'")},
      {"dim", [f](Device d) { return f(ones({2}, {.device = d}), 1); },
       "Dimension out of range (expected to be in range of [-1, 0], but got 1)"}};
  return rows;
}

// Negative log likelihood, in which `ignore` is skipped.
Array likelihood(const Array& logits, const Array& target, Reduction reduction, double ignore) {
  const Array logp = normalised(logits, 1, true);
  const int64_t n = logits.shape[0], classes = logits.shape[1];
  Array losses{{n}, {}};
  double sum = 0, counted = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double t = target.v[size_t(i)];
    const bool skip = t == ignore;
    losses.v.push_back(skip ? 0 : -logp.v[size_t(i * classes + int64_t(t))]);
    sum += losses.v.back();
    counted += !skip;
  }
  if (reduction == Reduction::none) return losses;
  return {{}, {reduction == Reduction::sum ? sum : sum / counted}};
}

std::vector<Row> cross_entropy_rows() {
  struct Case {
    const char* variant;
    Reduction reduction;
    int64_t ignore;
  };
  std::vector<Row> rows;
  for (const Case& c :
       {Case{"mean", Reduction::mean, kIgnoreIndex}, Case{"sum", Reduction::sum, kIgnoreIndex},
        Case{"none", Reduction::none, kIgnoreIndex}, Case{"mean, ignoring 1", Reduction::mean, 1},
        Case{"none, ignoring 1", Reduction::none, 1}}) {
    rows.push_back(
        {.name = "cross_entropy",
         .variant = c.variant,
         .f = [c](const Tensors& x) { return cross_entropy(x[0], x[1], c.reduction, c.ignore); },
         .reference =
             [c](const std::vector<Array>& x) {
               return likelihood(x[0], x[1], c.reduction, double(c.ignore));
             },
         .samples =
             {{{3, 4}, {3}}, {{1, 3}, {1}}, {{17, 3}, {17}}, {{5, 1025}, {5}}, {{128, 10}, {128}}},
         .domains = {{-4, 4}, {0, 2, 1, kInt64}},
         .dtypes = floating(),
         .derivative = Derivative::first,
         .tolerance = {.float32 = 1e-5, .float16 = 2e-3, .bfloat16 = 1.6e-2}});
    // Where every target is ignored the mean is 0 / 0.
    if (c.ignore == 1) rows.back().samples.erase(rows.back().samples.begin() + 1);
  }
  const auto call = [](const Shape& logits, const Shape& target, DType type) {
    return [=](Device d) {
      return cross_entropy(ones(logits, {.device = d}),
                           zeros(target, {.dtype = type, .device = d}));
    };
  };
  rows[0].refusals = {
      {"batch", call({2, 3}, {3}, kInt64),
       "Expected input batch_size (2) to match target batch_size (3)."},
      {"target dtype", call({2, 3}, {2}, kFloat32), "expected scalar type Long but found Float"},
      {"rank", call({2, 3, 4}, {2}, kInt64), "cross_entropy expects logits [N, classes]"},
      {"class beyond",
       [](Device d) {
         const Tensor y = cross_entropy(ones({2, 3}, {.device = d}),
                                        tensor({0, 3}, {.dtype = kInt64, .device = d}));
         return y.cpu();
       },
       "Target 3 is out of bounds.", "index 3 is out of bounds for a dimension with size 3"}};
  return rows;
}

std::vector<Row> mse_rows() {
  std::vector<Row> rows;
  for (const Reduction reduction : {Reduction::mean, Reduction::sum, Reduction::none}) {
    rows.push_back({.name = "mse_loss",
                    .variant = reduction == Reduction::mean  ? "mean"
                               : reduction == Reduction::sum ? "sum"
                                                             : "none",
                    .f = [reduction](const Tensors& x) { return mse_loss(x[0], x[1], reduction); },
                    .reference =
                        [reduction](const std::vector<Array>& x) {
                          const Array y =
                              of_pairs([](double a, double b) { return (a - b) * (a - b); })(x);
                          if (reduction == Reduction::none) return y;
                          return reduced(y, {}, false, [&](const std::vector<double>& s) {
                            double sum = 0;
                            for (const double v : s) sum += v;
                            return reduction == Reduction::sum ? sum : sum / double(s.size());
                          });
                        },
                    .samples = {{{3, 4}, {3, 4}}, {{}, {}}, {{17}, {17}}, {{2, 3}, {3}}},
                    .dtypes = floating(),
                    .tolerance = {.float32 = 1e-5, .float16 = 4e-3, .bfloat16 = 3e-2}});
  }
  rows[0].refusals = {{"shapes",
                       [](Device d) {
                         return mse_loss(ones({2, 3}, {.device = d}), ones({2, 4}, {.device = d}));
                       },
                       "The size of tensor a (3) must match the size of tensor b (4)"}};
  return rows;
}

constexpr uint64_t kMaskSeed = 7;

Row dropout_row() {
  return {
      .name = "dropout",
      .f =
          [](const Tensors& x) {
            Generator generator(kMaskSeed);
            return dropout(x[0], 0.25, true, &generator);
          },
      .reference =
          [](const std::vector<Array>& x) {
            Array y = x[0];
            for (size_t i = 0; i < y.v.size(); ++i) {
              const uint32_t word = philox({kMaskSeed, 0}, i / 4).word[i % 4];
              y.v[i] = uniform_float(word) >= 0.25f ? y.v[i] / 0.75 : 0;
            }
            return y;
          },
      .samples = {{{}}, {{0}}, {{1}}, {{3}}, {{17}}, {{1025}}, {{3, 5, 7}}},
      .dtypes = floating(),
      .refusals = {{"probability", [](Device d) { return dropout(ones({2}, {.device = d}), 1.5); },
                    "dropout probability has to be between 0 and 1, but got 1.5"},
                   {"integers",
                    [](Device d) {
                      return dropout(ones({2}, {.dtype = kInt64, .device = d}), 0.5);
                    },
                    "\"dropout\" not implemented for 'Long'"}}};
}

Row embedding_row() {
  return {
      .name = "embedding",
      .f = [](const Tensors& x) { return embedding(x[0], x[1]); },
      .reference =
          [](const std::vector<Array>& x) {
            Shape shape = x[1].shape;
            shape.push_back(x[0].shape[1]);
            const int last = shape.size() - 1;
            return gathered(x[0], shape, [&](const Shape& at) {
              const Shape row(at.begin(), at.end() - 1);
              return Shape{int64_t(x[1].v[size_t(flat_index(x[1].shape, row))]), at[last]};
            });
          },
      // More rows asked for than there are: several gradients meet in one row.
      .samples = {{{5, 3}, {7}}, {{5, 3}, {2, 3}}, {{5, 1}, {}}, {{5, 4}, {0}}, {{6, 17}, {1025}}},
      .domains = {Domain(), {0, 4, 1, kInt64}},
      .dtypes = floating(),
      .derivative = Derivative::first,
      .tolerance = {.float32 = 1e-5, .gradient = 40},
      .refusals = {{"index dtype",
                    [](Device d) {
                      return embedding(ones({2, 3}, {.device = d}), ones({2}, {.device = d}));
                    },
                    "Expected tensor for argument #1 'indices' to have one of the following "
                    "scalar types: Long, Int; but got Float instead"},
                   {"index beyond",
                    [](Device d) {
                      const Tensor index = tensor({0, 2}, {.dtype = kInt64, .device = d});
                      return embedding(ones({2, 3}, {.device = d}), index).cpu();
                    },
                    "index out of range in self.",
                    "index 2 is out of bounds for a dimension with size 2"}}};
}

}  // namespace

std::vector<Row> nn_rows() {
  std::vector<Row> rows{dropout_row(), embedding_row()};
  for (const auto& part :
       {softmax_rows("softmax", softmax, false), softmax_rows("log_softmax", log_softmax, true),
        cross_entropy_rows(), mse_rows()}) {
    rows.insert(rows.end(), part.begin(), part.end());
  }
  return rows;
}

}  // namespace taper::test
