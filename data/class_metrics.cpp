// Metrics of classes: shares of hits, scores from the counts of each class, and areas under curves.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "autograd/ops/binary_ops.h"
#include "autograd/ops/index/index_ops.h"
#include "autograd/ops/matmul_ops.h"
#include "autograd/ops/nn/loss_ops.h"
#include "autograd/ops/reduce_ops.h"
#include "autograd/ops/shape_ops.h"
#include "autograd/ops/unary_ops.h"
#include "data/metrics.h"
#include "framework/factory/factories.h"

namespace taper::v0::data {
namespace {

// Returns the metric that is the share of samples for which `is_hit` returns true.
template <class IsHit> Metric share_of_hits(IsHit is_hit) {
  return {.tasks = {Task::kClassification, Task::kLanguage},
          .sums =
              [is_hit](const MetricBatch& b) {
                // Throws for a target that is not one of the classes.
                (void)nll_loss(b.outputs.to(kFloat32), b.targets, {.reduction = Reduction::kNone});
                return b.total(is_hit(b));
              },
          .value = [](const MetricSums& all) { return all.sums[0] / all.count; },
          .higher_is_better = true,
          .is_percentage = true};
}

// --- scores from the counts of each class ---

struct ClassCounts {
  double hits, targets, predictions;
};
double ratio(double a, double b) { return b > 0 ? a / b : 0; }
double precision_of(const ClassCounts& n) { return ratio(n.hits, n.predictions); }
double recall_of(const ClassCounts& n) { return ratio(n.hits, n.targets); }
double f1_of(const ClassCounts& n) { return ratio(2 * n.hits, n.targets + n.predictions); }

// The weight of a class in a mean over the classes.
double weight_if_seen(const ClassCounts& n) { return n.targets + n.predictions > 0; }
double weight_if_target(const ClassCounts& n) { return n.targets > 0; }
double weight_of_all(const ClassCounts&) { return 1; }
double weight_by_targets(const ClassCounts& n) { return n.targets; }

using OfClass = double (*)(const ClassCounts&);

// Returns the weighted mean of a score over the classes from number `first` on.
Metric mean_over_classes(int64_t num_classes, OfClass score, OfClass weight, size_t first = 0) {
  Metric m{.tasks = {Task::kClassification}, .higher_is_better = true, .uses_decisions = true};
  m.sums = [C = num_classes](const MetricBatch& b) {
    const Tensor wanted = one_hot(b.targets, C).to(kFloat64) * b.counts.unsqueeze(1);
    const Tensor given = one_hot(argmax(b.outputs, 1), C).to(kFloat64);
    const Tensor weighted = given * b.counts.unsqueeze(1);
    return stack({sum(wanted * given, {0}), sum(wanted, {0}), sum(weighted, {0})});
  };
  m.value = [C = size_t(num_classes), score, weight, first](const MetricSums& all) {
    double sum = 0, weights = 0;
    for (size_t c = first; c < C; ++c) {
      const ClassCounts counts{all.sums[c], all.sums[C + c], all.sums[2 * C + c]};
      sum += weight(counts) * score(counts);
      weights += weight(counts);
    }
    return sum / weights;
  };
  return m;
}

Metric averaged(int64_t num_classes, OfClass score, Average average) {
  if (average == Average::kMicro) return accuracy();
  if (average == Average::kBinary) {
    require<ValueError>(num_classes == 2, "Average::kBinary: expected 2 classes, got ",
                        num_classes);
    return mean_over_classes(num_classes, score, weight_of_all, 1);
  }
  return mean_over_classes(num_classes, score,
                           average == Average::kMacro ? weight_if_seen : weight_by_targets);
}

// --- areas under curves ---

// A sample in a ranking of one class against all others.
struct Ranked {
  double score = 0;
  bool is_positive = false;
  double weight = 1;
};
// The weights of the samples that have the same score.
struct Tie {
  double positives = 0, negatives = 0;
};

// Returns the samples in groups of equal scores, by descending score.
std::vector<Tie> ties_of(std::vector<Ranked> all) {
  std::ranges::sort(all, [](const Ranked& a, const Ranked& b) { return a.score > b.score; });
  std::vector<Tie> out;
  for (size_t i = 0; i < all.size(); ++i) {
    if (i == 0 || all[i].score != all[i - 1].score) out.emplace_back();
    (all[i].is_positive ? out.back().positives : out.back().negatives) += all[i].weight;
  }
  return out;
}

// Returns the share of pairs of a positive and a negative sample in which the positive one has the
// higher score. Equal scores count half.
double area_under_roc(const std::vector<Tie>& ties) {
  double area = 0, negatives = 0, positives = 0;
  for (const Tie& tie : ties) {
    area += tie.negatives * (positives + tie.positives / 2);
    negatives += tie.negatives;
    positives += tie.positives;
  }
  return ratio(area, negatives * positives);
}

// Returns the mean of the precision at each positive sample.
double average_precision_of(const std::vector<Tie>& ties) {
  double sum = 0, seen = 0, positives = 0;
  for (const Tie& tie : ties) {
    seen += tie.negatives + tie.positives;
    positives += tie.positives;
    sum += tie.positives * ratio(positives, seen);
  }
  return ratio(sum, positives);
}

using AreaOf = double (*)(const std::vector<Tie>&);

// Returns the area for class `c`. A row of the sums consists of the scores of each class, the
// weight, and the target's class, which is negative if the row does not count. Returns std::nullopt
// if all samples or none belong to the class.
std::optional<double> area_of_class(const MetricSums& all, size_t classes, size_t c, AreaOf area) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  std::vector<Ranked> ranked;
  size_t positives = 0;
  for (size_t row = 0; row < all.sums.size(); row += classes + 2) {
    const double score = all.sums[row + c], target = all.sums[row + classes + 1];
    if (target < 0) continue;
    if (std::isnan(score)) return kNan;
    ranked.push_back({score, target == double(c), all.sums[row + classes]});
    positives += target == double(c);
  }
  if (positives == 0 || positives == ranked.size()) return std::nullopt;
  return area(ties_of(std::move(ranked)));
}

// Returns the metric for the area: that of class 1 if there are two classes, otherwise the mean
// over all classes that occur.
Metric area_under(AreaOf area, int64_t num_classes, const char* name) {
  Metric m{.tasks = {Task::kClassification}, .higher_is_better = true, .concatenates = true};
  m.sums = [C = num_classes, name](const MetricBatch& b) {
    require<ValueError>(b.outputs.size(1) == C, name, ": expected ", C, " classes, got ",
                        b.outputs.size(1));
    const Tensor x = b.outputs.to(kFloat64);
    const Tensor wanted = where(gt(b.counts, 0), b.targets.to(kFloat64), -1);
    const Tensor rest = stack({b.counts, wanted}, 1);
    if (C != 2) return cat({softmax(x, 1), rest}, 1);
    // The difference of the two logits orders the samples exactly as the probability does, without
    // its rounding to 0 and 1.
    const Tensor margin = x.narrow(1, 1, 1) - x.narrow(1, 0, 1);
    return cat({-margin, margin, rest}, 1);
  };
  m.value = [C = size_t(num_classes), area](const MetricSums& all) {
    double sum = 0, count = 0;
    for (size_t c = C == 2 ? 1 : 0; c < C; ++c) {
      const std::optional<double> one = area_of_class(all, C, c, area);
      sum += one.value_or(0);
      count += one.has_value();
    }
    return ratio(sum, count);
  };
  return m;
}

}  // namespace

