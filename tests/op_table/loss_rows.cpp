#include "autograd/ops/loss.h"
#include "framework/factories.h"
#include "tests/op_table/op_table.h"

namespace taper::test {
namespace {

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

}  // namespace

std::vector<Row> loss_rows() {
  std::vector<Row> rows = cross_entropy_rows();
  for (Row& row : mse_rows()) rows.push_back(std::move(row));
  return rows;
}

}  // namespace taper::test
