// A rank's part of the order in which all ranks together take samples
// (PyTorch: torch.utils.data.distributed.DistributedSampler; here every sample comes once).
#pragma once

#include <memory>

#include "data/dataset.h"

namespace taper::inline v0::data {

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
