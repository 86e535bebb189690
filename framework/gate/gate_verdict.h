// The results of the gate's comparisons.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/gate/statistics.h"

namespace taper::v0::golden {

// The comparison of one metric. The summary of a curve is the mean of all its values, so that a
// slower convergence counts, even if the last values are equal.
struct MetricComparison {
  std::string metric;
  Sample got, want;  // of the summaries, one for each seed
  WelchTest test;
  double adjusted_p = 1;  // after Holm's correction over all metrics
  double detectable = 0;  // the smallest shift that the test finds, in standard deviations
  double power = 0;       // the probability that it finds a shift of Significance::detect
};

// The comparison of a time that two programs take.
struct RatioComparison {
  std::string name;          // what was measured
  double ratio = 1;          // the median of new / old over all pairs of runs
  double low = 1, high = 1;  // its interval
  double old = 0, now = 0;   // the medians, in seconds
};

// The result of a comparison. `text` is for people. The program's exit code is 0 if the comparison
// passed, 1 (kExitGate) if it failed, and 3 (kExitInconclusive) if it is inconclusive.
struct Verdict {
  bool passed = false;
  std::string text{};
  bool is_inconclusive = false;  // the data do not suffice; `passed` is false
  bool is_error = false;  // nothing could be compared; `text` says why, and `passed` is false
  std::string step{};     // the first step that differs from the recording, if bits were compared
  int64_t section = 0;    // of the recording, from 1, that was compared; 0: unknown
  std::vector<MetricComparison> metrics{};  // if curves were compared
  std::vector<RatioComparison> ratios{};    // if times were compared

  // Returns "pass", "fail", "inconclusive" or "error".
  std::string name() const {
    if (is_error) return "error";
    return passed ? "pass" : is_inconclusive ? "inconclusive" : "fail";
  }
};

}  // namespace taper::v0::golden
