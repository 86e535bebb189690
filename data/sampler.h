// Samplers: the order in which an epoch takes samples, on one rank or on several.
#pragma once

#include <memory>
#include <vector>

#include "framework/tensor.h"

namespace taper::inline v0::data {

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
  WeightedRandomSampler(const std::vector<double>& weights, int64_t num_samples,
                        bool replacement = true, uint64_t seed = 0);
  int64_t size() const override { return samples_; }
  Tensor order(int64_t epoch, Device device) const override;

 private:
  Tensor weights_;
  int64_t samples_;
  bool replacement_;
  uint64_t seed_;
};

// A rank's part of the order in which all ranks together take samples
// (torch.utils.data.distributed.DistributedSampler; here every sample comes once).
class DistributedSampler : public Sampler {
 public:
  // Batches of batch_size samples of `all`, cut into equal parts: a loader with
  // batch_size / ranks gives this rank's part of each. A last, smaller batch is cut as evenly as
  // can be; where it has fewer samples than there are ranks, some get none. ValueError: a batch
  // size that is no multiple of the ranks.
  DistributedSampler(std::shared_ptr<const Sampler> all, int64_t batch_size, int rank, int ranks);
  int64_t size() const override;
  Tensor order(int64_t epoch, Device device) const override;

 private:
  // Of the last batch: where this rank's part begins, and how long it is.
  int64_t rest_begin() const { return rest_ * rank_ / ranks_; }
  int64_t rest_size() const { return rest_ * (rank_ + 1) / ranks_ - rest_begin(); }

  std::shared_ptr<const Sampler> all_;
  int64_t batch_size_, rank_, ranks_, batches_, rest_;
};

// For evaluations: whole batches of `all`, those of numbers rank, rank + ranks, ... The last one
// may be smaller, and some ranks may get one batch fewer. All ranks' batches together are those of
// a loader of `all` with batch_size.
class DistributedBatchSampler : public Sampler {
 public:
  DistributedBatchSampler(std::shared_ptr<const Sampler> all, int64_t batch_size, int rank,
                          int ranks);
  int64_t size() const override;
  Tensor order(int64_t epoch, Device device) const override;

 private:
  std::shared_ptr<const Sampler> all_;
  int64_t batch_size_, rank_, ranks_;
};

}  // namespace taper::inline v0::data
