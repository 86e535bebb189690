// The choice of a threshold compared with an exhaustive search over the metrics.
#include "data/threshold.h"

#include <cmath>
#include <limits>
#include <string>

#include "data/metrics.h"
#include "framework/factory/factories.h"
#include "framework/factory/generator.h"
#include "tests/testing.h"

namespace taper::v0::data {
namespace {

constexpr DecisionScore kScores[] = {DecisionScore::kF1, DecisionScore::kAccuracy,
                                     DecisionScore::kBalancedAccuracy};

Metric metric_of(DecisionScore score) {
  if (score == DecisionScore::kF1) return f1_score(2);
  return score == DecisionScore::kAccuracy ? accuracy() : balanced_accuracy(2);
}

// Returns the score of the decisions, measured by the metric. Each weight is a whole number.
double measured(const std::vector<ScoredSample>& samples, double threshold, DecisionScore score) {
  std::vector<float> outputs;
  std::vector<int64_t> targets;
  for (const ScoredSample& s : samples) {
    for (double n = 0; n < s.weight; ++n) {
      const bool is_positive = s.probability >= threshold;
      outputs.insert(outputs.end(), {is_positive ? 0.f : 1.f, is_positive ? 1.f : 0.f});
      targets.push_back(s.is_positive);
    }
  }
  Meter meter(metric_of(score));
  meter.update(tensor_of(outputs.data(), {std::ssize(targets), 2}),
               tensor_of(targets.data(), {std::ssize(targets)}));
  return meter.value();
}

TEST(Threshold, HasTheBestScoreOfAll) {
  Generator generator(3);
  for (const int64_t count : {1, 2, 7, 60}) {
    const std::vector<float> draws = rand({count, 3}, {}, &generator).to_floats();
    std::vector<ScoredSample> samples;
    for (size_t i = 0; i < size_t(count); ++i) {
      // Some probabilities are equal, and high ones are more often those of positive samples.
      samples.push_back({std::round(draws[3 * i] * 20) / 20, draws[3 * i] * draws[3 * i + 1] > 0.3f,
                         double(1 + int(draws[3 * i + 2] * 3))});
    }
    for (const DecisionScore score : kScores) {
      double most = 0;
      for (int i = -1; i <= 41; ++i) {
        most = std::max(most, measured(samples, i / 40.0 + 0.001, score));
      }
      const double found = best_threshold(samples, score);
      EXPECT_NEAR(measured(samples, found, score), most, 1e-9) << count;
      EXPECT_GE(found, 0);
      EXPECT_LE(found, 1);
    }
  }
}

TEST(Threshold, OfSimpleSamples) {
  struct Row {
    std::string what;
    std::vector<ScoredSample> samples;
    double threshold;
  };
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<Row> rows = {
      {"none", {}, 0.5},
      {"no probability is a number", {{kNan, true}, {kNan, false}}, 0.5},
      {"0.5 separates the classes", {{0.1, false}, {0.7, true}}, 0.5},
      {"all below 0.5", {{0.1, false}, {0.2, false}, {0.4, true}}, 0.3},
      {"all above 0.5", {{0.6, false}, {0.8, true}}, 0.7},
      {"only class 1, far below", {{0.01, true}, {0.02, true}}, 0.005},
      {"only class 0, far above", {{0.98, false}, {0.99, false}}, 0.995},
      {"a probability of 1 cannot be refused", {{1, false}, {1, true}, {1, true}}, 0.5},
      {"the heavier of two equal samples", {{0.3, true, 3}, {0.3, false, 1}}, 0.15},
      {"samples without a number do not count", {{0.2, false}, {kNan, false}, {0.4, true}}, 0.3}};
  for (const Row& row : rows) {
    EXPECT_NEAR(best_threshold(row.samples, DecisionScore::kAccuracy), row.threshold, 1e-12)
        << row.what;
  }
}

}  // namespace
}  // namespace taper::v0::data
