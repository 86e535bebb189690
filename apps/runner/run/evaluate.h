// Evaluates a model: computes the loss and the metrics that a config names on a split of the data.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/runner/components/components.h"
#include "apps/runner/components/tables.h"
#include "apps/runner/evaluation/class_details.h"
#include "apps/runner/settings/run_config.h"
#include "data/metrics.h"
#include "framework/distributed/communicator.h"
#include "framework/tensor/tensor.h"
#include "modules/module.h"

namespace taper::v0::runner {

using distributed::Communicator;

// The result of an evaluation.
struct Metrics {
  // "loss", followed by the metrics that the config names, as in {"accuracy", 0.97}.
  std::vector<std::pair<std::string, double>> values;
  std::vector<std::vector<int64_t>> confusion;  // [true class][predicted class], if requested
  // For each class, the number of samples that are predicted to belong to it. Empty if there are
  // more than 1000 classes. Not stored in checkpoints.
  std::vector<int64_t> predicted{};
  // The errors of forecasts without a model, on the same part of the data; for series only. Not
  // stored in checkpoints.
  std::vector<data::Baseline> baselines{};
  // ClassDetails::to_json(), if the evaluator collects details. Not stored in checkpoints; known on
  // the first rank only.
  std::string details{};

  // Returns a value by its name. Throws ConfigError, which lists the names, if it was not measured.
  double operator[](const std::string& name) const;
};
// Returns a line such as "test loss:       0.0123" for each value, and the confusion matrix as a
// table if the classes have names. split: the name of the measured part of the data, "test" above.
std::string to_text(const Metrics& metrics, const std::string& split, const DataInfo& info);

//   Evaluator evaluator(config, data, device);
//   for (...) evaluator.add(model(inputs), targets);
//   Metrics metrics = evaluator.read();
class Evaluator {
 public:
  // `device` is that of the outputs; targets are moved to it. Throws ConfigError for a confusion
  // matrix of more than 1000 classes.
  Evaluator(const RunConfig& config, const DataInfo& info, Device device);

  // Adds a metric to those of the config. target: the number of the target that it measures.
  void add_metric(std::string name, Metric metric, size_t target);

  // Also computes Metrics::details, if the data have classes or labels. Each batch then
  // synchronizes. Their sums are on the host, because a small model has less memory on its device.
  void collect_details(const DataInfo& info);
  // Adds the sums of the details of all ranks. Every rank calls it after its last batch.
  void add_details_of_ranks(const Communicator& ranks);

  // Adds a batch. others: of the samples, an undefined tensor or one of Batch::others: weights [N],
  // or scales of series [N, 3]. Records no gradients and does not wait for the device.
  void add(const Tensor& outputs, const Tensor& targets, const Tensor& others = {}) {
    add(sums_of(outputs, targets, 0, others));
  }
  // Returns the sums of a batch, [n] float64. The evaluator of another rank may add them. If a
  // metric keeps a row for each sample, the size depends on the number of samples; then `samples`,
  // if not 0, is the number up to which rows are filled.
  Tensor sums_of(const Tensor& outputs, const Tensor& targets, int64_t samples = 0,
                 const Tensor& others = {});
  // Returns whether no metric needs the model's outputs, and the model can compute its loss without
  // storing all logits of this many tokens.
  bool can_use_blocks(const Module& model, int64_t tokens) const;
  // Returns the sums of a batch in that case. config: of the model.
  Tensor sums_by_blocks(Module& model, const Component& config, const Tensor& tokens,
                        const Tensor& targets);
  void add(const Tensor& sums);
  // Returns the metrics of all batches. The loss is the mean over samples, or over tokens for text,
  // without label smoothing. Errors of predicted values are in the unit of the data file. Samples
  // are weighted, except in the confusion matrix and the numbers of predictions. Several labels
  // have each metric for each of them, and its mean. Synchronizes.
  Metrics read() const;
  // Returns the names of the numbers in Metrics::values.
  std::vector<std::string> names() const;

