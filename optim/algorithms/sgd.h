// Steps along the gradient or its running mean: SGD
// (https://pytorch.org/docs/stable/generated/torch.optim.SGD.html) and Lion.
#pragma once

#include "optim/optimizer.h"

namespace taper::inline v0::optim {

struct SGDOptions {
  double lr = 1e-3, momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false;  // needs momentum and no dampening
  bool maximize = false, master_weights = false;
  static constexpr int kMinStates = 0, kMaxStates = 1;

  template <class V> void describe(V& v) {
    v("lr", lr, kPositive, "learning rate");
    v("momentum", momentum, kBelowOne, "part of the last step that is kept");
    v("nesterov", nesterov, "look ahead along the momentum");
    v("dampening", dampening, kBelowOne, "part of a gradient that the momentum leaves out");
    describe_rest(v, *this);
  }
  template <class V> void rules(V& v) {
    v("nesterov", "needs a momentum above 0, as in 'momentum: 0.9', and no dampening",
      [this] { return !nesterov || (momentum > 0 && dampening == 0); });
  }
  Recipe recipe() const {
    require<ValueError>(!nesterov || (momentum != 0 && dampening == 0),
                        "Nesterov momentum requires a momentum and zero dampening");
    if (momentum == 0) return {"SGD"};
    // Dampening does not count in the first step.
    return {"SGD", {"momentum_buffer"}, dampening != 0 ? Recipe::counted : Recipe::uncounted};
  }
};
using SGD = OptimizerOf<SGDOptions>;

// buf is 0 at the first step, where dampening does not count.
template <class C> struct SgdStep {
  C lr, momentum, rest, weight_decay, sign, nesterov;
  TAPER_HD void operator()(C& p, C grad, C& buf, C&, C&) const {
    const C d = sign * grad + weight_decay * p;
    buf = momentum * buf + rest * d;
    const C with_momentum = nesterov != C(0) ? d + momentum * buf : buf;
    p -= lr * (momentum != C(0) ? with_momentum : d);
  }
};
template <class C> TAPER_HD SgdStep<C> prepare(const SGDOptions& a, double lr, double step) {
  return kernels::make<SgdStep<C>>(lr, a.momentum, step > 1 ? 1 - a.dampening : 1, a.weight_decay,
                                   a.maximize ? -1 : 1, a.nesterov);
}

// Only the sign of the smoothed gradient counts (Chen et al., 2023, "Symbolic Discovery of
// Optimization Algorithms", algorithm 2). PyTorch does not have it.
struct LionOptions {
  double lr = 1e-4;
  std::array<double, 2> betas = {0.9, 0.99};
  double weight_decay = 0;  // shrinks the weight itself
  bool maximize = false, master_weights = false;
  static constexpr int kMinStates = 1, kMaxStates = 1;

  template <class V> void describe(V& v) {
    v("lr", lr, kPositive, "learning rate");
    v("betas", betas, kBelowOne, "decay of the two running means");
    describe_rest(v, *this, "part of the weight that is taken off, times lr");
  }
  Recipe recipe() const { return {"Lion", {"exp_avg"}}; }
};
using Lion = OptimizerOf<LionOptions>;

// p -= lr * sign(beta1 m + (1 - beta1) g), with decay as in AdamW.
template <class C> struct LionStep {
  C lr, beta1, beta2, rest1, rest2, keep, sign;
  TAPER_HD void operator()(C& p, C grad, C& m, C&, C&) const {
    const C g = sign * grad;
    const C c = beta1 * m + rest1 * g;
    p = p * keep - (c > C(0) ? lr : c < C(0) ? -lr : c * lr);
    m = beta2 * m + rest2 * g;
  }
};
template <class C> TAPER_HD LionStep<C> prepare(const LionOptions& a, double lr, double) {
  return kernels::make<LionStep<C>>(lr, a.betas[0], a.betas[1], 1 - a.betas[0], 1 - a.betas[1],
                                    1 - lr * a.weight_decay, a.maximize ? -1 : 1);
}

}  // namespace taper::inline v0::optim
