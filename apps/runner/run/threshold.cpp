#include <algorithm>
#include <utility>

#include "apps/runner/base/errors.h"
#include "apps/runner/components/components.h"
#include "apps/runner/run/evaluate.h"
#include "apps/runner/settings/placement.h"
#include "autograd/ops/binary_ops.h"
#include "autograd/ops/reduce_ops.h"
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
Metric threshold_metric(data::DecisionScore score, Loss loss, bool is_label) {
  Metric m{.tasks = {Task::kClassification}, .concatenates = true};
  m.sums = [loss = std::move(loss), is_label](const MetricBatch& b) {
    const Tensor both = is_label ? softmax(b.outputs, 1) : loss.prediction(b.outputs);
    const Tensor wanted = where(gt(b.counts, 0), b.targets.to(kFloat64), -1);
    return stack({both.select(1, 1).to(kFloat64), b.counts, wanted}, 1);
  };
  m.value = [score, is_label](const MetricSums& all) {
    std::vector<data::ScoredSample> samples;
    for (size_t i = 0; i < all.sums.size(); i += 3) {
      if (all.sums[i + 2] < 0) continue;
      samples.push_back({all.sums[i], all.sums[i + 2] == 1, all.sums[i + 1]});
    }
    return data::best_threshold(std::move(samples), score, is_label);
  };
  return m;
}

std::string name_of_threshold(size_t target) { return concat_to_string(kName, " ", target); }

size_t num_decisions(const DataInfo& info) { return std::max<size_t>(1, info.labels.size()); }

}  // namespace

bool chooses_threshold(const RunConfig& config) {
  return config.threshold && !rule_of(config).probability;
}

void require_two_classes(const RunConfig& config, const DataInfo& info) {
  const bool has_classes = info.task == Task::kClassification;
  const bool fits = has_classes && (info.outputs == 2 || !info.labels.empty());
  if (!config.threshold || fits) return;
  refuse_threshold(config, concat_to_string("decides between two classes, but the data have ",
                                            has_classes ? concat_to_string(info.outputs) : "none"));
}

std::vector<double> given_thresholds(const RunConfig& config, const DataInfo& info) {
  const std::optional<double> probability = rule_of(config).probability;
  return std::vector<double>(probability ? num_decisions(info) : 0, probability.value_or(0));
}

std::vector<double> checked_thresholds(const RunConfig& config, const data::Splits& data) {
  require_two_classes(config, data);
  if (chooses_threshold(config) && !data.validation) {
    refuse_threshold(config,
                     concat_to_string(*config.threshold,
                                      " is chosen on the validation part, which the data do not "
                                      "have; set data.split.validation, such as 0.1, or give a "
                                      "number, such as 0.4"));
  }
  return given_thresholds(config, data);
}

std::vector<double> choose_thresholds(Module& model, DataLoader& validation,
                                      const RunConfig& config, const DataInfo& info,
                                      const Communicator& ranks,
                                      const std::function<void(int64_t)>& after_batch) {
  RunConfig only_this = config;
  only_this.metrics = {"accuracy"};
  Evaluator evaluator(only_this, info, output_device(model, config, info, ranks.device()));
  const Loss loss = losses().make(config.loss, loss_site(info, true));
  for (size_t i = 0; i < num_decisions(info); ++i) {
    evaluator.add_metric(name_of_threshold(i),
                         threshold_metric(rule_of(config).score, loss, !info.labels.empty()), i);
  }
  const Metrics found =
      evaluate(model, validation, 0, config, info, ranks, after_batch, std::move(evaluator));
  std::vector<double> out;
  for (size_t i = 0; i < num_decisions(info); ++i) out.push_back(found[name_of_threshold(i)]);
  return out;
}

std::string threshold_text(const std::vector<double>& thresholds, const RunConfig& config,
                           const DataInfo& info) {
  if (thresholds.empty()) return "";
  std::string out;
  for (size_t i = 0; i < thresholds.size(); ++i) {
    const std::string& name = info.class_names.at(info.labels.empty() ? 1 : i);
    out += concat_to_string(i > 0 ? ", " : "", float(thresholds[i]), " for '", name, "'");
  }
  if (!chooses_threshold(config)) return out;
  return concat_to_string(out, ", the best ", *config.threshold, " on the validation part");
}

}  // namespace taper::v0::runner