Metric accuracy() {
  Metric m =
      share_of_hits([](const MetricBatch& b) { return eq(argmax(b.outputs, 1), b.targets); });
  m.uses_decisions = true;
  return m;
}

Metric topk_accuracy(int64_t k) {
  return share_of_hits([k](const MetricBatch& b) {
    const Tensor of_target = gather(b.outputs, 1, b.targets.unsqueeze(1));
    const Tensor rank = sum(gt(b.outputs, of_target), {1});
    return lt(rank, full_like(rank, k));
  });
}

Metric confusion_matrix(int64_t num_classes) {
  Metric m{.tasks = {Task::kClassification}, .uses_decisions = true};
  m.sums = [C = num_classes](const MetricBatch& b) {
    const Tensor rows = one_hot(b.targets, C).to(kFloat32) * b.counts.to(kFloat32).unsqueeze(1);
    return matmul(rows.transpose(0, 1), one_hot(argmax(b.outputs, 1), C).to(kFloat32));
  };
  return m;
}

Metric precision(int64_t num_classes, Average average) {
  return averaged(num_classes, precision_of, average);
}

Metric recall(int64_t num_classes, Average average) {
  return averaged(num_classes, recall_of, average);
}

Metric f1_score(int64_t num_classes, Average average) {
  return averaged(num_classes, f1_of, average);
}

Metric balanced_accuracy(int64_t num_classes) {
  Metric m = mean_over_classes(num_classes, recall_of, weight_if_target);
  m.is_percentage = true;
  return m;
}

Metric auc(int64_t num_classes) { return area_under(area_under_roc, num_classes, "auc"); }

Metric average_precision(int64_t num_classes) {
  return area_under(average_precision_of, num_classes, "average_precision");
}

Metric log_loss() {
  return {.tasks = {Task::kClassification},
          .sums =
              [](const MetricBatch& b) {
                return b.total(cross_entropy(b.outputs.to(kFloat64), b.targets,
                                             {.reduction = Reduction::kNone}));
              },
          .value = [](const MetricSums& all) { return all.sums[0] / all.count; }};
}

Metric calibration_error(int64_t bins) {
  require<ValueError>(bins > 0, "calibration_error: expected at least one bin, got ", bins);
  Metric m{.tasks = {Task::kClassification}, .is_percentage = true};
  m.sums = [bins](const MetricBatch& b) {
    const Tensor confidence = amax(softmax(b.outputs.to(kFloat64), 1), {1});
    const Tensor hits = eq(argmax(b.outputs, 1), b.targets).to(kFloat64);
    const Tensor bin = clamp(floor(confidence * double(bins)), 0, double(bins - 1)).to(kInt64);
    const Tensor rows = one_hot(bin, bins).to(kFloat64) * b.counts.unsqueeze(1);
    return stack({sum(rows * confidence.unsqueeze(1), {0}), sum(rows * hits.unsqueeze(1), {0})});
  };
  m.value = [bins = size_t(bins)](const MetricSums& all) {
    double sum = 0;
    for (size_t i = 0; i < bins; ++i) sum += std::abs(all.sums[i] - all.sums[bins + i]);
    return sum / all.count;
  };
  return m;
}

}  // namespace taper::v0::data
