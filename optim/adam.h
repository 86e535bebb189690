// Running means of gradients and of their size: Adam, AdamW, Adamax
// (https://pytorch.org/docs/stable/generated/torch.optim.Adam.html, .../torch.optim.Adamax.html).
#pragma once

#include "optim/optimizer.h"

namespace taper::inline v0::optim {

// They differ in what weight_decay does: it is added to the gradient, or shrinks the weight itself.
template <bool kDecoupled> struct AdamOptionsOf {
  double lr = 1e-3;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8, weight_decay = kDecoupled ? 1e-2 : 0;
  bool amsgrad = false, maximize = false, master_weights = false;
  bool decoupled_weight_decay = kDecoupled;
  static constexpr int kMinStates = 2, kMaxStates = 3;

  template <class V> void describe(V& v) {
    v("lr", lr, kPositive, "learning rate");
    v("betas", betas, kBelowOne, "decay of the two running means");
    v("eps", eps, kPositive, "keeps the division finite");
    v("weight_decay", weight_decay, kNonNegative,
      kDecoupled ? "part of the weight that is taken off, times lr"
                 : "L2 penalty, added to the gradient");
    v("amsgrad", amsgrad, "divide by the largest mean of squares so far");
    v("maximize", maximize, "climb, do not descend");
    v("master_weights", master_weights, "train float32 copies of half weights");
  }
  Recipe recipe() const {
    Recipe r{decoupled_weight_decay ? "AdamW" : "Adam", {"exp_avg", "exp_avg_sq"}, Recipe::saved};
    if (amsgrad) r.states.push_back("max_exp_avg_sq");
    return r;
  }
};
using AdamOptions = AdamOptionsOf<false>;
using AdamWOptions = AdamOptionsOf<true>;
using Adam = OptimizerOf<AdamOptions>;
using AdamW = OptimizerOf<AdamWOptions>;

// p -= lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps); lr is the whole first factor.
template <class C> struct AdamStep {
  C beta1, beta2, rest1, rest2;  // rest: 1 - beta, before it is rounded to C
  C eps, lr, root2, sign, amsgrad;
  C keep, decay;  // what weight decay leaves of p (AdamW) or adds to the gradient (Adam)
  TAPER_HD void operator()(C& p, C grad, C& m, C& v, C& v_max) const {
    const C g = sign * grad + decay * p;
    m = beta1 * m + rest1 * g;
    v = beta2 * v + rest2 * g * g;
    v_max = v_max >= v ? v_max : v;
    p = p * keep - lr * (m / (math::sqrt(amsgrad != C(0) ? v_max : v) / root2 + eps));
  }
};
template <class C, bool kDecoupled>
TAPER_HD AdamStep<C> prepare(const AdamOptionsOf<kDecoupled>& a, double lr, double step) {
  return kernels::make<AdamStep<C>>(a.betas[0], a.betas[1], 1 - a.betas[0], 1 - a.betas[1], a.eps,
                                    lr / kernels::bias_correction(a.betas[0], step),
                                    math::sqrt(kernels::bias_correction(a.betas[1], step)),
                                    a.maximize ? -1 : 1, a.amsgrad,
                                    a.decoupled_weight_decay ? 1 - lr * a.weight_decay : 1,
                                    a.decoupled_weight_decay ? 0 : a.weight_decay);
}

// Adam by the largest gradient so far instead of the root of their squares' mean.
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
    describe_rest(v, *this);
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

}  // namespace taper::inline v0::optim
