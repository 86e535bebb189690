// The probability from which on a sample is assigned to class 1 of two classes.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/base/namespace.h"
#include "framework/base/text_enum.h"

namespace taper::v0::data {

// A score of decisions between two classes. kF1: the mean of the F1 of both classes, as f1_score()
// computes it.
struct DecisionScoreValues {
  enum class Value : uint8_t { kF1, kAccuracy, kBalancedAccuracy };
  static constexpr Value kF1 = Value::kF1, kAccuracy = Value::kAccuracy,
                         kBalancedAccuracy = Value::kBalancedAccuracy;
  static constexpr const char* kOption = "score";
  static constexpr const char* kWords[] = {"f1", "accuracy", "balanced_accuracy"};
};
using DecisionScore = TextEnum<DecisionScoreValues>;

// A sample of two classes: the predicted probability of class 1, and whether it belongs to it.
struct ScoredSample {
  double probability = 0;
  bool is_positive = false;
  double weight = 1;
};

// Returns the threshold with the best score if samples with at least this probability are assigned
// to class 1. A threshold lies midway between two probabilities that occur, or is 0.5 where that
// decides in the same way. Among equal scores, returns the threshold that is nearest to 0.5.
// Returns 0.5 without samples. Samples whose probability is NaN do not count. is_label: class 1 is
// a label, and kF1 is its F1 alone.
double best_threshold(std::vector<ScoredSample> samples, DecisionScore score,
                      bool is_label = false);

}  // namespace taper::v0::data
