// Reduces curves with many points to as many as a screen can show.
#pragma once

#include <cstddef>
#include <vector>

#include "framework/base/namespace.h"

namespace taper::v0::runner {

// Neighboring points of a curve are joined into one. `mean` is the mean of their values, and `low`
// and `high` are the least and the greatest value, so that a smoothed curve has no bias and no
// spike is lost. If no points were joined, `low` and `high` are empty. Values are rounded to six
// digits.
struct Curve {
  std::vector<double> x{}, mean{}, low{}, high{};
};

// Returns the curve with at most `points` points. Each x is that of the last point that was joined.
// Values that are not finite are left out.
Curve reduced_curve(const std::vector<double>& x, const std::vector<double>& y, size_t points);

}  // namespace taper::v0::runner
