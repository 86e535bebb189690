// The state of an optimizer in shards, one a rank (ZeRO stage 1, https://arxiv.org/abs/1910.02054;
// PyTorch: ZeroRedundancyOptimizer). Every parameter has an owner, which alone keeps its state and
// float32 master, updates it, and sends it to the others.
//
//   optim::AdamW optimizer(net.named_parameters(), {.lr = 1e-3});
//   optim::StateShards shards(optimizer, world);
//   for (...) { ...; loss.backward(); shards.step(); }   // in place of optimizer.step()
#pragma once

#include <functional>
#include <vector>

#include "framework/distributed/communicator.h"
#include "optim/optimizer.h"

namespace taper::v0::optim {

class StateShards {
 public:
  // Parameters go to the rank that has least so far, the largest first. The optimizer has all its
  // groups. Throws ValueError when it has state: before its first step it has none (but Adagrad).
  StateShards(Optimizer& optimizer, distributed::Communicator ranks);

  // With gradients that are equal on all ranks: the same as optimizer.step() on each, bit by bit.
  void step();
  // Another way to it: shards.step([&] { scaler.step(optimizer); }).
  void step(const std::function<void()>& step);
  // Elements of the parameters that this rank owns.
  int64_t num_owned() const;

  // optimizer.state_dict() with the shards of all ranks, on the CPU. All ranks call it.
  std::vector<NamedTensor> state_dict() const;
  // What state_dict() gave with any number of ranks, or an optimizer alone.
  void load_state_dict(const std::vector<NamedTensor>& state);

 private:
  Optimizer& optimizer_;
  distributed::Communicator ranks_;
  std::vector<Tensor> params_;
  std::vector<int> owners_;  // of each
};

}  // namespace taper::v0::optim
