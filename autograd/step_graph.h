// Captures a whole training step as one CUDA graph. Host time per kernel falls from several
// microseconds to about half a microsecond
// (https://pytorch.org/docs/stable/notes/cuda.html#cuda-graphs).
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

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "framework/tensor/tensor.h"

namespace taper::v0 {

// Calls `step` normally for the first calls with given shapes, dtypes and device (at least one, so
// that the optimizers create their state). Then it captures the step once and replays it. The
// results are bit-identical to those of normal calls, including random draws from the default
// generator and learning rates set by set_lr.
//
// A replay runs no host code of `step`. Therefore `step` must not read device values on the host,
// must use no generator but the default one, and must do the same work for all inputs of the same
// shape. Do not move or load the model between calls; create a new StepGraph after that. An input
// is not copied again if it is the same tensor as in the previous replay and no function of Taper
// has written to it since.
//
// Some calls cannot be captured and run `step` normally: calls without inputs, with inputs that are
// not all on one GPU, under a Profiler, or under a sanitizer (TAPER_ALLOCATOR=plain). They do not
// affect later calls. If capture fails, it is not retried for the same shapes, dtypes and device.
class StepGraph {
 public:
  using Step = std::function<std::vector<Tensor>(const std::vector<Tensor>& inputs)>;
  // Captures at most `max_graphs` graphs. Calls with further shapes run `step` normally. Each graph
  // keeps its own memory. `warm_up` is the number of normal calls before the capture.
  explicit StepGraph(Step step, int warm_up = 3, size_t max_graphs = 8);
  ~StepGraph();
  StepGraph& operator=(StepGraph&&) = delete;  // neither copied nor moved

  // Returns the outputs of `step`, detached. A replay overwrites the tensors returned by the
  // previous replay of the same graph.
  std::vector<Tensor> operator()(const std::vector<Tensor>& inputs);

  // Returns the number of captured graphs: one for each combination of shapes, dtypes and devices.
  size_t num_graphs() const;
  // Returns why the last call was not captured and would not be captured if it were repeated. Empty
  // if it was captured or still may be.
  const std::string& reason() const { return reason_; }

 private:
  struct Entry;
  // Returns why a call with these inputs cannot be captured, or an empty string if no obstacle is
  // known.
  static std::string reason_against(const std::vector<Tensor>& inputs);
  // Returns null if max_graphs entries exist already.
  Entry* entry_for(const std::vector<Tensor>& inputs);
  std::vector<Tensor> call(const std::vector<Tensor>& inputs) const;
  void capture(Entry& entry, const std::vector<Tensor>& inputs);
  std::vector<Tensor> replay(Entry& entry, const std::vector<Tensor>& inputs);

  Step step_;
  int warm_up_;
  size_t max_graphs_;
  std::string reason_;
  std::vector<std::unique_ptr<Entry>> entries_;
};

}  // namespace taper::v0
