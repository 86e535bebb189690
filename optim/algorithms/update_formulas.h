// The update formulas of the optimizers for one element (framework/kernels/optim/formula.h), and
// the list of optimizers whose formulas are compiled into the library.
#pragma once

#include <tuple>

#include "framework/kernels/optim/formula.h"
#include "optim/algorithms/optimizers.h"

namespace taper::v0::optim {

// In the first step buf is 0 and dampening is not applied.
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

// Computes p -= lr * sign(beta1 m + (1 - beta1) g), with weight decay as in AdamW.
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

// Computes p -= lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps). The member `lr` is
// the whole first factor.
template <class C> struct AdamStep {
  C beta1, beta2, rest1, rest2;  // rest: 1 - beta, computed before the rounding to C
  C eps, lr, root2, sign, amsgrad;
  // The factor of p (AdamW), and the factor of p that is added to the gradient (Adam).
  C keep, decay;
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

// Computes u = max(beta2 u, |g| + eps), where NaN is the maximum, and p -= lr / (1 - beta1^t) * m /
// u.
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

TAPER_HD double NAdamOptions::mu(double step) const {
  return betas[0] * (1 - 0.5 * math::pow(0.96, step * momentum_decay));
}
TAPER_HD double NAdamOptions::mu_product(double step) const {
  const double ratio = math::pow(0.96, momentum_decay);
  double product = 1, power = 1;
  for (double i = 1; i <= step && product > 1e-20; ++i) {
    power *= ratio;
    product *= betas[0] * (1 - 0.5 * power);
  }
  return product;
}

// Computes p -= lr ((1 - mu) / (1 - M) g + mu' / (1 - M mu') m) / (sqrt(v) / sqrt(1 - beta2^t) +
// eps), where mu' is the coefficient of the next step and M the product of all coefficients so far.
// The members `lr` and `smooth` are the factors of g and m.
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

// Computes p -= lr / (1 - beta1^t) m, multiplied by rect / (sqrt(v) + eps) unless rect is 0.
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

// Computes the first half of a step: writes to `direction` the matrix that is then orthogonalized.
template <class C> struct MuonStep {
  C lr, momentum, rest, nesterov;
  TAPER_HD void operator()(C& direction, C grad, C& buf, C&, C&) const {
    buf = momentum * buf + rest * grad;
    direction = nesterov != C(0) ? rest * grad + momentum * buf : buf;
  }
};
template <class C> TAPER_HD MuonStep<C> prepare(const MuonOptions& a, double lr, double) {
  return kernels::make<MuonStep<C>>(lr, a.momentum, 1 - a.momentum, a.nesterov);
}

template <class Device, class... Rules> auto formulas() {
  return std::tuple(&Device::template update<Rules>...);
}
// Instantiates the updates of kernels::OnCpu (update_formulas_cpu.cpp) and OnGpu
// (update_formulas.cu).
template <class Device> auto all_formulas() {
  return formulas<Device, SGDOptions, AdamOptions, AdamWOptions, AdamaxOptions, NAdamOptions,
                  RAdamOptions, AdagradOptions, AdadeltaOptions, RMSpropOptions, LionOptions,
                  MuonOptions>();
}

}  // namespace taper::v0::optim
