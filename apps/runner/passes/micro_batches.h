// Divides the batches of a training step over ranks, shards and accumulation, so that step.cpp only
// trains on one micro-batch after another.
//
// A step takes `train.accumulate` batches. Each batch is cut into parts: `train.shards` of them, or
// one for each rank. A rank computes its parts one after another. Within a part it computes one
// batch after another:
//
//   for each part of this rank            random numbers and running statistics of its own
//     for each batch of the step
//       train_on(micro-batch)             forward, loss, backward; gradients add up
//
// Without ranks, shards and accumulation a step has one micro-batch, which is the whole batch.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "apps/runner/run/batches.h"
#include "apps/runner/settings/run_config.h"
#include "framework/distributed/communicator.h"
#include "modules/data_parallel.h"
#include "modules/module.h"

namespace taper::v0::runner {

using distributed::Communicator;

// Returns the first sample of part i, if `samples` samples are divided into `parts` parts. The last
// part is the largest.
inline int64_t begin_of_part(int64_t samples, int64_t i, int64_t parts) {
  return samples * i / parts;
}

// The samples that the model gets in one call.
struct MicroBatch {
  Tensor inputs, targets;
  Tensor weights{};      // of the samples, [N]; undefined if all are 1
  double weight = 1;     // without step_total: the share of the step's samples
  Tensor step_total{};   // 0-dim: number of tokens, or sum of the samples' weights, in the whole
                         // step; undefined if the loss is a mean over samples
  double num_ranks = 1;  // the divisor of gradients that are averaged over ranks

  // Returns the contribution of this micro-batch to the mean loss of the step. `loss` is its own
  // mean loss. The contributions add up to the mean loss of one large batch.
  Tensor share_of_mean(const Tensor& loss) const;
};

class MicroBatches {
 public:
  using NextBatch = std::function<Batch()>;
  // Computes forward and backward pass of a micro-batch and returns its share of the loss.
  using TrainOn = std::function<Tensor(const MicroBatch&)>;

  // All arguments must outlive the object. Throws ConfigError if train.shards is not a multiple of
  // the number of ranks.
  MicroBatches(const RunConfig& config, const DataInfo& data, const Batches& loader, Module& model,
               const Communicator& ranks);
  // Copies the weights of rank 0 to all ranks. Every rank calls it before the first step.
  void begin();
  // Returns whether several parts are computed, on this rank or on others.
  bool is_divided() const { return parallel_.has_value(); }

  // Return the number of batches and of samples in the step that begins with this batch of the
  // epoch, counted over all ranks. The last step of an epoch may be smaller than the others.
  int64_t batches_from(int64_t batch) const;
  int64_t samples_from(int64_t batch) const;

  // Calls train_on for each micro-batch of the step that begins with batch `first` of the epoch;
  // next() returns this rank's part of the next batch. Gradients are reduced over the ranks in the
  // last backward pass. Returns the losses of this rank's parts, to be passed to mean_loss(). Does
  // not synchronize.
  Tensor run(int64_t first, const NextBatch& next, const TrainOn& train_on);
  // Returns the mean loss of the step, 0-dim, on all ranks. Every rank calls it.
  Tensor mean_loss(const Tensor& losses) const;
  // Copies the running statistics of rank 0 to all ranks and returns true. If they are equal on all
  // ranks without a copy, returns false: if the batch is not divided, and with train.shards. Every
  // rank calls it.
  bool share_buffers();

 private:
  // The batches of a step, if they must be loaded before the first micro-batch.
  struct StepBatches {
    int64_t first;
    std::vector<Batch> loaded{};  // empty: micro-batches are whole batches from next()
    Tensor total{};               // MicroBatch::step_total, over all ranks
  };
  StepBatches load(int64_t first, const NextBatch& next) const;
  Tensor run_part(int64_t part, const StepBatches& step, const NextBatch& next,
                  const TrainOn& train_on);
  int64_t begin_of(int64_t part, int64_t batch) const;
  Batch slice(const StepBatches& step, int64_t i, int64_t part) const;
  MicroBatch weighted(const Batch& batch, const StepBatches& step) const;
  double share_of(int64_t part, int64_t first) const;

  const RunConfig& config_;
  const DataInfo& data_;
  const Batches& loader_;
  Module& model_;
  const Communicator& ranks_;
  // The number of parts in a batch, the number of parts that this rank computes, and the index of
  // its first one.
  const int64_t all_parts_, parts_, first_part_;
  std::optional<DataParallel> parallel_;  // empty if there is one part
};

}  // namespace taper::v0::runner
