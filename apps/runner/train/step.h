// One step of training: forward, loss, backward, clipping, update, learning rate.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/runner/components/components.h"
#include "apps/runner/passes/buffer_snapshot.h"
#include "apps/runner/passes/micro_batches.h"
#include "apps/runner/run/batches.h"
#include "apps/runner/train/state.h"
#include "autograd/step_graph.h"

namespace taper::v0::runner {

// Takes the steps of a run, on one rank.
class Step {
 public:
  // On a GPU the step is captured once as a CUDA graph and replayed, unless the config or the model
  // forbids it, or an observer is present (is_observed). All arguments must outlive the object.
  Step(const RunConfig& config, const data::Splits& data, Batches& loader, TrainingState& training,
       const Communicator& ranks, bool is_observed);
  // Copies the weights of rank 0 to all ranks. Every rank calls it before the first step.
  void begin() { micro_batches_.begin(); }

  // Moves the loader to a position. Returns false if it was there already.
  bool go_to(Position at);
  // Takes the step after `steps_done` steps on the next batches, and advances the position past
  // them. Does not wait for the device. Once the device is done, the tensor loss_and_norm() [2]
  // contains the loss and the norm of the gradients.
  void run(int64_t steps_done);
  const Tensor& loss_and_norm() const { return loss_and_norm_; }
  bool is_graph() const { return graph_ != nullptr; }
  // Return the number of batches and of samples in the step that begins with this batch of the
  // epoch, over all ranks.
  int64_t batches_from(int64_t batch) const { return micro_batches_.batches_from(batch); }
  int64_t samples_from(int64_t batch) const { return micro_batches_.samples_from(batch); }

  // Ends the suppression of updates. After a non-finite step, later updates are suppressed until
  // this is called, so that the offending weights can be inspected. Not used with on_nan=skip.
  void allow_updates() { num_bad_.zero_(); }
  // Discards the CUDA graph and the position. Call it after anything other than a step, such as
  // loading a checkpoint, has changed weights or buffers.
  void reset();
  // Call this after other parameters began to require gradients. Discards the CUDA graph, and
  // lets the ranks agree on the gradients to average. Every rank calls it, with no step's loss
  // unread.
  void change_trained() {
    reset();
    micro_batches_.begin();
  }
  // Call this before an evaluation. After that, undo() reverts the evaluation, not the last step.
  void begin_evaluation() { buffers_.begin(); }
  // Call this after run() or an evaluation threw. Restores weights, optimizer and buffers from
  // before it. Returns false if that is impossible, because the update had begun, or because a
  // buffer was changed that had not been copied.
  bool undo();
  // Frees gradients, the memory of the CUDA graph, and the memory that the allocator caches. Call
  // reset() before the next step.
  void release_memory();
  // Makes the running statistics of all ranks equal to those of rank 0, before an evaluation or a
  // checkpoint. Every rank calls it.
  void share_buffers();
  // Repeats the step at a position with the same random numbers and names its first tensor that is
  // not finite. Returns "" if all are finite in the repeated step.
  std::string find_bad_tensor(Position at, PhiloxKey random);

  double data_seconds = 0;  // time spent waiting for batches

 private:
  using NextBatch = MicroBatches::NextBatch;
  void train_on(const NextBatch& next);
  void begin_undoable();
  Tensor forward(const MicroBatch& batch) const;
  Tensor backward(const Tensor& loss);
  Tensor clip_gradients() const;
  Tensor find_non_finite(const Tensor& loss, const Tensor& norm) const;
  void update_unless(const Tensor& is_bad);
  bool can_replay() const;
  void replay_graph();
  std::string why_no_graph() const;
  Batch next_batch();

  const RunConfig& config_;
  const Device device_;
  const DataInfo& data_;
  const bool is_observed_;
  Batches& loader_;
  TrainingState& training_;
  const Communicator& ranks_;
  MicroBatches micro_batches_;
  Loss loss_;
  std::optional<Position> at_;  // position of the loader
  Tensor loss_and_norm_;
  Tensor one_;      // 0-dim: 1
  Tensor num_bad_;  // 0-dim: number of non-finite steps since allow_updates(); above 0, updates are
                    // suppressed
  std::unique_ptr<StepGraph> graph_;  // null: kernels are launched one by one
  size_t graphs_logged_ = 0;
  bool is_checked_ = false;  // whether all parameters that were used are registered
  BufferSnapshot buffers_;
  bool is_updating_ = false;  // weights and optimizer state may be partly updated
};

}  // namespace taper::v0::runner
