// Adamax (https://pytorch.org/docs/stable/generated/torch.optim.Adamax.html): Adam by the largest
// gradient so far instead of the root of their squares' mean.
#pragma once

#include "optim/optimizer.h"

namespace taper::optim {

struct AdamaxOptions {
  double lr = 2e-3;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8, weight_decay = 0;
  bool maximize = false, master_weights = false;
  static constexpr int kMinStates = 2, kMaxStates = 2;

  template <class V> void describe(V& v) {
    v("lr", lr, kPositive, "learning rate");
    v("betas", betas, kBelowOne, "decay of the running mean and of the largest gradient");
    v("eps", eps, kPositive, "keeps the division finite");
    v("weight_decay", weight_decay, kNonNegative, "L2 penalty, added to the gradient");
    v("maximize", maximize, "climb, do not descend");
    v("master_weights", master_weights, "train float32 copies of half weights");
  }
  Recipe recipe() const { return {"Adamax", {"exp_avg", "exp_inf"}, Recipe::saved}; }
};
using Adamax = OptimizerOf<AdamaxOptions>;

// u = max(beta2 u, |g| + eps), where nan wins; p -= lr / (1 - beta1^t) * m / u.
template <class C> struct AdamaxStep {
  C beta1, beta2, rest1, eps, lr, weight_decay, sign;
  TAPER_HD void operator()(C& p, C grad, C& m, C& u, C&) const {
    const C g = sign * grad + weight_decay * p;
    const C old = beta2 * u, now = math::abs(g) + eps;
    m = beta1 * m + rest1 * g;
    u = old > now || old != old ? old : now;
    p -= lr * (m / u);
  }
};
template <class C> TAPER_HD AdamaxStep<C> prepare(const AdamaxOptions& a, double lr, double step) {
  return kernels::make<AdamaxStep<C>>(a.betas[0], a.betas[1], 1 - a.betas[0], a.eps,
                                      lr / kernels::bias_correction(a.betas[0], step),
                                      a.weight_decay, a.maximize ? -1 : 1);
}

}  // namespace taper::optim
