// Muon (https://pytorch.org/docs/stable/generated/torch.optim.Muon.html): momentum whose singular
// values are driven towards 1, for the matrices of hidden layers. Give biases, norms, embeddings
// and the head to AdamW.
#pragma once

#include "optim/optimizer.h"

namespace taper::optim {

using kernels::AdjustLr;
using kernels::MuonOptions;

// Newton-Schulz iterations run in the parameter's dtype, half ones in bfloat16. (PyTorch takes
// bfloat16 for all, so its float32 runs differ from these by that rounding.) Matrices of one shape
// are multiplied together. Groups of other rules, which a derived class may add, step by theirs.
class Muon : public OptimizerOf<MuonOptions> {
 public:
  using OptimizerOf::OptimizerOf;
  void step() override;
  bool skips_on_device() const override { return typeid(*this) == typeid(Muon); }
};

}  // namespace taper::optim
