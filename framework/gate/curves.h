// Compares the curves of several seeds of two programs by statistics.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "framework/gate/gate_verdict.h"
#include "framework/gate/golden.h"

namespace taper::v0::golden {

// Combines the rows of one recording for each seed. Throws DataError if a value is not finite, and
// names its seed, step and metric.
Curves combine_curves(const std::vector<int64_t>& seeds, const std::vector<std::vector<Row>>& rows);

// Returns the curves of the first `count` seeds.
Curves first_seeds(const Curves& curves, int64_t count);

// When a difference counts.
struct Significance {
  double alpha = 0.01;  // the probability at which a metric counts as worse
  double detect = 2;    // the shift that must be detectable, in standard deviations
  std::string detect_name = "--detect";  // how messages call it
};

// A comparison of two sets of curves: of losses, and of metrics of evaluations. The gradient norm
// is not compared, because neither direction of a change is worse.
struct CurveComparison {
  std::vector<MetricComparison> metrics;
  std::vector<std::string> missing;  // metrics that only the recording has
  std::vector<std::string> added;    // metrics that only the run has
  std::string different_steps;       // how the steps of the curves differ; empty: they do not
};
// better_of: returns which values of a metric are better. Throws ValueError if one side has fewer
// than kFewestSeeds seeds.
CurveComparison compare_curves(const Curves& got, const Curves& want,
                               const Significance& significance,
                               const std::function<Better(const std::string&)>& better_of);

// Fails if a metric is worse at p < alpha, or is missing. Is inconclusive if nothing failed, but
// the detectable shift of a metric exceeds `detect`.
Verdict verdict_of(const CurveComparison& comparison, const Significance& significance);

}  // namespace taper::v0::golden
