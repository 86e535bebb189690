#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include <gtest/gtest.h>

#include "autograd/engine.h"
#include "autograd/ops/binary_ops.h"
#include "autograd/ops/random_ops.h"
#include "autograd/ops/reduce_ops.h"
#include "autograd/ops/shape_ops.h"
#include "autograd/ops/unary_ops.h"
#include "framework/base/philox.h"
#include "framework/factory/factories.h"
#include "tests/op_table/op_table.h"
#include "tests/testing.h"

namespace taper::v0::test {
namespace {

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

Row dropout_add_row() {
  Row row = dropout_row();
  row.name = "dropout_add";
  row.f = [](const Tensors& x) {
    Generator generator(kMaskSeed);
    return dropout_add(x[0], 0.25, true, x[1], &generator);
  };
  row.reference = [dropped = row.reference](const std::vector<Array>& x) {
    Array y = dropped({x[0]});
    for (size_t i = 0; i < y.v.size(); ++i) y.v[i] += x[1].v[i];
    return y;
  };
  row.samples = {{{}, {}}, {{0}, {0}}, {{17}, {17}}, {{1025}, {1025}}, {{3, 5, 7}, {3, 5, 7}}};
  row.refusals = {{"probability",
                   [](Device d) {
                     const Tensor x = ones({2}, {.device = d});
                     return dropout_add(x, -0.5, true, x);
                   },
                   "dropout probability has to be between 0 and 1, but got -0.5"}};
  return row;
}

// Dropout of the channels of x, the first `leading(x)` dimensions.
Reference dropped_channels(int (*leading)(const Shape&)) {
  return [leading](const std::vector<Array>& x) {
    Array y = x[0];
    const Shape channels(y.shape.begin(), y.shape.begin() + leading(y.shape));
    for (size_t i = 0; i < y.v.size(); ++i) {
      const size_t channel = i / (y.v.size() / size_t(channels.numel()));
      const uint32_t word = philox({kMaskSeed, 0}, channel / 4).word[channel % 4];
      y.v[i] = uniform_float(word) >= 0.25f ? y.v[i] / 0.75 : 0;
    }
    return y;
  };
}

Row dropout2d_row() {
  return {
      .name = "dropout2d",
      .f =
          [](const Tensors& x) {
            Generator generator(kMaskSeed);
            return dropout2d(x[0], 0.25, true, &generator);
          },
      .reference = dropped_channels([](const Shape&) { return 2; }),
      .samples = {{{3, 5}}, {{0, 2, 3}}, {{2, 3, 1}}, {{3, 5, 2, 7}}, {{41, 30, 2}}},
      .dtypes = floating(),
      .refusals = {{"one dimension", [](Device d) { return dropout2d(ones({2}, {.device = d})); },
                    "Feature dropout requires at least 2 dimensions in the input"},
                   {"probability",
                    [](Device d) {
                      return dropout2d(ones({2, 3}, {.device = d}), 1.5);
                    },
                    "dropout probability has to be between 0 and 1, but got 1.5"}}};
}

Row dropout3d_row() {
  return {
      .name = "dropout3d",
      .f =
          [](const Tensors& x) {
            Generator generator(kMaskSeed);
            return dropout3d(x[0], 0.25, true, &generator);
          },
      .reference = dropped_channels([](const Shape& s) { return s.size() == 5 ? 2 : 1; }),
      .samples =
          {{{3, 5, 1, 2, 3}}, {{0, 2, 3, 2, 1}}, {{5, 2, 3, 2}}, {{7, 3}}, {{41, 30, 2, 1, 2}}},
      .dtypes = floating(),
      .refusals = {{"no dimensions", [](Device d) { return dropout3d(ones({}, {.device = d})); },
                    "Feature dropout of volumes requires at least 1 dimension in the input"},
                   {"probability",
                    [](Device d) {
                      return dropout3d(ones({2, 3}, {.device = d}), 1.5);
                    },
                    "dropout probability has to be between 0 and 1, but got 1.5"}}};
}

// The noise is -log of an exponential variable; the values and the gradient of a hard result
// differ.
Row gumbel_row(bool hard) {
  const auto point = [](const Array& x, double tau) {
    Array y = x;
    for (size_t i = 0; i < y.v.size(); ++i) {
      const uint32_t word = philox({kMaskSeed, 0}, i / 4).word[i % 4];
      y.v[i] = (y.v[i] - std::log(-std::log1p(-double(uniform_float(word))))) / tau;
    }
    if (y.shape.size() == 0) return Array{{}, {1}};
    return y.v.empty() ? y : normalised(y, -1, false);
  };
  Row row{.name = "gumbel_softmax",
          .variant = hard ? "hard" : "",
          .f =
              [=](const Tensors& x) {
                Generator generator(kMaskSeed);
                return gumbel_softmax(x[0], 0.75, hard, -1, &generator);
              },
          .reference =
              [=](const std::vector<Array>& x) {
                const Array y = point(x[0], 0.75);
                if (!hard || y.shape.size() == 0) return y;
                Array one = y;
                const auto n = size_t(y.shape.back());
                for (size_t start = 0; start < y.v.size(); start += n) {
                  const auto first = y.v.begin() + int64_t(start);
                  const auto most = std::max_element(first, first + int64_t(n)) - first;
                  for (size_t i = 0; i < n; ++i) one.v[start + i] = int64_t(i) == most;
                }
                return one;
              },
          .samples = {{{}}, {{3}}, {{1}}, {{5, 7}}, {{2, 3, 4}}, {{2, 1025}}},
          // Fewer bits than a half has, so that every dtype draws the same largest element.
          .domains = {{-2, 2, 0.25}},
          .dtypes = floating(),
          .tolerance = {.float32 = 1e-5, .float16 = 2e-3, .bfloat16 = 1e-2}};
  if (hard) {
    row.derivative = Derivative::kNone;  // not that of the values
    return row;
  }
  row.samples.push_back({{2, 0}});
  row.refusals = {
      {"integers",
       [](Device d) {
         return gumbel_softmax(longs({1, 2}, d));
       },
       "gumbel_softmax expects logits of a floating-point dtype, but got int64"},
      {"dim", [](Device d) { return gumbel_softmax(ones({2}, {.device = d}), 1, false, 3); },
       "Dimension out of range"}};
  return row;
}

// A hard sample is one-hot with the gradient of the soft one, and large samples have the
// probabilities of the logits.
TEST(Random, HardGumbelSoftmax) {
  for (const Device device : all_devices()) {
    const auto sample = [](const Tensor& x, bool hard) {
      Generator generator(kMaskSeed);
      return gumbel_softmax(x, 0.5, hard, -1, &generator);
    };
    const Tensor x = filled({4, 5}, {-1, 1}, 3, kFloat64, device).requires_grad_();
    const Tensor hard = sample(x, true), weight = filled({4, 5}, {-1, 1}, 4, kFloat64, device);
    EXPECT_TRUE(close(sum(hard, {1}), {4}, {1, 1, 1, 1}, 0));
    EXPECT_TRUE(close(amax(hard, {1}), {4}, {1, 1, 1, 1}, 0));
    EXPECT_TRUE(close(grad({sum(hard * weight)}, {x})[0],
                      grad({sum(sample(x, false) * weight)}, {x})[0], 0));
    const Tensor logits = log(tensor({0.5, 0.3, 0.2}, {.device = device}));
    const Tensor draws = sample(expand(logits, {20000, 3}), true);
    EXPECT_TRUE(close(mean(draws, {0}), {3}, {0.5, 0.3, 0.2}, 0.015));
  }
}

Row bernoulli_row() {
  return {
      .name = "bernoulli",
      .f =
          [](const Tensors& x) {
            Generator generator(kMaskSeed);
            return bernoulli(x[0], &generator);
          },
      .reference =
          [](const std::vector<Array>& x) {
            Array y = x[0];
            for (size_t i = 0; i < y.v.size(); ++i) {
              const uint32_t word = philox({kMaskSeed, 0}, i / 4).word[i % 4];
              y.v[i] = uniform_float(word) < y.v[i];
            }
            return y;
          },
      .samples = {{{}}, {{0}}, {{3}}, {{1025}}, {{3, 5, 7}}},
      .domains = {{0, 1, 0x1p-6}},
      .dtypes = floating(),
      .derivative = Derivative::kNone,
      .refusals = {{"integers",
                    [](Device d) { return bernoulli(ones({2}, {.dtype = kInt64, .device = d})); },
                    "\"bernoulli_tensor\" not implemented for 'Long'"}}};
}

// Weights [k] or [rows, k] as rows, and the shape of the samples drawn from them.
struct Rows {
  int64_t rows, k;
  Shape result;
};
Rows rows_of(const Array& weights, int64_t n) {
  const bool one = weights.shape.size() == 1;
  if (one) return {1, weights.shape[0], {n}};
  return {weights.shape[0], weights.shape[1], {weights.shape[0], n}};
}

// Returns the n categories with the largest weight / e, where e is exponentially distributed: half
// the sum of the squares of two normal numbers.
Array race(const Array& weights, int64_t n) {
  const Rows r = rows_of(weights, n);
  Generator generator(kMaskSeed);
  const std::vector<double> z = randn({2, r.rows * r.k}, {}, &generator).to_vector<double>();
  Array y{r.result, {}};
  for (int64_t row = 0; row < r.rows; ++row) {
    std::vector<std::pair<double, int64_t>> scores;
    for (int64_t i = 0; i < r.k; ++i) {
      const size_t at = size_t(row * r.k + i);
      const double a = z[at], b = z[at + z.size() / 2];
      scores.push_back({-weights.v[at] / (a * a + b * b), i});
    }
    std::sort(scores.begin(), scores.end());
    for (int64_t i = 0; i < n; ++i) y.v.push_back(double(scores[size_t(i)].second));
  }
  return y;
}

// Returns the first category whose cumulative weight exceeds a uniform share of the total.
Array inverse(const Array& weights, int64_t n) {
  const Rows r = rows_of(weights, n);
  Generator generator(kMaskSeed);
  const auto u = rand({r.rows, n}, {.dtype = kFloat64}, &generator).to_vector<double>();
  Array y{r.result, {}};
  for (int64_t row = 0; row < r.rows; ++row) {
    const auto first = weights.v.begin() + row * r.k;
    const double total = std::accumulate(first, first + r.k, 0.0);
    for (int64_t i = 0; i < n; ++i) {
      double left = u[size_t(row * n + i)] * total;
      int64_t at = 0;
      while (left >= first[at]) left -= first[at++];
      y.v.push_back(double(at));
    }
  }
  return y;
}

std::vector<Row> multinomial_rows() {
  std::vector<Row> rows;
  for (const bool replacement : {false, true}) {
    const int64_t n = replacement ? 7 : 3;
    rows.push_back({.name = "multinomial",
                    .variant = replacement ? "replacement" : "",
                    .f =
                        [=](const Tensors& x) {
                          Generator generator(kMaskSeed);
                          return multinomial(x[0], n, replacement, &generator);
                        },
                    .reference =
                        [=](const std::vector<Array>& x) {
                          return replacement ? inverse(x[0], n) : race(x[0], n);
                        },
                    .samples = {{{3}}, {{17}}, {{5, 33}}, {{2, 1025}}},
                    .domains = {{0, 3, 0.5}},
                    .dtypes = {kFloat32, kFloat16, kBFloat16},
                    .gives = Gives::kInt64,
                    .derivative = Derivative::kNone});
  }
  rows[0].domains = {{0.1, 3}};
  rows[1].samples = {{{5, 33}}, {{2, 1025}}};  // some weights are 0, but never all of a row
  const auto of = [](Shape shape, int64_t n, DType type = kFloat32) {
    return [=](Device d) { return multinomial(ones(shape, {.dtype = type, .device = d}), n); };
  };
  rows[0].refusals = {{"rank", of({2, 2, 2}, 1), "prob_dist must be 1 or 2 dim"},
                      {"none", of({2}, 0), "cannot sample n_sample <= 0 samples"},
                      {"too many", of({2}, 3),
                       "cannot sample n_sample > prob_dist.size(-1) samples without replacement"},
                      {"integers", of({2}, 1, kInt64),
                       "multinomial only supports floating-point dtypes for input, got: Long"}};
  return rows;
}

}  // namespace

std::vector<Row> random_rows() {
  std::vector<Row> rows = multinomial_rows();
  rows.push_back(dropout_row());
  rows.push_back(dropout_add_row());
  rows.push_back(dropout2d_row());
  rows.push_back(dropout3d_row());
  rows.push_back(bernoulli_row());
  rows.push_back(gumbel_row(false));
  rows.push_back(gumbel_row(true));
  return rows;
}

}  // namespace taper::v0::test
