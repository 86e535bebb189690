// How good outputs are: sums over batches, which add up over devices and ranks, and a number made
// of them.
//
//   data::Meter accuracy(data::accuracy());
//   for (...) accuracy.update(model(batch.inputs), batch.targets);
//   std::cout << accuracy.value();
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "data/dataset.h"
#include "framework/distributed/communicator.h"

namespace taper::v0::data {

// What a model gave for a batch, and what was wanted, on the model's device. Of text each token is
// a sample.
struct MetricBatch {
  Tensor outputs;  // float32: [N, C] of classes and tokens, [N] of values
  Tensor targets;  // [N]: int64 classes, or float32 values
  Tensor counts;   // [N] float64: 1, or 0 where the target does not count; its class is 0 then

  // The sum of [N] over those that count, float64.
  Tensor total(const Tensor& each) const;
};

// Outputs [N, C] with classes [N], [N, T, C] with tokens [N, T] (negative ones do not count), [N]
// or [N, 1] with classes 0 and 1, of which they are the logits of 1; or values [N] or [N, 1] with
// floating targets [N].
MetricBatch metric_batch(const Tensor& outputs, const Tensor& targets);

// Over all batches.
struct MetricSums {
  double count = 0, loss = 0;  // samples that count, and the sum of their losses
  std::span<const double> sums{};
};

// What is counted of each batch, and what is made of it.
struct Metric {
  std::vector<Task> tasks;  // for which there is such a number
  // What a batch adds, of the same shape each time. Keeps no gradients, does not wait for the
  // device. None: the loss is enough.
  std::function<Tensor(const MetricBatch&)> sums{};
  // The metric. None: the sums are the confusion matrix, which is no number to aim at.
  std::function<double(const MetricSums&)> value{};
  bool grows = false;      // more is better
  bool is_share = false;   // shown in percent
  bool is_joined = false;  // batches are joined along dimension 0, not added
};

// Of classes. Of equal outputs the first counts; where there is one for a sample, it is the logit
// of class 1.
Metric accuracy();
// The target is among the k largest outputs.
Metric topk_accuracy(int64_t k);
// The sums: [true class][predicted class].
Metric confusion_matrix(int64_t num_classes);
// Macro: the mean over the classes that targets or outputs have; micro: of all samples together,
// which is the accuracy (sklearn.metrics.f1_score).
enum class Average { kMacro, kMicro };
Metric f1_score(int64_t num_classes, Average average = Average::kMacro);
// The area under the ROC curve of classes 0 and 1 by outputs [N], or [N, 2]: the share of pairs of
// both in which class 1 has the higher score, where equal scores count a half. Exact: it keeps all
// scores. 0 where a class never comes.
Metric auc();
// exp of the mean cross-entropy.
Metric perplexity();

// Of values; `unit` is what 1 is in the data's own.
Metric mean_absolute_error(double unit = 1);
Metric root_mean_squared_error(double unit = 1);
// Of values that are all the same there is none, and 0 is given.
Metric r2_score();

// A metric over batches.
class Meter {
 public:
  explicit Meter(Metric metric) : metric_(std::move(metric)) {}

  // As metric_batch() has them. Keeps no gradients and does not wait for the device.
  void update(const Tensor& outputs, const Tensor& targets);
  // What another one of the same metric has seen, wherever it lies.
  void add(const Meter& other);
  // Makes this the sum over all ranks; all call it, with or without batches. Waits.
  void all_reduce(const distributed::Communicator& ranks);
  // Waits for the device; nan without batches. Error: the metric is no number.
  double value() const;
  // float64, on the device: what the batches added up to, as the confusion matrix; undefined
  // without batches.
  Tensor sums() const;
  void reset();  // as it was made

 private:
  Metric metric_;
  Tensor totals_;             // float64 [2]: samples, and their losses
  std::vector<Tensor> sums_;  // one, or those to be joined; float64
};

}  // namespace taper::v0::data
