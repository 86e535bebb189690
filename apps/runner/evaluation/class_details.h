// What a report draws of a classification: rates of the classes, confusion, calibration, ROC
// curves.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "apps/runner/components/tables.h"
#include "framework/tensor/tensor.h"

namespace taper::v0::runner {

// Returns a confusion matrix [true class][predicted class] as a JSON object. "classes" has for each
// class its samples, its predictions and its hits. Up to 100 classes, "rows" is the matrix. Beyond
// that, "pairs" has the 60 most frequent errors as [true class, predicted class, count].
std::string confusion_json(const std::vector<std::vector<int64_t>>& counts);

// Sums over samples, from which the details are computed. Sums of batches can be added, and their
// number does not depend on that of the samples.
class ClassDetails {
 public:
  // Measures classes, or several labels that may all hold. The thresholds are those of `info`.
  explicit ClassDetails(const DataInfo& info);

  // Returns whether `info` is of data that have such details: classes or labels, at most 1000.
  static bool fits(const DataInfo& info);

  size_t num_sums() const { return num_sums_; }
  // Returns the sums of a batch. probabilities: [N, classes], or [N, labels]; targets: classes [N]
  // int64, or labels [N, labels] of 0 and 1; weights: [N], or undefined. Synchronizes.
  std::vector<double> sums_of(const Tensor& probabilities, const Tensor& targets,
                              const Tensor& weights) const;
  // Returns a JSON object computed from the sums of all batches:
  //   samples      the number of samples
  //   confusion    confusion_json(); of labels, and of more than 200 classes, only its "classes"
  //   calibration  {error, bins}: the expected calibration error (data/metrics.h), and for each bin
  //                that has samples its mean confidence, its share of hits and its share of weights
  //   roc          up to 50 classes: for each class or label, against the others, {class, auc,
  //                points}; a point is a false and a true positive rate. Of two classes only the
  //                second is listed. Scores are counted in 16384 steps of their log-odds.
  // Calibration and ROC are weighted by the samples' weights.
  std::string to_json(std::span<const double> sums) const;

 private:
  void add_sample(std::span<const float> row, std::span<const float> holds, double weight,
                  std::span<double> sums) const;
  void add_confidence(double confidence, bool is_hit, double weight, std::span<double> sums) const;
  void add_decision(size_t wanted, size_t given, std::span<double> sums) const;
  size_t predicted_class(std::span<const float> row) const;
  bool is_predicted_label(std::span<const float> row, size_t label) const;

  size_t classes_, num_sums_;
  bool is_labels_, has_matrix_, has_scores_;
  std::vector<double> thresholds_;
};

}  // namespace taper::v0::runner
