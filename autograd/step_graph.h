// A whole training step as one CUDA graph: host time per kernel falls from some microseconds to
// half a one (https://pytorch.org/docs/stable/notes/cuda.html#cuda-graphs).
//
//   StepGraph step([&](const std::vector<Tensor>& in) {
//     const Tensor loss = cross_entropy(net(in[0]), in[1]);
//     optimizer.zero_grad();
//     loss.backward();
//     optimizer.step();
//     return std::vector<Tensor>{loss};
//   });
//   for (...) { loss = step({x, y})[0]; schedule.step(); }
#pragma once

#include <string>
#include <vector>

#include "framework/callable.h"
#include "framework/memory/pointers.h"
#include "framework/tensor.h"

namespace taper::v0 {

// Calls `step` as it is for the first calls with inputs of some shapes, dtypes and device (at least
// one, so that optimizers have their state), then captures it once and replays it: with the same
// bits as if it were called, the draws of the default generator and learning rates set by set_lr
// included. In a replay nothing of `step` runs on the host. So it must not read device values
// there, must use no generator but the default one, and must do the same for all inputs of one
// shape; the model must not be moved or loaded anew in between (create another StepGraph then). An
// input that is the tensor of the replay before, and was not written to since by any function of
// Taper's, is not copied again.
// A call that cannot be captured runs `step` as it is: one without inputs, with inputs that are not
// all on one GPU, under a Profiler, or under a sanitizer (TAPER_ALLOCATOR=plain). That does not
// affect later calls. Inputs for which a capture has failed are not tried again.
class StepGraph {
 public:
  using Step = Callable<std::vector<Tensor>(const std::vector<Tensor>& inputs)>;
  // At most `max_graphs` are captured; steps with further shapes are called as they are. Each keeps
  // the memory that it needs.
  explicit StepGraph(Step step, int warm_up = 3, size_t max_graphs = 8);
  ~StepGraph();
  StepGraph& operator=(StepGraph&&) = delete;  // neither copied nor moved

  // What `step` returns, detached. A replay writes into the tensors of the one before.
  std::vector<Tensor> operator()(const std::vector<Tensor>& inputs);

  // How many graphs were captured: one for each list of shapes, dtypes and devices.
  size_t num_graphs() const;
  // Why the last call was not captured and will not be when it is repeated; empty where it was, or
  // may be.
  const std::string& reason() const { return reason_; }

 private:
  struct Entry;
  // Why a call with these inputs cannot be captured; empty: nothing is known against it.
  static std::string reason_against(const std::vector<Tensor>& inputs);
  // Null where there are enough.
  Entry* entry_for(const std::vector<Tensor>& inputs);
  std::vector<Tensor> call(const std::vector<Tensor>& inputs) const;
  void capture(Entry& entry, const std::vector<Tensor>& inputs);
  std::vector<Tensor> replay(Entry& entry, const std::vector<Tensor>& inputs);

  Step step_;
  int warm_up_;
  size_t max_graphs_;
  std::string reason_;
  std::vector<Owned<Entry>> entries_;
};

}  // namespace taper::v0