 private:
  struct Measured {
    Component row;  // of the metric
    Metric metric;
    std::string name;   // in Metrics::values: "mae", of several targets or labels "price.mae"
    size_t target = 0;  // number of the target that it measures
    Shape shape{};      // of the sums of a batch
    std::vector<Tensor> rows{};  // of all batches, if the metric concatenates them
  };
  int64_t size_of_totals() const;
  void add_metric(const std::string& name, const RunConfig& config, const DataInfo& info,
                  Device device, size_t target);
  size_t num_targets() const { return labels_.empty() ? scales_.size() : labels_.size(); }
  // The outputs and targets of one target as metrics see them.
  struct Views {
    data::MetricBatch weighted;  // outputs of the model
    data::MetricBatch decided;   // outputs of 1 for the class that the threshold chooses
    data::MetricBatch counted;   // the same without weights
  };
  Views views_of(const Tensor& outputs, const Tensor& targets, const Tensor& weights,
                 size_t target) const;
  data::MetricBatch batch_of_series(const Tensor& outputs, const Tensor& targets,
                                    const Tensor& scales) const;
  data::MetricBatch batch_of(const Tensor& outputs, const Tensor& targets, const Tensor& weights,
                             size_t target) const;
  data::MetricBatch decided(const data::MetricBatch& batch, const Tensor& outputs,
                            size_t target) const;
  void add_means(std::vector<std::pair<std::string, double>>& values) const;
  static constexpr int64_t kMaxCounted = 1000;  // classes

  Component loss_config_;
  Loss loss_;
  Tensor totals_;  // float64: number of samples, sum of losses, sums of the metrics, predictions
  std::vector<Measured> measured_;
  std::vector<data::TargetScale> scales_;  // of each target that is a value
  std::vector<data::Label> labels_;        // of DataInfo
  std::vector<std::string> means_;         // names of the means over all labels
  std::vector<double> thresholds_;         // of DataInfo
  bool is_series_ = false;
  std::optional<ClassDetails> details_{};
  std::vector<double> detail_sums_{};  // of the batches of this rank
  int64_t counted_classes_ = 0;        // classes whose predictions are counted; 0: none
};

// Measures all batches that the loader returns in `epoch`, with the model in evaluation mode and in
// the config's precision. Then restores the mode of the model. With several ranks each measures
// some of the batches, and all return the numbers that a single rank would compute.
//
// after_batch is called with the number of batches that this rank has measured so far. It may end
// the evaluation by throwing. All ranks call it with the same sequence of numbers. By default it is
// check_stop().
Metrics evaluate(Module& model, DataLoader& batches, int64_t epoch, const RunConfig& config,
                 const DataInfo& info, const Communicator& ranks,
                 const std::function<void(int64_t batches)>& after_batch = {});
// Like evaluate() above, with the metrics of `evaluator`, which has no batches yet.
Metrics evaluate(Module& model, DataLoader& batches, int64_t epoch, const RunConfig& config,
                 const DataInfo& info, const Communicator& ranks,
                 const std::function<void(int64_t batches)>& after_batch, Evaluator evaluator);

// --- the threshold between two classes (threshold.cpp) ---

// Returns the thresholds that the config gives as a number, one for each label; an empty list if it
// gives none. Throws the errors of require_two_classes(), and ConfigError if there is no validation
// part by which a threshold could be chosen.
std::vector<double> checked_thresholds(const RunConfig& config, const data::Splits& data);

// Throws ConfigError if the config has a threshold and the data have neither two classes nor
// labels.
void require_two_classes(const RunConfig& config, const DataInfo& info);

// Returns the thresholds that the config gives as a number; an empty list if it gives none.
std::vector<double> given_thresholds(const RunConfig& config, const DataInfo& info);

// Returns whether the threshold is chosen at the end of a run.
bool chooses_threshold(const RunConfig& config);

// Returns the threshold with the best score on the samples of `validation`, or that of each label.
// Restores the mode of the model. Every rank calls it and gets the same number. after_batch: that
// of evaluate().
std::vector<double> choose_thresholds(Module& model, DataLoader& validation,
                                      const RunConfig& config, const DataInfo& info,
                                      const Communicator& ranks,
                                      const std::function<void(int64_t)>& after_batch);

// Returns "0.42 for 'yes', the best f1 on the validation part"; "" without thresholds. Labels are
// listed by name.
std::string threshold_text(const std::vector<double>& thresholds, const RunConfig& config,
                           const DataInfo& info);

}  // namespace taper::v0::runner
