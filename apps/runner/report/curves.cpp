#include "apps/runner/report/curves.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "apps/runner/base/string_utils.h"

namespace taper::v0::runner {
namespace {

// Returns the number with six significant digits, so that it has a short text.
double shortened(double value) {
  double out = value;
  (void)parse_number(fmt::format("{:.6g}", value), out);
  return out;
}

}  // namespace

Curve reduced_curve(const std::vector<double>& x, const std::vector<double>& y, size_t points) {
  std::vector<size_t> finite;
  for (size_t i = 0; i < y.size(); ++i) {
    if (std::isfinite(x[i]) && std::isfinite(y[i])) finite.push_back(i);
  }
  const size_t each = std::max<size_t>(1, (finite.size() + points - 1) / points);
  Curve out;
  for (size_t first = 0; first < finite.size(); first += each) {
    const size_t end = std::min(first + each, finite.size());
    double mean = 0, low = y[finite[first]], high = low;
    for (size_t i = first; i < end; ++i) {
      const double value = y[finite[i]];
      mean += value / double(end - first);
      low = std::min(low, value);
      high = std::max(high, value);
    }
    out.x.push_back(x[finite[end - 1]]);
    out.mean.push_back(shortened(mean));
    if (each == 1) continue;
    out.low.push_back(shortened(low));
    out.high.push_back(shortened(high));
  }
  return out;
}

}  // namespace taper::v0::runner
