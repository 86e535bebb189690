// Scaling of features to mean 0 and standard deviation 1, in double.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "framework/tensor/tensor.h"

namespace taper::v0::data {

// Takes each feature x to ((x or, for nan, fill) - mean) / std.
struct Standardizer {
  std::vector<double> fill, mean, std;  // (features)

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

// Returns the mean (also to fill gaps with) and the standard deviation (over N, not N - 1) of each
// column of a row-major matrix (rows, columns), without its nans. The std of a constant column
// is 1. ValueError: no rows, or a size that is no multiple of `columns`.
Standardizer fit_standardizer(std::span<const double> matrix, int64_t columns);

// Standardizes in place. ValueError: other columns.
void standardize(std::span<double> matrix, const Standardizer& standardizer);

// Standardizes samples [N, ...] of any dtype by differentiable ops, in float64; returns float32.
Tensor standardized(const Tensor& samples, const Standardizer& standardizer);

// Returns whether float32 rounds values of this mean and deviation so that more than about 1e-4 of
// the deviation is lost, as with times in seconds since 1970.
bool is_beyond_float32(double mean, double std);
// The same of any feature.
bool is_beyond_float32(const Standardizer& standardizer);

}  // namespace taper::v0::data
