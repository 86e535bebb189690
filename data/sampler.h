// Samplers: the order of samples in an epoch, for one rank or several.
#pragma once

#include <memory>
#include <vector>

#include "framework/tensor/tensor.h"

namespace taper::v0::data {

// The order of samples in an epoch (torch.utils.data.Sampler).
class Sampler {
 public:
  virtual ~Sampler() = default;
  // Returns the number of samples in an epoch.
  virtual int64_t size() const = 0;
  // Returns the row numbers of an epoch (int64, on the device). They depend only on the sampler and
  // the epoch.
  virtual Tensor order(int64_t epoch, Device device) const = 0;
  // Returns to which length a loader cuts the samples of each batch of an epoch, in dimension 1 of
  // the inputs [B, T, ...]. Empty: batches are not cut.
  virtual std::vector<int64_t> batch_lengths(int64_t /*epoch*/, int64_t /*batch_size*/) const {
    return {};
  }
};

// Returns the generator of an epoch. Its streams are far from the consecutive streams that
// initialization and dropout use.
Generator draws_of(uint64_t seed, int64_t epoch);

// Rows 0, step, 2 * step, and so on.
class SequentialSampler : public Sampler {
 public:
  explicit SequentialSampler(int64_t size, int64_t step = 1) : size_(size), step_(step) {}
  int64_t size() const override { return size_; }
  Tensor order(int64_t epoch, Device device) const override;

 private:
  int64_t size_, step_;
};

// Rows in random order: each of `rows` once, in a different order every epoch, or a number of draws
// with replacement.
class RandomSampler : public Sampler {
 public:
  RandomSampler(int64_t rows, uint64_t seed, int64_t with_replacement = 0)
      : rows_(rows), replaced_(with_replacement), seed_(seed) {}
  int64_t size() const override { return replaced_ > 0 ? replaced_ : rows_; }
  Tensor order(int64_t epoch, Device device) const override;

 private:
  int64_t rows_, replaced_;
  uint64_t seed_;
};

// Draws rows at random with these weights (torch.utils.data.WeightedRandomSampler). The weights
// need not sum to 1. Throws ValueError if a weight is negative, if all are 0, if no samples are
// requested, or if more samples than weights are requested without replacement.
class WeightedRandomSampler : public Sampler {
 public:
  WeightedRandomSampler(const std::vector<double>& weights, IntArg num_samples,
                        BoolArg replacement = true, uint64_t seed = 0);
  int64_t size() const override { return samples_; }
  Tensor order(int64_t epoch, Device device) const override;

 private:
  Tensor weights_;
  int64_t samples_;
  bool replacement_;
  uint64_t seed_;
};

// One rank's part of an order that all ranks share. The order is divided into rounds of ranks *
// `part` samples, of which each rank gets `part`. The samples after the last complete round are
// divided among the ranks.
class RankSampler : public Sampler {
 public:
  int64_t size() const override { return rounds_ * part_ + rest_end_ - rest_begin_; }
  Tensor order(int64_t epoch, Device device) const override;

 protected:
  RankSampler(std::shared_ptr<const Sampler> all, int64_t part, int rank, int ranks);

  std::shared_ptr<const Sampler> all_;
  int64_t part_, rank_, ranks_, rounds_;
  int64_t rest_, rest_begin_ = 0, rest_end_ = 0;  // the rest, and this rank's share of it
};

// Splits batches of batch_size samples into equal parts, one for each rank
// (torch.utils.data.distributed.DistributedSampler, except that here every sample occurs once).
// `all` is the order that is split. A loader with batch_size / ranks then returns this rank's part
// of each batch. A smaller last batch is split as evenly as possible. If it has fewer samples than
// there are ranks, some ranks get none. Throws ValueError if batch_size is not a multiple of the
// number of ranks.
class DistributedSampler : public RankSampler {
 public:
  DistributedSampler(std::shared_ptr<const Sampler> all, int64_t batch_size, int rank, int ranks);
  // All parts of a batch have the length of the whole batch.
  std::vector<int64_t> batch_lengths(int64_t epoch, int64_t batch_size) const override;
};

// Assigns whole batches of `all` to ranks, for evaluation. Rank r gets batches r, r + ranks, and so
// on. The last batch may be smaller, and some ranks may get one batch less. Together, the ranks get
// the batches that a single loader of `all` with batch_size would return. Throws ValueError for a
// batch size below 1 or an invalid rank.
class DistributedBatchSampler : public RankSampler {
 public:
  DistributedBatchSampler(std::shared_ptr<const Sampler> all, int64_t batch_size, int rank,
                          int ranks);
};

}  // namespace taper::v0::data
