// What is done to raw values before they are learned from.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "data/dataset.h"

namespace taper::inline v0::data {

// What a random transform of a batch draws from: each sample's numbers are a function of the seed,
// the epoch and the sample's own number, whoever makes the batch and whatever else is in it.
class Draws {
 public:
  Draws(uint64_t seed, int64_t epoch, std::vector<int64_t> samples, Device device);

  int64_t size() const { return std::ssize(samples_); }
  // [samples, count] float32 in [low, high), on the device; others each time.
  Tensor uniform(int64_t count, double low = 0, double high = 1);

 private:
  uint64_t seed_, stream_;
  std::vector<int64_t> samples_;
  Device device_;
  uint64_t drawn_ = 0;  // numbers of each sample
};

// Done to each batch where it is used (data/images/transforms.h has those of images).
using Transform = std::function<Batch(const Batch&, Draws&)>;

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
