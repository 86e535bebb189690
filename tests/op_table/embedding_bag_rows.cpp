#include <algorithm>

#include "autograd/ops/nn/embedding_bag.h"
#include "framework/factory/factories.h"
#include "tests/op_table/op_table.h"

namespace taper::v0::test {
namespace {

// The arguments after the weight: offsets of bags, and per-sample factors.
struct Bag {
  std::string variant;
  BagMode mode;
  std::vector<int64_t> offsets = {};
  bool factors = false, include_last_offset = false;
  std::optional<int64_t> padding_idx = std::nullopt;

  BagOptions options(const Tensor& given) const {
    return {mode, given, include_last_offset, padding_idx};
  }
};

Array bags(const Bag& c, const Array& index, const Array& weight, const Array* factors) {
  const int64_t n = index.shape.numel(), dim = weight.shape[1], rows = weight.shape[0];
  std::vector<int64_t> ends = c.offsets;
  for (int64_t i = 0; index.shape.size() == 2 && i < index.shape[0]; ++i) {
    ends.push_back(i * index.shape[1]);
  }
  if (!c.include_last_offset) ends.push_back(n);
  Array y{{int64_t(ends.size()) - 1, dim}, {}};
  for (size_t b = 0; b + 1 < ends.size(); ++b) {
    for (int64_t d = 0; d < dim; ++d) {
      std::vector<double> values;
      for (int64_t i = ends[b]; i < ends[b + 1]; ++i) {
        const auto row = int64_t(index.v[size_t(i)]);
        if (c.padding_idx && row == (*c.padding_idx + rows) % rows) continue;
        values.push_back(weight.v[size_t(row * dim + d)] * (factors ? factors->v[size_t(i)] : 1));
      }
      double sum = 0;
      for (const double v : values) sum += v;
      const double count = std::max(1.0, double(values.size()));
      const double largest = values.empty() ? 0 : *std::max_element(values.begin(), values.end());
      y.v.push_back(c.mode == BagMode::kSum    ? sum
                    : c.mode == BagMode::kMean ? sum / count
                                               : largest);
    }
  }
  return y;
}

Row row(const Bag& c, std::vector<std::vector<Shape>> samples) {
  return {.name = "embedding_bag",
          .variant = c.variant,
          .f =
              [c](const Tensors& x) {
                const Tensor offsets =
                    c.offsets.empty() ? Tensor() : tensor(c.offsets, {.device = x[0].device()});
                return embedding_bag(x[0], x[1], offsets, c.options(c.factors ? x[2] : Tensor()));
              },
          .reference =
              [c](const std::vector<Array>& x) {
                return bags(c, x[0], x[1], c.factors ? &x[2] : nullptr);
              },
          .samples = std::move(samples),
          .domains = {{0, 4, 1, kInt64}, Domain()},
          .dtypes = floating(),
          .tolerance = {.float16 = 4e-3, .bfloat16 = 3e-2}};
}

std::vector<Refusal> refusals() {
  const auto refused = [](const char* what, const Tensor& index, const Tensor& offsets,
                          const Bag& c, const char* text) {
    return Refusal{
        what,
        [=](Device d) {
          const Tensor at = offsets.defined() ? offsets.to(d) : offsets;
          const Tensor factors = c.factors ? ones({4}, {.device = d}) : Tensor();
          return embedding_bag(index.to(d), ones({5, 3}, {.device = d}), at, c.options(factors));
        },
        text};
  };
  const Tensor four = zeros({4}, {.dtype = kInt64});
  const Tensor starts = tensor(std::vector<int64_t>{0, 2});
  const Bag mean{"", BagMode::kMean};
  return {
      refused("no offsets", four, {}, mean,
              "offsets has to be a 1D Tensor but got an undefined Tensor"),
      refused("factors of a mean", four, starts, {"", BagMode::kMean, {}, true},
              "embedding_bag: per_sample_weights was defined. per_sample_weights is only "
              "supported for BagMode::kSum (got 'mean')."),
      refused("too many factors", zeros({3}, {.dtype = kInt64}), starts,
              {"", BagMode::kSum, {}, true},
              "embedding_bag: If per_sample_weights ([4]) is defined, then it must have the "
              "same shape as the input ([3])"),
      refused("offsets of two dimensions", zeros({4, 2}, {.dtype = kInt64}), starts, mean,
              "if input is 2D, then offsets must be undefined, as input is treated as a mini-batch "
              "of fixed length sequences."),
      refused("three dimensions", zeros({4, 2, 2}, {.dtype = kInt64}), {}, mean,
              "input has to be 1D or 2D Tensor, but got Tensor of dimension 3"),
      refused("floating index", ones({4, 2}), {}, mean,
              "Expected tensor for argument #1 'indices' to have one of the following scalar "
              "types: Long, Int; but got Float")};
}

}  // namespace

std::vector<Row> embedding_bag_rows() {
  std::vector<Row> rows;
  using enum BagMode::Value;
  for (const BagMode mode : {kSum, kMean, kMax}) {
    const std::string name = mode.word();
    const std::vector<std::vector<Shape>> even = {
        {{2, 3}, {5, 2}}, {{1, 1}, {5, 1}}, {{4, 7}, {6, 3}}, {{0, 3}, {5, 2}}, {{2, 0}, {5, 2}}};
    rows.push_back(row({name, mode}, even));
    rows.push_back(row({name + ", padding", mode, {}, false, false, -5}, {{{2, 3}, {5, 2}}}));
    rows.push_back(row({name + ", offsets", mode, {0, 2, 2, 5}}, {{{7}, {5, 2}}, {{5}, {5, 3}}}));
    rows.push_back(row({name + ", last offset", mode, {0, 3, 7}, false, true, 2}, {{{7}, {5, 2}}}));
  }
  rows.push_back(row({"sum, factors", kSum, {}, true}, {{{2, 3}, {5, 2}, {2, 3}}}));
  rows.push_back(row({"sum, offsets, factors", kSum, {0, 1, 4}, true}, {{{6}, {5, 2}, {6}}}));
  rows[0].refusals = refusals();
  return rows;
}

}  // namespace taper::v0::test
