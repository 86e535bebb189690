// Running means of gradients and of their size: Adam, AdamW, Adamax, NAdam, RAdam
// (https://pytorch.org/docs/stable/generated/torch.optim.Adam.html, .../torch.optim.Adamax.html,
// .../torch.optim.NAdam.html, .../torch.optim.RAdam.html).
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

// Adam with Nesterov's momentum, whose share grows with the steps.
struct NAdamOptions {
  double lr = 2e-3;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8, weight_decay = 0, momentum_decay = 4e-3;
  bool decoupled_weight_decay = false, maximize = false, master_weights = false;
  static constexpr int kMinStates = 2, kMaxStates = 2;

  template <class V> void describe(V& v) {
    v("lr", lr, kPositive, "learning rate");
    v("betas", betas, kBelowOne, "decay of the two running means");
    v("eps", eps, kPositive, "keeps the division finite");
    v("momentum_decay", momentum_decay, kNonNegative, "how fast the momentum grows");
    v("decoupled_weight_decay", decoupled_weight_decay, "shrink the weight itself, as AdamW does");
    describe_rest(v, *this);
  }
  Recipe recipe() const {
    Recipe r{"NAdam", {"exp_avg", "exp_avg_sq"}, Recipe::saved};
    r.derived = {"mu_product", [o = *this](double step) { return o.mu_product(step); }};
    return r;
  }
  // The momentum of a step, and the product of those up to it, which is 0 once it no longer counts.
  TAPER_HD double mu(double step) const {
    return betas[0] * (1 - 0.5 * math::pow(0.96, step * momentum_decay));
  }
  TAPER_HD double mu_product(double step) const {
    const double ratio = math::pow(0.96, momentum_decay);
    double product = 1, power = 1;
    for (double i = 1; i <= step && product > 1e-20; ++i) {
      power *= ratio;
      product *= betas[0] * (1 - 0.5 * power);
    }
    return product;
  }
};
using NAdam = OptimizerOf<NAdamOptions>;

// p -= lr ((1 - mu) / (1 - M) g + mu' / (1 - M mu') m) / (sqrt(v) / sqrt(1 - beta2^t) + eps), where
// mu' is the next step's and M the product of all mu so far; `lr` and `smooth` hold the factors.
template <class C> struct NAdamStep {
  C beta1, beta2, rest1, rest2, eps, lr, smooth, root2, sign, keep, decay;
  TAPER_HD void operator()(C& p, C grad, C& m, C& v, C&) const {
    const C g = sign * grad + decay * p;
    m = beta1 * m + rest1 * g;
    v = beta2 * v + rest2 * g * g;
    p = p * keep - (lr * g + smooth * m) / (math::sqrt(v) / root2 + eps);
  }
};
template <class C> TAPER_HD NAdamStep<C> prepare(const NAdamOptions& a, double lr, double step) {
  const double mu = a.mu(step), next = a.mu(step + 1), product = a.mu_product(step);
  const bool apart = a.decoupled_weight_decay;
  return kernels::make<NAdamStep<C>>(
      a.betas[0], a.betas[1], 1 - a.betas[0], 1 - a.betas[1], a.eps, lr * (1 - mu) / (1 - product),
      lr * next / (1 - product * next), math::sqrt(kernels::bias_correction(a.betas[1], step)),
      a.maximize ? -1 : 1, apart ? 1 - lr * a.weight_decay : 1, apart ? 0 : a.weight_decay);
}

// Adam whose first steps, too few to know the size of gradients, go by the momentum alone.
struct RAdamOptions {
  double lr = 1e-3;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8, weight_decay = 0;
  bool decoupled_weight_decay = false, maximize = false, master_weights = false;
  static constexpr int kMinStates = 2, kMaxStates = 2;

  template <class V> void describe(V& v) {
    v("lr", lr, kPositive, "learning rate");
    v("betas", betas, kBelowOne, "decay of the two running means");
    v("eps", eps, kPositive, "keeps the division finite");
    v("decoupled_weight_decay", decoupled_weight_decay, "shrink the weight itself, as AdamW does");
    describe_rest(v, *this);
  }
  Recipe recipe() const { return {"RAdam", {"exp_avg", "exp_avg_sq"}, Recipe::saved}; }
};
using RAdam = OptimizerOf<RAdamOptions>;

// p -= lr / (1 - beta1^t) m, times rect / (sqrt(v) + eps) where rect is not 0.
template <class C> struct RAdamStep {
  C beta1, beta2, rest1, rest2, eps, lr, rect, sign, keep, decay;
  TAPER_HD void operator()(C& p, C grad, C& m, C& v, C&) const {
    const C g = sign * grad + decay * p;
    m = beta1 * m + rest1 * g;
    v = beta2 * v + rest2 * g * g;
    p = p * keep - lr * m * (rect != C(0) ? rect / (math::sqrt(v) + eps) : C(1));
  }
};
template <class C> TAPER_HD RAdamStep<C> prepare(const RAdamOptions& a, double lr, double step) {
  const double left = kernels::bias_correction(a.betas[1], step), most = 2 / (1 - a.betas[1]) - 1;
  const double rho = most - 2 * step * (1 - left) / left;
  const double variance = (rho - 4) * (rho - 2) * most / ((most - 4) * (most - 2) * rho);
  const bool apart = a.decoupled_weight_decay;
  return kernels::make<RAdamStep<C>>(
      a.betas[0], a.betas[1], 1 - a.betas[0], 1 - a.betas[1], a.eps,
      lr / kernels::bias_correction(a.betas[0], step), rho > 5 ? math::sqrt(variance * left) : 0,
      a.maximize ? -1 : 1, apart ? 1 - lr * a.weight_decay : 1, apart ? 0 : a.weight_decay);
}

}  // namespace taper::inline v0::optim
