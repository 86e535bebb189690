// Adagrad (https://pytorch.org/docs/stable/generated/torch.optim.Adagrad.html).
#pragma once

#include "optim/optimizer.h"

namespace taper::optim {

struct AdagradOptions {
  double lr = 1e-2, lr_decay = 0, weight_decay = 0, initial_accumulator_value = 0, eps = 1e-10;
  bool maximize = false, master_weights = false;
  static constexpr int kMinStates = 1, kMaxStates = 1;

  template <class V> void describe(V& v) {
    v("lr", lr, kPositive, "learning rate");
    v("lr_decay", lr_decay, kNonNegative, "the rate is lr / (1 + step * lr_decay)");
    v("initial_accumulator_value", initial_accumulator_value, kNonNegative,
      "what the sum of squares begins with");
    v("eps", eps, kPositive, "keeps the division finite");
    v("weight_decay", weight_decay, kNonNegative, "L2 penalty, added to the gradient");
    v("maximize", maximize, "climb, do not descend");
    v("master_weights", master_weights, "train float32 copies of half weights");
  }
  Recipe recipe() const { return {"Adagrad", {"sum"}, Recipe::saved, initial_accumulator_value}; }
};
using Adagrad = OptimizerOf<AdagradOptions>;

template <class C> struct AdagradStep {
  C lr, weight_decay, eps, sign;
  TAPER_HD void operator()(C& p, C grad, C& sum, C&, C&) const {
    const C g = sign * grad + weight_decay * p;
    sum += g * g;
    p -= lr * (g / (math::sqrt(sum) + eps));
  }
};
template <class C>
TAPER_HD AdagradStep<C> prepare(const AdagradOptions& a, double lr, double step) {
  return kernels::make<AdagradStep<C>>(lr / (1 + (step - 1) * a.lr_decay), a.weight_decay, a.eps,
                                       a.maximize ? -1 : 1);
}

}  // namespace taper::optim
