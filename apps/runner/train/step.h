// One step of training: its batches, forward and backward pass, update.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/runner/train/loss.h"
#include "apps/runner/train/state.h"
#include "autograd/step_graph.h"
#include "modules/module.h"

namespace taper::runner {

class Step {
 public:
  // On a GPU it is captured once and replayed, unless the config or the model forbids it, or
  // somebody looks on. All are to outlive it.
  Step(const RunConfig& config, const data::Splits& data, Device device, DataLoader& loader,
       Learner& learner, bool is_watched);

  // Goes to those batches. False: the loader was there.
  bool go_to(Position at);
  // Of the batches there; does not wait for the device. With the step its loss and the norm of its
  // gradients are in row(), [2].
  void run();
  const Tensor& row() const { return row_; }
  bool is_graph() const { return graph_ != nullptr; }
  // How many batches and samples a step from that batch on has.
  int64_t batches_from(int64_t batch) const;
  int64_t samples_from(int64_t batch) const;
  // Unless bad steps are skipped, one voids those after it until this is called, so that the
  // weights that it met can be looked at.
  void forgive() { bad_.zero_(); }
  // The weights have changed otherwise.
  void reset();
  // Runs a step again and names its first tensor that is not finite; empty: none is this time.
  std::string first_bad(Position at, PhiloxKey random);

  double data_seconds = 0;  // spent on waiting for batches

 private:
  using NextBatch = std::function<Batch()>;
  Batch next_batch();
  void compute(const NextBatch& next);
  void replay();
  std::string why_eager() const;
  Tensor forward_and_backward(const NextBatch& next);
  Tensor clip_gradients();
  Tensor found_inf() const;

  const RunConfig& config_;
  const Device device_;
  const bool has_lines_, is_watched_;
  DataLoader& loader_;
  Learner& learner_;
  Loss loss_;
  std::optional<Position> at_;        // where the loader is
  Tensor row_;                        // loss and gradient norm
  Tensor one_, bad_;                  // 0-dim: 1; how many of these void the next step
  std::unique_ptr<StepGraph> graph_;  // none: steps run as they are
  size_t graphs_logged_ = 0;
  bool is_checked_ = false;  // for parameters that are not registered
};

// Runs a step's forward and backward pass again (`step` returns the loss) and names the first
// tensor that is not finite: "the weight 'fc1.weight'", "the inputs of the batch", "the output of
// 'fc1' (Linear)", "the loss", "the gradient of 'fc1.weight'". Empty where all are finite this
// time. Buffers and gradients are left as they were, respectively dropped.
std::string first_bad_tensor(Module& model, const std::function<Tensor()>& step);

}  // namespace taper::runner
