// Samplers: the order in which an epoch takes samples, on one rank or on several.
#pragma once

#include <memory>
#include <vector>

#include "framework/tensor/tensor.h"

namespace taper::v0::data {

// The order in which an epoch takes samples (torch.utils.data.Sampler).
class Sampler {
 public:
  virtual ~Sampler() = default;
  // Samples of an epoch.
  virtual int64_t size() const = 0;
  // Their rows (int64, on the device): a function of the sampler and the epoch alone.
  virtual Tensor order(int64_t epoch, Device device) const = 0;
};

// Rows 0, step, 2 step, ...
class SequentialSampler : public Sampler {
 public:
  explicit SequentialSampler(int64_t size, int64_t step = 1) : size_(size), step_(step) {}
  int64_t size() const override { return size_; }
  Tensor order(int64_t epoch, Device device) const override;

 private:
  int64_t size_, step_;
};

// Each of `rows` once, in another order every epoch; or so many of them, with replacement.
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

// Rows drawn with these weights (not negative, not all 0), which need no sum of 1
// (torch.utils.data.WeightedRandomSampler). ValueError: other weights, no samples, or without
// replacement more than there are weights.
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

// A rank's part of an order that all ranks have together: of each round of ranks * `part` samples
// the `part` that is its own, and something of what is left behind the last whole round.
class RankSampler : public Sampler {
 public:
  int64_t size() const override { return rounds_ * part_ + rest_end_ - rest_begin_; }
  Tensor order(int64_t epoch, Device device) const override;

 protected:
  RankSampler(std::shared_ptr<const Sampler> all, int64_t part, int rank, int ranks);

  std::shared_ptr<const Sampler> all_;
  int64_t part_, rank_, ranks_, rounds_;
  int64_t rest_, rest_begin_ = 0, rest_end_ = 0;  // what is left, and this rank's part of it
};

// torch.utils.data.distributed.DistributedSampler; here every sample comes once: batches of
// batch_size samples of `all`, cut into equal parts, so that a loader with batch_size / ranks gives
// this rank's part of each. A last, smaller batch is cut as evenly as can be; where it has fewer
// samples than there are ranks, some get none. ValueError: a batch size that is no multiple of the
// ranks.
class DistributedSampler : public RankSampler {
 public:
  DistributedSampler(std::shared_ptr<const Sampler> all, int64_t batch_size, int rank, int ranks);
};

// For evaluations: whole batches of `all`, those of numbers rank, rank + ranks, ... The last one
// may be smaller, and some ranks may get one batch fewer. All ranks' batches together are those of
// a loader of `all` with batch_size. ValueError: a batch size below 1, or no such rank.
class DistributedBatchSampler : public RankSampler {
 public:
  DistributedBatchSampler(std::shared_ptr<const Sampler> all, int64_t batch_size, int rank,
                          int ranks);
};

}  // namespace taper::v0::data
