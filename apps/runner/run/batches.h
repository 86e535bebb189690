// The batches of training: of each, the part of this rank.
#pragma once

#include <optional>

#include "apps/runner/settings/run_config.h"
#include "framework/distributed/communicator.h"

namespace taper::v0::runner {

// How many samples the batches of a run have.
struct RunSizes {
  int64_t train_samples = 0;  // of an epoch, without those that train.drop_last leaves out
  int64_t test_samples = 0;   // of an evaluation
  int64_t eval_batch_size = 1;
  int64_t ranks = 1;
};
RunSizes run_sizes(const RunConfig& config, const data::Splits& data, int64_t ranks);

// The config's, or what a run begins with that has no memory to look at: as many samples of a text
// as training takes in one call, 1024 others.
int64_t eval_batch_size_of(const RunConfig& config, const DataInfo& data, int64_t ranks = 1);

class Batches {
 public:
  // On the device of the ranks. Throws ConfigError for a batch size that is no multiple of the
  // ranks, and where train.drop_last leaves no batch.
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
