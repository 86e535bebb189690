// Shards the state of an optimizer over ranks (ZeRO stage 1, https://arxiv.org/abs/1910.02054;
// PyTorch: ZeroRedundancyOptimizer). Every parameter has an owner: only this rank keeps its state
// and float32 master, updates it, and broadcasts it to the others.
//
//   optim::AdamW optimizer(net.named_parameters(), {.lr = 1e-3});
//   optim::StateShards shards(optimizer, world);
//   for (...) { ...; loss.backward(); shards.step(); }   // instead of optimizer.step()
#pragma once

#include <functional>
#include <vector>

#include "framework/distributed/communicator.h"
#include "optim/optimizer.h"

namespace taper::v0::optim {

struct StateShardsOptions {
  // While a rank updates the next piece of its parameters, the piece before it is broadcast. A rank
  // has at most eight pieces, of about this size or larger. Positive, and equal on all ranks.
  int64_t piece_bytes = int64_t(16) << 20;
};

class StateShards {
 public:
  // Assigns the parameters to ranks: the largest first, each to the rank that has the fewest
  // elements so far. All groups must have been added to the optimizer. Throws ValueError if the
  // optimizer already has state, which it has after its first step. Adagrad has state from the
  // start and cannot be sharded. Throws ValueError for options out of range.
  StateShards(Optimizer& optimizer, distributed::Communicator ranks,
              StateShardsOptions options = {});

  // Updates all parameters. Gradients must be equal on all ranks. The result has the same bits as
  // optimizer.step() on each rank. Every rank calls it.
  //
  // Calls optimizer.step() once for each piece, while only its parameters have gradients. An
  // optimizer of a derived class with a step() of its own (skips_on_device() is false) is called
  // once.
  void step();
  // Like step(), but calls the given function instead of optimizer.step(), for each piece.
  void step_in_pieces(const std::function<void()>& step);
  // Like step(), but calls the given function instead of optimizer.step(), and only once:
  // shards.step([&] { scaler.step(optimizer); }).
  void step(const std::function<void()>& step);
  // Returns the number of elements of the parameters that this rank owns.
  int64_t num_owned() const;

  // Returns optimizer.state_dict() with the shards of all ranks, on the CPU. Every rank calls it.
  std::vector<NamedTensor> state_dict() const;
  // Loads the result of state_dict(), which may have been called with any number of ranks, or the
  // state dict of an optimizer without shards.
  void load_state_dict(const std::vector<NamedTensor>& state);

 private:
  using Piece = std::vector<size_t>;  // numbers of parameters, of all owners
  struct Broadcast;

  Piece every_parameter() const;
  std::vector<Piece> make_pieces(int64_t piece_bytes) const;
  void step_by(const std::vector<Piece>& pieces, const std::function<void()>& step);
  void update(const Piece& piece, const std::function<void()>& step) const;
  Broadcast broadcast(const Piece& piece) const;
  void store(const Broadcast& done) const;

  Optimizer& optimizer_;
  distributed::Communicator ranks_;
  std::vector<Tensor> params_;
  std::vector<int> owners_;  // the rank that owns each parameter
  std::vector<Piece> pieces_;
};

}  // namespace taper::v0::optim
