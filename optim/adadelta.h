// Adadelta (https://pytorch.org/docs/stable/generated/torch.optim.Adadelta.html).
#pragma once

#include "optim/optimizer.h"

namespace taper::optim {

struct AdadeltaOptions {
  double lr = 1.0, rho = 0.9, eps = 1e-6, weight_decay = 0;
  bool maximize = false, master_weights = false;
  static constexpr int kMinStates = 2, kMaxStates = 2;

  template <class V> void describe(V& v) {
    v("lr", lr, kPositive, "learning rate");
    v("rho", rho, kBelowOne, "decay of running means");
    v("eps", eps, kPositive, "keeps the division finite");
    v("weight_decay", weight_decay, kNonNegative, "L2 penalty, added to the gradient");
    v("maximize", maximize, "climb, do not descend");
    v("master_weights", master_weights, "train float32 copies of half weights");
  }
  Recipe recipe() const {
    if (rho > 1) throw ValueError(cat("Invalid rho value: ", rho));
    return {"Adadelta", {"square_avg", "acc_delta"}, Recipe::saved};
  }
};
using Adadelta = OptimizerOf<AdadeltaOptions>;

template <class C> struct AdadeltaStep {
  C lr, rho, rest, eps, weight_decay, sign;
  TAPER_HD void operator()(C& p, C grad, C& square_avg, C& acc_delta, C&) const {
    const C g = sign * grad + weight_decay * p;
    square_avg = rho * square_avg + rest * g * g;
    const C delta = math::sqrt(acc_delta + eps) / math::sqrt(square_avg + eps) * g;
    acc_delta = rho * acc_delta + rest * delta * delta;
    p -= lr * delta;
  }
};
template <class C> TAPER_HD AdadeltaStep<C> prepare(const AdadeltaOptions& a, double lr, double) {
  return kernels::make<AdadeltaStep<C>>(lr, a.rho, 1 - a.rho, a.eps, a.weight_decay,
                                        a.maximize ? -1 : 1);
}

}  // namespace taper::optim
