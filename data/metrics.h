// Metrics: sums over batches, which can be added over devices and ranks, and a number computed from
// them.
//
//   data::Meter accuracy(data::accuracy());
//   for (...) accuracy.update(model(batch.inputs), batch.targets);
//   std::cout << accuracy.value();
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "data/dataset.h"

namespace taper::v0::distributed {
class Communicator;  // framework/distributed/communicator.h
}

namespace taper::v0::data {

// The outputs and targets of a batch, on the model's device. In text, each token is a sample.
struct MetricBatch {
  Tensor outputs;  // float32: [N, C] for classes and tokens, [N] for values
  Tensor targets;  // [N]: int64 classes, or float32 values
  Tensor counts;   // [N] float64: 1, or 0 if the target is ignored, in which case its class is 0

  // Returns the float64 sum of `each` [N] over the samples that count.
  Tensor total(const Tensor& each) const;
};

// Prepares the outputs and targets of a batch. Accepts outputs [N, C] with classes [N]; [N, T, C]
// with tokens [N, T], of which negative ones are ignored; [N] or [N, 1], logits of class 1, with
// classes 0 and 1; and values [N] or [N, 1] with floating-point targets [N].
MetricBatch metric_batch(const Tensor& outputs, const Tensor& targets);

// Sums over all batches.
struct MetricSums {
  double count = 0, loss = 0;  // samples that count, and the sum of their losses
  std::span<const double> sums{};
};

// A metric: the sums over batches, and the number that is computed from them.
struct Metric {
  std::vector<Task> tasks;  // the tasks for which the metric is defined
  // Returns the contribution of a batch to the sums, always of the same shape, without gradients
  // and without waiting for the device. Empty if the loss is sufficient.
  std::function<Tensor(const MetricBatch&)> sums{};
  // Returns the metric from the sums. Empty if the sums are a confusion matrix, which has no single
  // value.
  std::function<double(const MetricSums&)> value{};
  bool higher_is_better = false;  // greater is better
  bool is_percentage = false;     // printed as a percentage
  bool concatenates = false;      // batches are concatenated along dimension 0, not added
};

// Accuracy of classification. If several outputs are the largest, the first one is the prediction.
// A single output per sample is the logit of class 1.
Metric accuracy();
// The share of samples whose target is among the k largest outputs.
Metric topk_accuracy(int64_t k);
// The sums are a matrix [true class][predicted class].
Metric confusion_matrix(int64_t num_classes);
// How f1_score averages (sklearn.metrics.f1_score). kMacro: the mean over all classes that occur in
// targets or outputs. kMicro: over all samples together, which equals the accuracy.
enum class Average { kMacro, kMicro };
Metric f1_score(int64_t num_classes, Average average = Average::kMacro);
// The area under the ROC curve of classes 0 and 1, for outputs [N] or [N, 2]. It is the share of
// pairs of samples in which the sample of class 1 has the higher score; equal scores count half.
// The result is exact, because all scores are kept. It is 0 if a class does not occur.
Metric auc();
// The exponential of the mean cross-entropy.
Metric perplexity();

// Mean absolute error of predicted values. `unit` is the factor that converts it to the unit of the
// data.
Metric mean_absolute_error(double unit = 1);
Metric root_mean_squared_error(double unit = 1);
// Coefficient of determination. The result is 0 if all targets are equal, as it is then undefined.
Metric r2_score();

// Accumulates a metric over batches.
class Meter {
 public:
  explicit Meter(Metric metric) : metric_(std::move(metric)) {}

  // Adds a batch. The arguments are those of metric_batch(). Keeps no gradients and does not wait
  // for the device.
  void update(const Tensor& outputs, const Tensor& targets);
  // Adds the sums of another meter of the same metric, which may be on another device.
  void add(const Meter& other);
  // Replaces the sums by the sums over all ranks. All ranks call it, with or without batches.
  // Waits.
  void all_reduce(const distributed::Communicator& ranks);
  // Waits for the device. Returns nan without batches. Throws Error if the metric has no single
  // value.
  double value() const;
  // Returns the sums, such as a confusion matrix (float64, on the device); undefined without
  // batches.
  Tensor sums() const;
  void reset();  // removes all batches

 private:
  Metric metric_;
  Tensor totals_;             // float64 [2]: number of samples, sum of their losses
  std::vector<Tensor> sums_;  // float64: one sum, or the parts to be concatenated
};

}  // namespace taper::v0::data
