// Intervals of the median by the bootstrap.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/base/namespace.h"

namespace taper::v0::runner {

// Returns the median; with an even number of values, the mean of both in the middle. Throws
// ValueError if there are no values.
double median_of(std::vector<double> values);

struct Interval {
  double low = 0, high = 0;
};

struct BootstrapOptions {
  double alpha = 0.01;  // the interval covers 1 - alpha
  int64_t resamples = 9999;
  uint64_t seed = 1;
};

// Returns the percentile bootstrap interval of the median (Efron and Tibshirani, "An Introduction
// to the Bootstrap", 1993, chapter 13): draws `resamples` samples of the same size with
// replacement, and takes the quantiles alpha/2 and 1 - alpha/2 of their medians. The same values
// and options give the same interval on every machine. Throws ValueError if there are no values, or
// if one is not finite.
Interval bootstrap_median(const std::vector<double>& values, const BootstrapOptions& options = {});

}  // namespace taper::v0::runner
