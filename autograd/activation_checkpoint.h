// Activation checkpointing: trades compute for memory
// (https://pytorch.org/docs/stable/checkpoint.html).
#pragma once

#include <functional>
#include <vector>

#include "framework/tensor/tensor.h"

namespace taper::v0 {

class SavedTensor;
struct CheckpointRegionBase;

// Returns fn(inputs) without storing the intermediate results that its backward pass needs. The
// backward pass runs fn again on the same inputs, with the same random numbers from
// default_generator(). Dropout masks are therefore the same, even if other threads draw in between.
//
// It behaves like PyTorch's use_reentrant=False: gradients flow to the inputs and to tensors that
// fn captures, grad() and second derivatives work, and checkpoints can be nested. fn may call
// grad() itself; each such call runs fn once more, up to that call.
//
// fn must stay valid and behave the same until the graph is destroyed. Generators other than
// default_generator() are not restored. Throws Error if the second run saves different tensors than
// the first. With retain_graph the recomputed tensors stay in memory until the graph is destroyed.
//
//   const Tensor y = checkpoint([&](const auto& in) { return block(in[0]); }, {x});
Tensor checkpoint(std::function<Tensor(const std::vector<Tensor>&)> fn,
                  const std::vector<Tensor>& inputs);

// --- used by SavedTensor ---

// Called for each tensor that is saved inside a checkpointed function. The first run drops the
// tensor's memory; a second run keeps the tensor.
void note_saved(SavedTensor& saved);
// Returns the tensor that the region saved as number `index`. `like` has its dtype and shape.
// `reader` names the caller in errors.
Tensor read_again(CheckpointRegionBase& region, uint32_t index, const Tensor& like,
                  const char* reader);

// While it exists, functions that run on this thread see other tensors than later, because the
// parameters of a module are replaced (FunctionalGuard). A checkpoint whose function ran meanwhile
// cannot be computed again later: the backward pass then throws Error instead of using the wrong
// tensors.
class SubstitutionGuard {
 public:
  SubstitutionGuard();
  ~SubstitutionGuard();
  SubstitutionGuard& operator=(SubstitutionGuard&&) = delete;  // neither copied nor moved

  // Returns the number of the innermost guard on this thread, or 0 if there is none. No two guards
  // of a process have the same number.
  static uint64_t innermost();
  // Returns whether the guard of that number exists on this thread. Returns true for 0.
  static bool is_active(uint64_t number);

 private:
  uint64_t number_;
  const SubstitutionGuard* outer_;
};

}  // namespace taper::v0
