// Metrics: sums over batches, which can be added over devices and ranks, and a number computed from
// them.
//
//   data::Meter accuracy(data::accuracy());
//   for (...) accuracy.update(model(batch.inputs), batch.targets);
//   std::cout << accuracy.value();
#pragma once

#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data/dataset.h"
#include "framework/base/text_enum.h"

namespace taper::v0::distributed {
class Communicator;  // framework/distributed/communicator.h
}

namespace taper::v0::data {

// The outputs and targets of a batch, on the model's device. In text, each token is a sample.
struct MetricBatch {
  Tensor outputs;  // float32: [N, C] for classes and tokens, [N] for values
  Tensor targets;  // [N]: int64 classes, or float32 values
  // [N] float64: the weight of the sample, which is 1 without weights. It is 0 if the target is
  // ignored, in which case its class is 0.
  Tensor counts;
  // [N] float64, of series: the number by which mean_absolute_scaled_error() divides the error of
  // the sample; undefined: 1.
  Tensor scales{};

  // Returns the float64 sum of `each` [N], multiplied by the weights.
  Tensor total(const Tensor& each) const;
};

// Prepares the outputs and targets of a batch. Accepts outputs [N, C] with classes [N]; [N, T, C]
// with tokens [N, T], of which negative ones are ignored; [N] or [N, 1], logits of class 1, with
// classes 0 and 1; and values [N] or [N, 1] with floating-point targets [N]. weights: one for each
// target (sample_weight of scikit-learn's metrics), or undefined.
MetricBatch metric_batch(const Tensor& outputs, const Tensor& targets, const Tensor& weights = {});

// Sums over all batches.
struct MetricSums {
  // The sum of the weights, which is the number of samples without weights, and that of the losses.
  double count = 0, loss = 0;
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
  // Depends only on which output of a sample is the largest. If a threshold decides between two
  // classes, an evaluation passes outputs of 1 for the chosen class and 0 for the other.
  bool uses_decisions = false;
  // Batches are concatenated along dimension 0, not added. The sums are then rows [n, columns], and
  // rows with a negative last column do not count.
  bool concatenates = false;
  // If false, the sums depend only on targets and counts, and the outputs may be undefined.
  bool uses_outputs = true;
};

// Accuracy of classification. If several outputs are the largest, the first one is the prediction.
// A single output per sample is the logit of class 1.
Metric accuracy();
// The share of samples whose target is among the k largest outputs.
Metric topk_accuracy(int64_t k);
// The sums are a matrix [true class][predicted class].
Metric confusion_matrix(int64_t num_classes);
// How a score is averaged over the classes. kMacro: the mean over all classes that occur in targets
// or outputs. kWeighted: the mean weighted by the classes' shares of the targets. kMicro: the score
// over all samples together, which equals the accuracy. kBinary: the score of class 1 of two
// classes (sklearn.metrics.f1_score and others). A score of 0 / 0 counts as 0.
struct AverageValues {
  enum class Value : uint8_t { kMacro, kMicro, kWeighted, kBinary };
  static constexpr Value kMacro = Value::kMacro, kMicro = Value::kMicro,
                         kWeighted = Value::kWeighted, kBinary = Value::kBinary;
  static constexpr const char* kOption = "average";
  static constexpr const char* kWords[] = {"macro", "micro", "weighted", "binary"};
};
using Average = TextEnum<AverageValues>;

// The share of the predictions of a class that are right.
Metric precision(int64_t num_classes, Average average = Average::kMacro);
// The share of the samples of a class that are found.
Metric recall(int64_t num_classes, Average average = Average::kMacro);
// The harmonic mean of precision and recall.
Metric f1_score(int64_t num_classes, Average average = Average::kMacro);
// The mean recall of the classes that occur in the targets
// (sklearn.metrics.balanced_accuracy_score).
Metric balanced_accuracy(int64_t num_classes);

// The area under the ROC curve. It is the share of pairs of samples, one of the class and one of
// another, in which the first has the higher score; equal scores count half. For outputs [N] or [N,
// 2], it is the area of class 1. Otherwise it is the mean over the classes that occur, each against
// the others (sklearn.metrics.roc_auc_score with multi_class="ovr"). The result is exact, because
// all scores are kept. It is 0 if only one class occurs.
Metric auc(int64_t num_classes = 2);
// The area under the curve of precision against recall, without interpolation
// (sklearn.metrics.average_precision_score). Takes the same outputs as auc().
Metric average_precision(int64_t num_classes = 2);
// The mean cross-entropy, without weights of classes and label smoothing
// (sklearn.metrics.log_loss).
Metric log_loss();
// The expected calibration error. Samples are divided by their highest probability into bins of
// equal width. The error is the mean difference between that probability and the share of hits in a
// bin (Guo et al., On Calibration of Modern Neural Networks, 2017).
Metric calibration_error(int64_t bins = 15);
// The exponential of the mean cross-entropy.
Metric perplexity();

// Mean absolute error of predicted values. `unit` is the factor that converts it to the unit of the
// data.
Metric mean_absolute_error(double unit = 1);
Metric root_mean_squared_error(double unit = 1);
// Measure the mean of |output - target| / |target| and the mean of 2 |output - target| / (|output|
// + |target|). Outputs and targets x are first converted to x * std + mean. A denominator of 0
// counts as 2.2e-16 (sklearn.metrics.mean_absolute_percentage_error).
Metric mean_absolute_percentage_error(double mean = 0, double std = 1);
Metric symmetric_mean_absolute_percentage_error(double mean = 0, double std = 1);
// The mean absolute error, each divided by the scale of its sample: the error of the naive forecast
// in training (MASE; Hyndman and Koehler, Another look at measures of forecast accuracy, 2006).
Metric mean_absolute_scaled_error();
// Coefficient of determination. The result is 0 if all targets are equal, as it is then undefined.
Metric r2_score();

// The errors of a forecast that needs no model, with which a model is compared.
struct Baseline {
  std::string name;                                    // "last value"
  std::vector<std::pair<std::string, double>> errors;  // by the names of metrics
};

// Accumulates a metric over batches.
class Meter {
 public:
  explicit Meter(Metric metric) : metric_(std::move(metric)) {}

  // Adds a batch. The arguments are those of metric_batch(). Keeps no gradients and does not wait
  // for the device.
  void update(const Tensor& outputs, const Tensor& targets, const Tensor& weights = {});
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
