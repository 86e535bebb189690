// What is done to raw values before they are learned from.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace taper::inline v0::data {

// Takes each feature x to ((x or, for nan, fill) - mean) / std.
struct Standardizer {
  std::vector<float> fill, mean, std;  // (features)
};

// Mean (also to fill gaps with) and standard deviation (over N, not N - 1) of each column without
// its nans; a constant column has std 1. Measures matrix (rows, columns), row-major, in double.
// ValueError: no rows, or a size that is no multiple of columns.
Standardizer fit_standardizer(std::span<const float> matrix, int64_t columns);

// In place. ValueError: other columns.
void standardize(std::span<float> matrix, const Standardizer& standardizer);

}  // namespace taper::inline v0::data
