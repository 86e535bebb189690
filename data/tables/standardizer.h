// Scaling of features to mean 0 and standard deviation 1, computed in double.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "framework/tensor/tensor.h"

namespace taper::v0::data {

// Maps each feature x to (x - mean) / std, where nan is first replaced by fill.
struct Standardizer {
  std::vector<double> fill, mean, std;  // one value per feature

  // Adds one feature.
  void add(double new_fill, double new_mean, double new_std) {
    fill.push_back(new_fill);
    mean.push_back(new_mean);
    std.push_back(new_std);
  }
  double operator()(double x, size_t feature) const {
    return ((x != x ? fill[feature] : x) - mean[feature]) / std[feature];
  }
};

// Returns the mean (also used to replace nan) and the standard deviation (over N, not N - 1) of
// each column of a row-major matrix, ignoring nan. The std of a constant column is 1. Throws
// ValueError if there are no rows, or if the size is not a multiple of `columns`.
Standardizer fit_standardizer(std::span<const double> matrix, int64_t columns);

// Standardizes in place. Throws ValueError if the number of columns differs.
void standardize(std::span<double> matrix, const Standardizer& standardizer);

// Standardizes samples [N, ...] of any dtype by differentiable ops in float64; returns float32.
Tensor standardized(const Tensor& samples, const Standardizer& standardizer);

// Returns whether rounding to float32 loses more than about 1e-4 of the standard deviation for
// values with this mean, as for times in seconds since 1970.
bool is_beyond_float32(double mean, double std);
// Returns whether is_beyond_float32(mean, std) holds for any feature.
bool is_beyond_float32(const Standardizer& standardizer);

}  // namespace taper::v0::data
