// Compares the curves of several seeds of two programs by statistics.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/runner/gate/golden.h"

namespace taper::v0::runner {

// Combines the rows of one recording for each seed. Throws Diverged if a value is not finite, and
// names its seed, step and metric.
Curves combine_curves(const std::vector<int64_t>& seeds,
                      const std::vector<std::vector<Recording::Row>>& rows);

// Returns the curves of the first `count` seeds.
Curves first_seeds(const Curves& curves, int64_t count);

// What is compared: losses and metrics of evaluations. The gradient norm is not, because neither
// direction of a change is worse.
struct CurveComparison {
  std::vector<MetricComparison> metrics;
  std::vector<std::string> missing;  // metrics that only the recording has
  std::vector<std::string> added;    // metrics that only the run has
  std::string different_steps;       // how the steps of the curves differ; empty: they do not
};
// Throws ConfigError if one side has fewer than kFewestSeeds seeds.
CurveComparison compare_curves(const Curves& got, const Curves& want, const CheckOptions& options);

// Fails if a metric is worse at p < alpha, or is missing. Is inconclusive if nothing failed, but
// the detectable shift of a metric exceeds options.detect.
Verdict verdict_of(const CurveComparison& comparison, const CheckOptions& options);

}  // namespace taper::v0::runner
