// A sampler for samples of different lengths.
#pragma once

#include <cstdint>
#include <iterator>
#include <vector>

#include "data/sampler.h"

namespace taper::v0::data {

// Batches of samples of similar length, so that they need little padding: each sample once, in a
// different order every epoch. The samples are shuffled and divided into groups of at most 50
// batches and at most a quarter of the samples. Each group is sorted by length and divided into
// batches, and the batches of all groups are shuffled. The samples after the last complete batch
// are drawn from all. batch_lengths() returns the length of the longest sample in each batch.
class LengthGroupedSampler : public Sampler {
 public:
  // lengths: of each sample. Throws ValueError for a batch size below 1.
  LengthGroupedSampler(std::vector<int64_t> lengths, int64_t batch_size, uint64_t seed);
  int64_t size() const override { return std::ssize(lengths_); }
  Tensor order(int64_t epoch, Device device) const override;
  std::vector<int64_t> batch_lengths(int64_t epoch, int64_t batch_size) const override;

 private:
  std::vector<int64_t> rows_of(int64_t epoch) const;

  std::vector<int64_t> lengths_;
  int64_t batch_size_;
  uint64_t seed_;
};

}  // namespace taper::v0::data
