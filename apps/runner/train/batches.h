// The batches of training: of each, the part of this rank.
#pragma once

#include "apps/runner/config/config.h"
#include "apps/runner/data/data_info.h"
#include "framework/distributed/communicator.h"

namespace taper::inline v0::runner {

class Batches {
 public:
  // ConfigError: a batch size that is no multiple of the ranks.
  Batches(const RunConfig& config, const data::Splits& data, Device device,
          const distributed::Communicator& ranks);

  // Goes to a batch, counted from 0, of an epoch.
  void start(int64_t epoch, int64_t first_batch);
  // This rank's part of the next batch; without samples where there are fewer than ranks.
  Batch next();
  // Of all ranks together.
  int64_t steps_per_epoch() const { return (samples_ + batch_size_ - 1) / batch_size_; }
  int64_t samples_per_epoch() const { return samples_; }
  bool is_resident() const { return loader_.is_resident(); }

 private:
  struct Order;
  Batches(const RunConfig& config, const data::Splits& data, Device device,
          const distributed::Communicator& ranks, const Order& order);

  int64_t batch_size_, samples_;
  DataLoader loader_;
  Batch none_;
};

}  // namespace taper::inline v0::runner
