// Loads the batches of training and evaluation. With several ranks, each rank loads its own part.
#pragma once

#include <optional>

#include "apps/runner/settings/run_config.h"
#include "framework/distributed/communicator.h"

namespace taper::v0::runner {

// The numbers of samples in a run.
struct RunSizes {
  int64_t train_samples = 0;  // per epoch, without samples that train.drop_last omits
  int64_t eval_samples = 0;   // per evaluation during training
  int64_t test_samples = 0;   // in the final test of the saved weights; 0 if there is no validation
                              // part
  int64_t eval_batch_size = 1;
  int64_t ranks = 1;
};
RunSizes run_sizes(const RunConfig& config, const data::Splits& data, int64_t ranks);

// Returns train.eval_batch_size if it is set. Otherwise returns a default that does not depend on
// the device: for text the number of samples per call in training, for other data 1024.
int64_t eval_batch_size_of(const RunConfig& config, const DataInfo& data, int64_t ranks = 1);

class Batches {
 public:
  // The batches are on the device of the ranks. Throws ConfigError if the batch size is not a
  // multiple of the number of ranks, and if train.drop_last leaves no batch.
  Batches(const RunConfig& config, const data::Splits& data,
          const distributed::Communicator& ranks);

  // Moves to a batch, counted from 0, of an epoch.
  void start(int64_t epoch, int64_t first_batch) { loader_->start(epoch, first_batch); }
  // Returns this rank's part of the next batch. It has no samples if the batch has fewer samples
  // than there are ranks.
  Batch next() { return loader_->next().value_or(empty_); }
  // Batches and samples of an epoch, over all ranks.
  int64_t steps_per_epoch() const { return (samples_ + batch_size_ - 1) / batch_size_; }
  int64_t samples_per_epoch() const { return samples_; }
  bool is_resident() const { return loader_->is_resident(); }

 private:
  int64_t batch_size_, samples_ = 0;
  std::optional<DataLoader> loader_;  // never empty after construction
  Batch empty_;                       // no samples
};

// Returns the loader of the evaluations during training, which draws train.eval_batches batches if
// the config asks for that. With several ranks each gets whole batches: rank r gets batches r,
// r + ranks, and so on.
DataLoader eval_batches(const RunConfig& config, const data::Splits& data,
                        const distributed::Communicator& ranks);
// Returns the loader of the whole test part, in sequence, divided among the ranks in the same way.
DataLoader test_batches(const RunConfig& config, const data::Splits& data,
                        const distributed::Communicator& ranks);
// Returns the loader of the whole validation part, in the same way.
DataLoader validation_batches(const RunConfig& config, const data::Splits& data,
                              const distributed::Communicator& ranks);

}  // namespace taper::v0::runner
