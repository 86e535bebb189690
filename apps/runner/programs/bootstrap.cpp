#include "apps/runner/programs/bootstrap.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "framework/base/error.h"

namespace taper::v0::runner {
namespace {

// Returns the quantile of sorted values, with linear interpolation between neighbors.
double quantile_of(const std::vector<double>& sorted, double p) {
  const double at = p * double(sorted.size() - 1);
  const size_t below = size_t(at), above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - double(below)) * (sorted[above] - sorted[below]);
}

}  // namespace

double median_of(std::vector<double> values) {
  require<ValueError>(!values.empty(), "the median of no values is not defined");
  std::ranges::sort(values);
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

Interval bootstrap_median(const std::vector<double>& values, const BootstrapOptions& options) {
  require<ValueError>(!values.empty(), "a bootstrap needs at least one value");
  for (const double x : values)
    require<ValueError>(std::isfinite(x), "a value of a bootstrap is not finite: ", x);
  // The standard specifies the numbers of this generator, but not those of its distributions.
  std::mt19937_64 random(options.seed);
  std::vector<double> medians, sample(values.size());
  for (int64_t i = 0; i < options.resamples; ++i) {
    for (double& x : sample) x = values[random() % values.size()];
    medians.push_back(median_of(sample));
  }
  std::ranges::sort(medians);
  return {quantile_of(medians, options.alpha / 2), quantile_of(medians, 1 - options.alpha / 2)};
}

}  // namespace taper::v0::runner
