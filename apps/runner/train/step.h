// One step of training: its batches, forward and backward pass, update.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/runner/components/components.h"
#include "apps/runner/train/batches.h"
#include "apps/runner/train/buffer_snapshot.h"
#include "apps/runner/train/state.h"
#include "autograd/step_graph.h"
#include "modules/data_parallel.h"
#include "modules/module.h"

namespace taper::v0::runner {

using distributed::Communicator;

class Step {
 public:
  // On a GPU it is captured once and replayed, unless the config or the model forbids it, or
  // somebody looks on. All are to outlive it.
  Step(const RunConfig& config, const data::Splits& data, Batches& loader, Learner& learner,
       const Communicator& ranks, bool is_watched);
  // Before the first step; rank 0's weights go to all. All ranks call it.
  void begin();

  // Goes to those batches. False: the loader was there.
  bool go_to(Position at);
  // Of the batches there; does not wait for the device. With the step its loss and the norm of its
  // gradients are in row(), [2].
  void run();
  const Tensor& row() const { return row_; }
  bool is_graph() const { return graph_ != nullptr; }
  // How many batches and samples a step from that batch on has, on all ranks together.
  int64_t batches_from(int64_t batch) const;
  int64_t samples_from(int64_t batch) const;
  // Unless bad steps are skipped, one voids those after it until this is called, so that the
  // weights that it met can be looked at.
  void forgive() { bad_.zero_(); }
  // The weights have changed otherwise.
  void reset();
  // An evaluation begins, which undo() then refers to in place of the last step.
  void begin_evaluation() { buffers_.begin(); }
  // After run() or an evaluation threw: makes weights, optimizer and buffers those from before it.
  // Returns false if they may have changed for good, because the update had begun or a buffer was
  // not copied.
  bool undo();
  // Frees gradients, the memory of the CUDA graph, and what the allocator keeps for later. No step
  // may run afterwards until reset().
  void release_memory();
  // The running statistics of all ranks, before an evaluation or a checkpoint: the first's, unless
  // they are the same by themselves. All ranks call it.
  void share_buffers();
  // Runs a step again and names its first tensor that is not finite; empty: none is this time.
  std::string first_bad(Position at, PhiloxKey random);

  double data_seconds = 0;  // spent on waiting for batches

 private:
  using NextBatch = std::function<Batch()>;
  Batch next_batch();
  void compute(const NextBatch& next);
  void replay();
  std::string why_eager() const;
  Tensor run_parts(const NextBatch& next);
  Tensor forward_and_backward(const NextBatch& next);
  Tensor run_part(int64_t part, const std::vector<Batch>& loaded, const NextBatch& next,
                  const Tensor& tokens);
  int64_t begin_of(int64_t part, int64_t index) const;
  Batch part_of(const Batch& batch, int64_t index, int64_t part) const;
  double share_of(int64_t part) const;
  Tensor clip_gradients();
  Tensor found_inf() const;

  const RunConfig& config_;
  const Device device_;
  const DataInfo& data_;
  const bool is_watched_;
  Batches& loader_;
  Learner& learner_;
  const Communicator& ranks_;
  // A batch is cut into parts, of which this rank has so many, from that one on. One rank alone has
  // one, unless the config has shards.
  const int64_t all_parts_, parts_, first_part_;
  std::optional<DataParallel> parallel_;  // none where there is one part
  Loss loss_;
  std::optional<Position> at_;        // where the loader is
  Tensor row_;                        // loss and gradient norm
  Tensor one_, bad_;                  // 0-dim: 1; how many of these void the next step
  std::unique_ptr<StepGraph> graph_;  // none: steps run as they are
  size_t graphs_logged_ = 0;
  bool is_checked_ = false;  // for parameters that are not registered
  BufferSnapshot buffers_;
  bool is_updating_ = false;  // weights and the optimizer's state may be half updated
};

}  // namespace taper::v0::runner
