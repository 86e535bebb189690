// SGD (https://pytorch.org/docs/stable/generated/torch.optim.SGD.html) and Lion, which step along
// the gradient or its running mean.
#pragma once

#include "optim/optimizer.h"

namespace taper::v0::optim {

struct SGDOptions {
  double lr = 1e-3, momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false;  // requires momentum above 0 and dampening 0
  bool maximize = false, master_weights = false;
  static constexpr int kMinStates = 0, kMaxStates = 1;

  template <class V> void describe(V& v) {
    v("lr", lr, kPositive, "learning rate");
    v("momentum", momentum, kBelowOne, "momentum factor");
    v("nesterov", nesterov, "use Nesterov momentum");
    v("dampening", dampening, kBelowOne, "dampening of the momentum");
    describe_common_options(v, *this);
  }
  template <class V> void rules(V& v) {
    v("nesterov", "needs a momentum above 0, as in 'momentum: 0.9', and no dampening",
      [this] { return !nesterov || (momentum > 0 && dampening == 0); });
  }
  OptimizerTraits traits() const;
};
using SGD = OptimizerOf<SGDOptions>;

// Options of Lion, which uses only the sign of the running mean (Chen et al., 2023, "Symbolic
// Discovery of Optimization Algorithms", algorithm 2). PyTorch does not have it.
struct LionOptions {
  double lr = 1e-4;
  std::array<double, 2> betas = {0.9, 0.99};
  double weight_decay = 0;  // decoupled: shrinks the weight itself
  bool maximize = false, master_weights = false;
  static constexpr int kMinStates = 1, kMaxStates = 1;

  template <class V> void describe(V& v) {
    v("lr", lr, kPositive, "learning rate");
    v("betas", betas, kBelowOne, "decay rates used for the update and for the running mean");
    describe_common_options(v, *this, "decoupled weight decay, multiplied by lr");
  }
  OptimizerTraits traits() const { return {"Lion", {"exp_avg"}}; }
};
using Lion = OptimizerOf<LionOptions>;

}  // namespace taper::v0::optim
