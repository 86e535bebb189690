#include <algorithm>
#include <numbers>
#include <span>

#include "apps/runner/base/errors.h"
#include "apps/runner/base/string_utils.h"
#include "apps/runner/components/components.h"
#include "autograd/ops/index/index_ops.h"
#include "framework/factory/factories.h"

namespace taper::v0::runner {
namespace {

constexpr int64_t kMaxConfusion = 1000;  // largest number of classes

// Returns a metric that depends neither on options nor on the data.
template <Metric (*kMake)()> Metric plain(const NoOptions&, const DataInfo&, Device) {
  return kMake();
}
template <Metric (*kMake)(int64_t)>
Metric metric_of_classes(const NoOptions&, const DataInfo& data, Device) {
  return kMake(data.outputs);
}
// A label has the score of the samples for which it holds.
template <Metric (*kMake)(int64_t, data::Average), data::Average::Value kAverage>
Metric metric_averaged(const NoOptions&, const DataInfo& data, Device) {
  return kMake(data.outputs, data.labels.empty() ? kAverage : data::Average::Value::kBinary);
}
template <Metric (*kMake)(double, double)>
Metric metric_of_values(const NoOptions&, const DataInfo& data, Device) {
  return kMake(data.target_mean, data.target_std);
}
Metric calibration_error(const NoOptions&, const DataInfo&, Device) {
  return data::calibration_error();
}
template <Metric (*kMake)(double)> Metric in_unit(const NoOptions&, const DataInfo& data, Device) {
  return kMake(data.target_std);
}
template <int64_t kCount> Metric top(const NoOptions&, const DataInfo&, Device) {
  return data::topk_accuracy(kCount);
}
Metric confusion(const NoOptions&, const DataInfo& data, Device) {
  require<ConfigError>(data.outputs <= kMaxConfusion, "metrics: a confusion matrix of ",
                       data.outputs, " classes is too large; the maximum is ", kMaxConfusion);
  return data::confusion_matrix(data.outputs);
}

Tensor characters_of_tokens(const data::Tokenizer& tokenizer, Device device) {
  std::vector<double> counts;
  for (int64_t id = 0; id < tokenizer.size(); ++id) {
    const std::string bytes = tokenizer.continuation(id);
    counts.push_back(
        double(std::ranges::count_if(bytes, [](char c) { return !is_continuation(c); })));
  }
  return tensor_of(counts.data(), {std::ssize(counts)}, {.device = device});
}
// Returns the metric "bits per character".
Metric bpc(const NoOptions&, const DataInfo& data, Device device) {
  Metric m{.tasks = {Task::kLanguage}};
  const data::Tokenizer* tokenizer = data.tokenizer.get();
  const Tensor lengths = tokenizer ? characters_of_tokens(*tokenizer, device) : Tensor();
  m.sums = [lengths](const MetricBatch& b) { return b.total(embedding(lengths, b.targets)); };
  m.uses_outputs = false;
  m.value = [](const MetricSums& s) { return s.loss / std::numbers::ln2 / s.sums[0]; };
  return m;
}

constexpr data::Average::Value kMacro = data::Average::kMacro, kWeighted = data::Average::kWeighted;

constexpr MetricTypes::Entry kMetrics[] = {
    {"accuracy", MetricTypes::of<NoOptions, plain<data::accuracy>>},
    {"balanced_accuracy", MetricTypes::of<NoOptions, metric_of_classes<data::balanced_accuracy>>},
    {"top3", MetricTypes::of<NoOptions, top<3>>},
    {"top5", MetricTypes::of<NoOptions, top<5>>},
    {"precision", MetricTypes::of<NoOptions, metric_averaged<data::precision, kMacro>>},
    {"precision_weighted", MetricTypes::of<NoOptions, metric_averaged<data::precision, kWeighted>>},
    {"recall", MetricTypes::of<NoOptions, metric_averaged<data::recall, kMacro>>},
    {"recall_weighted", MetricTypes::of<NoOptions, metric_averaged<data::recall, kWeighted>>},
    {"f1", MetricTypes::of<NoOptions, metric_averaged<data::f1_score, kMacro>>},
    {"f1_weighted", MetricTypes::of<NoOptions, metric_averaged<data::f1_score, kWeighted>>},
    {"auc", MetricTypes::of<NoOptions, metric_of_classes<data::auc>>},
    {"pr_auc", MetricTypes::of<NoOptions, metric_of_classes<data::average_precision>>},
    {"log_loss", MetricTypes::of<NoOptions, plain<data::log_loss>>},
    {"calibration_error", MetricTypes::of<NoOptions, calibration_error>},
    {"confusion", MetricTypes::of<NoOptions, confusion>},
    {"mae", MetricTypes::of<NoOptions, in_unit<data::mean_absolute_error>>},
    {"rmse", MetricTypes::of<NoOptions, in_unit<data::root_mean_squared_error>>},
    {"r2", MetricTypes::of<NoOptions, plain<data::r2_score>>},
    {"mape", MetricTypes::of<NoOptions, metric_of_values<data::mean_absolute_percentage_error>>},
    {"smape",
     MetricTypes::of<NoOptions, metric_of_values<data::symmetric_mean_absolute_percentage_error>>},
    {"mase", MetricTypes::of<NoOptions, plain<data::mean_absolute_scaled_error>>},
    {"perplexity", MetricTypes::of<NoOptions, plain<data::perplexity>>},
    {"bpc", MetricTypes::of<NoOptions, bpc>},
};

}  // namespace

MetricTypes& metric_types() { return MetricTypes::registry("metric", {kMetrics}); }

Metric metric(const std::string& name) {
  return metric_types().make(metric_types().component(name), {}, Device());
}

std::vector<std::string> goals() {
  std::vector<std::string> names = metric_types().names();
  std::ranges::replace(names, "confusion", "loss");
  return names;
}

bool is_better_when_greater(const std::string& goal) {
  return goal != "loss" && metric(goal).higher_is_better;
}

}  // namespace taper::v0::runner
