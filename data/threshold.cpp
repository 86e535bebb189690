#include "data/threshold.h"

#include <algorithm>
#include <cmath>

namespace taper::v0::data {
namespace {

constexpr double kUsualThreshold = 0.5;

// The weights of samples by their class and by the class that they are assigned to.
struct Decisions {
  double true_positives = 0, false_positives = 0, true_negatives = 0, false_negatives = 0;

  double positives() const { return true_positives + false_negatives; }
  double negatives() const { return true_negatives + false_positives; }
};

double share_of(double a, double b) { return b > 0 ? a / b : 0; }

// Returns the mean of two numbers, each of which counts only if its flag is set.
double mean_of_both(double a, bool has_a, double b, bool has_b) {
  return share_of((has_a ? a : 0) + (has_b ? b : 0), double(has_a) + double(has_b));
}

double score_of_decisions(const Decisions& d, DecisionScore score, bool is_label) {
  const double hits = d.true_positives + d.true_negatives;
  const double errors = d.false_positives + d.false_negatives;
  switch (score) {
    case DecisionScore::kAccuracy: return share_of(hits, hits + errors);
    case DecisionScore::kBalancedAccuracy:
      return mean_of_both(share_of(d.true_positives, d.positives()), d.positives() > 0,
                          share_of(d.true_negatives, d.negatives()), d.negatives() > 0);
    default:
      if (is_label) return share_of(2 * d.true_positives, 2 * d.true_positives + errors);
      return mean_of_both(share_of(2 * d.true_positives, 2 * d.true_positives + errors),
                          d.true_positives + errors > 0,
                          share_of(2 * d.true_negatives, 2 * d.true_negatives + errors),
                          d.true_negatives + errors > 0);
  }
}

// Returns the threshold between two neighboring probabilities.
double threshold_between(double low, double high) {
  return low < kUsualThreshold && kUsualThreshold <= high ? kUsualThreshold
                                                          : low + (high - low) / 2;
}

// The best threshold so far.
class BestThreshold {
 public:
  void offer(double threshold, double score) {
    constexpr double kRounding = 1e-12;  // sums of weights depend on their order
    const bool is_nearer =
        std::abs(threshold - kUsualThreshold) < std::abs(threshold_ - kUsualThreshold);
    const bool is_better = score > score_ + kRounding;
    if (!is_better && !(score > score_ - kRounding && is_nearer)) return;
    threshold_ = threshold;
    score_ = std::max(score, score_);
  }
  double threshold() const { return threshold_; }

 private:
  double threshold_ = kUsualThreshold, score_ = -1;
};

}  // namespace

double best_threshold(std::vector<ScoredSample> samples, DecisionScore score, bool is_label) {
  std::erase_if(samples, [](const ScoredSample& s) { return std::isnan(s.probability); });
  if (samples.empty()) return kUsualThreshold;
  std::ranges::sort(samples, {}, &ScoredSample::probability);
  Decisions now;  // at first all samples are assigned to class 1
  for (const ScoredSample& s : samples) {
    (s.is_positive ? now.true_positives : now.false_positives) += s.weight;
  }
  BestThreshold best;
  const auto offer = [&](double threshold) {
    best.offer(threshold, score_of_decisions(now, score, is_label));
  };
  offer(threshold_between(0, samples.front().probability));
  for (size_t i = 0; i < samples.size(); ++i) {
    const ScoredSample& s = samples[i];
    (s.is_positive ? now.true_positives : now.false_positives) -= s.weight;
    (s.is_positive ? now.false_negatives : now.true_negatives) += s.weight;
    const double next = i + 1 < samples.size() ? samples[i + 1].probability : 1;
    if (next > s.probability) offer(threshold_between(s.probability, next));
  }
  return best.threshold();
}

}  // namespace taper::v0::data
