// Lion: only the sign of the smoothed gradient counts (Chen et al., 2023, "Symbolic Discovery of
// Optimization Algorithms", algorithm 2). PyTorch does not have it.
#pragma once

#include "optim/optimizer.h"

namespace taper::optim {

struct LionOptions {
  double lr = 1e-4;
  std::array<double, 2> betas = {0.9, 0.99};
  double weight_decay = 0;  // shrinks the weight itself
  bool maximize = false, master_weights = false;
  static constexpr int kMinStates = 1, kMaxStates = 1;

  template <class V> void describe(V& v) {
    v("lr", lr, kPositive, "learning rate");
    v("betas", betas, kBelowOne, "decay of the two running means");
    v("weight_decay", weight_decay, kNonNegative, "part of the weight that is taken off, times lr");
    v("maximize", maximize, "climb, do not descend");
    v("master_weights", master_weights, "train float32 copies of half weights");
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

}  // namespace taper::optim
