#include "apps/runner/train/metric.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "apps/runner/run/errors.h"
#include "apps/runner/run/text.h"
#include "autograd/ops/binary.h"
#include "autograd/ops/index.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/unary.h"
#include "framework/factories.h"

namespace taper::runner {
namespace {

constexpr int64_t kMaxConfusion = 1000;  // classes

// A row's options, of which there are none, and what it makes.
template <Metric (*kMake)(const DataInfo&, Device)> struct Row : NoOptions {
  Metric make(const DataInfo& data, Device device) const { return kMake(data, device); }
};

// The samples for which `is_hit` gives true, as a share of all.
template <Tensor (*kIsHit)(const MetricBatch&)> Metric share_of_hits(const DataInfo&, Device) {
  return {.tasks = {Task::kClassification, Task::kLanguage},
          .sums = [](const MetricBatch& b) { return b.total(kIsHit(b)); },
          .value = [](const MetricSums& all) { return all.sums[0] / all.count; },
          .grows = true,
          .is_share = true};
}
Tensor is_right(const MetricBatch& b) { return eq(argmax(b.outputs, 1), b.targets); }
Tensor is_among_five(const MetricBatch& b) {
  const Tensor of_target = gather(b.outputs, 1, b.targets.unsqueeze(1));
  const Tensor rank = sum(gt(b.outputs, of_target), {1});
  return lt(rank, full_like(rank, 5));
}

Metric confusion(const DataInfo& data, Device) {
  const int64_t C = data.outputs;
  if (C > kMaxConfusion) {
    throw ConfigError(cat("metrics: a confusion matrix of ", C,
                          " classes is too large; the most is ", kMaxConfusion));
  }
  return {.tasks = {Task::kClassification}, .sums = [C](const MetricBatch& b) {
            const Tensor rows = one_hot(b.targets, C).to(kFloat32),
                         counted = rows * b.counts.to(kFloat32).unsqueeze(1);
            return matmul(counted.transpose(0, 1), one_hot(argmax(b.outputs, 1), C).to(kFloat32));
          }};
}

Tensor error_of(const MetricBatch& b) { return b.outputs.to(kFloat64) - b.targets.to(kFloat64); }
Metric mae(const DataInfo& data, Device) {
  return {.tasks = {Task::kRegression},
          .sums = [](const MetricBatch& b) { return sum(abs(error_of(b))); },
          .value = [unit = data.target_std](
                       const MetricSums& all) { return all.sums[0] / all.count * unit; }};
}
Metric rmse(const DataInfo& data, Device) {
  return {
      .tasks = {Task::kRegression},
      .sums = [](const MetricBatch& b) { return sum(square(error_of(b))); },
      .value = [unit = data.target_std](
                   const MetricSums& all) { return std::sqrt(all.sums[0] / all.count) * unit; }};
}
// Of values that are all the same there is none, and 0 is given.
Metric r2(const DataInfo&, Device) {
  return {.tasks = {Task::kRegression},
          .sums =
              [](const MetricBatch& b) {
                const Tensor y = b.targets.to(kFloat64);
                return stack({sum(square(error_of(b))), sum(y), sum(square(y))});
              },
          .value =
              [](const MetricSums& all) {
                const double spread = all.sums[2] - all.sums[1] * all.sums[1] / all.count;
                return spread > 0 ? 1 - all.sums[0] / spread : 0;
              },
          .grows = true};
}

Metric perplexity(const DataInfo&, Device) {
  return {.tasks = {Task::kLanguage},
          .value = [](const MetricSums& all) { return std::exp(all.loss / all.count); }};
}

Tensor characters_of_tokens(const data::Tokenizer& tokenizer, Device device) {
  std::vector<double> counts;
  for (int64_t id = 0; id < tokenizer.size(); ++id) {
    const std::string bytes = tokenizer.decode(std::span(&id, 1));
    counts.push_back(
        double(std::ranges::count_if(bytes, [](char c) { return !is_continuation(c); })));
  }
  return tensor_of(counts.data(), {std::ssize(counts)}, {.device = device});
}
// Bits per character.
Metric bpc(const DataInfo& data, Device device) {
  const Tensor characters =
      data.tokenizer ? characters_of_tokens(*data.tokenizer, device) : Tensor();
  return {
      .tasks = {Task::kLanguage},
      .sums =
          [characters](const MetricBatch& b) { return b.total(embedding(characters, b.targets)); },
      .value = [](const MetricSums& all) { return all.loss / std::numbers::ln2 / all.sums[0]; }};
}

constexpr MetricTypes::Entry kMetrics[] = {
    {"accuracy", MetricTypes::of<Row<share_of_hits<is_right>>>},
    {"top5", MetricTypes::of<Row<share_of_hits<is_among_five>>>},
    {"confusion", MetricTypes::of<Row<confusion>>},
    {"mae", MetricTypes::of<Row<mae>>},
    {"rmse", MetricTypes::of<Row<rmse>>},
    {"r2", MetricTypes::of<Row<r2>>},
    {"perplexity", MetricTypes::of<Row<perplexity>>},
    {"bpc", MetricTypes::of<Row<bpc>>},
};

}  // namespace

Tensor MetricBatch::total(const Tensor& each) const { return sum(each.to(kFloat64) * counts); }

MetricTypes& metric_types() {
  static MetricTypes table("metric", {kMetrics});
  return table;
}

Metric metric(const std::string& name) {
  return metric_types().make(metric_types().component(name), {}, Device());
}

}  // namespace taper::runner
