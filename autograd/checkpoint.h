// Memory for time (https://pytorch.org/docs/stable/checkpoint.html).
#pragma once

#include <vector>

#include "framework/callable.h"
#include "framework/tensor.h"

namespace taper::v0 {

class Saved;
struct Region;

// fn(inputs), without keeping what its backward pass needs: when that pass comes, fn runs again on
// the same inputs and with the same draws from default_generator(): the same dropout masks,
// whatever other threads draw. It is PyTorch's use_reentrant=False: gradients flow to inputs and to
// whatever fn captures, grad() and second derivatives work, and checkpoints may be nested. fn may
// call grad() itself; each such call runs fn once more, up to that call.
//
// fn must live, and do the same, until the graph is gone. Generators of its own are not restored;
// a run that saves other tensors than the first is refused. With retain_graph what was computed
// again stays until the graph goes.
Tensor checkpoint(Callable<Tensor(const std::vector<Tensor>&)> fn,
                  const std::vector<Tensor>& inputs);

// --- for Saved ---
// Inside a checkpointed function: takes the tensor away, or keeps what a second run saved.
void note_saved(Saved& saved);
// The tensor number `index` that the region saved, which `like` has the dtype and shape of.
Tensor read_again(Region& region, uint32_t index, const Tensor& like, const char* reader);

}  // namespace taper::v0
