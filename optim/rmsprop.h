// RMSprop (https://pytorch.org/docs/stable/generated/torch.optim.RMSprop.html).
#pragma once

#include "optim/optimizer.h"

namespace taper::optim {

struct RMSpropOptions {
  double lr = 1e-2, alpha = 0.99, eps = 1e-8, weight_decay = 0, momentum = 0;
  bool centered = false, maximize = false, master_weights = false;
  static constexpr int kMinStates = 1, kMaxStates = 3;

  template <class V> void describe(V& v) {
    v("lr", lr, kPositive, "learning rate");
    v("momentum", momentum, kBelowOne, "part of the last step that is kept");
    v("alpha", alpha, kBelowOne, "decay of the mean of squared gradients");
    v("centered", centered, "divide by the deviation instead of the root mean square");
    v("eps", eps, kPositive, "keeps the division finite");
    v("weight_decay", weight_decay, kNonNegative, "L2 penalty, added to the gradient");
    v("maximize", maximize, "climb, do not descend");
    v("master_weights", master_weights, "train float32 copies of half weights");
  }
  Recipe recipe() const {
    Recipe r{"RMSprop", {"square_avg"}, Recipe::saved};
    if (centered) r.states.push_back("grad_avg");
    if (momentum > 0) r.states.push_back("momentum_buffer");
    return r;
  }
};
using RMSprop = OptimizerOf<RMSpropOptions>;

template <class C> struct RmspropStep {
  C lr, alpha, rest, eps, weight_decay, momentum, sign, centered;
  TAPER_HD void operator()(C& p, C grad, C& square_avg, C& second, C& third) const {
    const C g = sign * grad + weight_decay * p;
    square_avg = alpha * square_avg + rest * g * g;
    const C grad_avg = second + rest * (g - second);
    const C variance = centered != C(0) ? square_avg - grad_avg * grad_avg : square_avg;
    const C buf = momentum * (centered != C(0) ? third : second) + g / (math::sqrt(variance) + eps);
    second = centered != C(0) ? grad_avg : buf;
    third = buf;
    p -= lr * buf;
  }
};
template <class C> TAPER_HD RmspropStep<C> prepare(const RMSpropOptions& a, double lr, double) {
  return kernels::make<RmspropStep<C>>(lr, a.alpha, 1 - a.alpha, a.eps, a.weight_decay, a.momentum,
                                       a.maximize ? -1 : 1, a.centered);
}

}  // namespace taper::optim
