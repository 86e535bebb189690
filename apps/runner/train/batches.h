// The batches of training: of each, the part of this rank.
#pragma once

#include <optional>

#include "apps/runner/config/config.h"
#include "framework/distributed/communicator.h"

namespace taper::v0::runner {

class Batches {
 public:
  // On the device of the ranks. ConfigError: a batch size that is no multiple of the ranks.
  Batches(const RunConfig& config, const data::Splits& data,
          const distributed::Communicator& ranks);

  // Goes to a batch, counted from 0, of an epoch.
  void start(int64_t epoch, int64_t first_batch) { loader_->start(epoch, first_batch); }
  // This rank's part of the next batch; without samples where there are fewer than ranks.
  Batch next() { return loader_->next().value_or(none_); }
  // Of all ranks together.
  int64_t steps_per_epoch() const { return (samples_ + batch_size_ - 1) / batch_size_; }
  int64_t samples_per_epoch() const { return samples_; }
  bool is_resident() const { return loader_->is_resident(); }

 private:
  int64_t batch_size_, samples_ = 0;
  std::optional<DataLoader> loader_;  // always, once it is known how
  Batch none_;
};

// Whole batches of an evaluation, of several ranks every so many'th.
DataLoader test_batches(const RunConfig& config, const data::Splits& data,
                        const distributed::Communicator& ranks);

}  // namespace taper::v0::runner
