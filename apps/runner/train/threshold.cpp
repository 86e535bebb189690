#include "apps/runner/train/threshold.h"

#include <utility>

#include "apps/runner/base/errors.h"
#include "apps/runner/components/components.h"
#include "autograd/ops/binary_ops.h"
#include "autograd/ops/shape_ops.h"
#include "autograd/ops/unary_ops.h"

namespace taper::v0::runner {
namespace {

constexpr const char* kName = "threshold";

ThresholdRule rule_of(const RunConfig& config) {
  return ThresholdRule::from(config.threshold.value_or("")).value_or(ThresholdRule());
}

[[noreturn]] void refuse_threshold(const RunConfig& config, const std::string& what) {
  throw ConfigError(located(place_of(config, kName), concat_to_string("threshold: ", what)));
}

// Returns the metric whose value is the best threshold. A row of its sums has the probability of
// class 1, the weight of the sample and its class, which is negative if the row does not count.
Metric threshold_metric(data::DecisionScore score, Loss loss) {
  Metric m{.tasks = {Task::kClassification}, .concatenates = true};
  m.sums = [loss = std::move(loss)](const MetricBatch& b) {
    const Tensor probability = loss.prediction(b.outputs).select(1, 1).to(kFloat64);
    const Tensor wanted = where(gt(b.counts, 0), b.targets.to(kFloat64), -1);
    return stack({probability, b.counts, wanted}, 1);
  };
  m.value = [score](const MetricSums& all) {
    std::vector<data::ScoredSample> samples;
    for (size_t i = 0; i < all.sums.size(); i += 3) {
      if (all.sums[i + 2] < 0) continue;
      samples.push_back({all.sums[i], all.sums[i + 2] == 1, all.sums[i + 1]});
    }
    return data::best_threshold(std::move(samples), score);
  };
  return m;
}

}  // namespace

std::optional<double> given_probability(const RunConfig& config) {
  return rule_of(config).probability;
}

bool chooses_threshold(const RunConfig& config) {
  return config.threshold && !given_probability(config);
}

void require_two_classes(const RunConfig& config, const DataInfo& info) {
  const bool has_classes = info.task == Task::kClassification;
  if (!config.threshold || (has_classes && info.outputs == 2)) return;
  refuse_threshold(config, concat_to_string("decides between two classes, but the data have ",
                                            has_classes ? concat_to_string(info.outputs) : "none"));
}

std::vector<double> given_thresholds(const RunConfig& config, const data::Splits& data) {
  require_two_classes(config, data);
  if (!config.threshold) return {};
  if (const auto probability = given_probability(config)) return {*probability};
  if (!data.validation) {
    refuse_threshold(config,
                     concat_to_string(*config.threshold,
                                      " is chosen on the validation part, which the data do not "
                                      "have; set data.split.validation, such as 0.1, or give a "
                                      "number, such as 0.4"));
  }
  return {};
}

std::vector<double> choose_thresholds(Module& model, DataLoader& validation,
                                      const RunConfig& config, const DataInfo& info,
                                      const Communicator& ranks,
                                      const std::function<void(int64_t)>& after_batch) {
  RunConfig only_this = config;
  only_this.metrics = {"accuracy"};
  Evaluator evaluator(only_this, info, ranks.device());
  evaluator.add_metric(
      kName, threshold_metric(rule_of(config).score, losses().make(config.loss, {info.task, true})),
      0);
  return {evaluate(model, validation, 0, config, info, ranks, after_batch,
                   std::move(evaluator))[kName]};
}

std::string threshold_text(const std::vector<double>& thresholds, const RunConfig& config,
                           const DataInfo& info) {
  if (thresholds.empty()) return "";
  return concat_to_string(
      float(thresholds[0]), " for '", info.class_names.at(1), "'",
      chooses_threshold(config)
          ? concat_to_string(", the best ", *config.threshold, " on the validation part")
          : "");
}

}  // namespace taper::v0::runner
