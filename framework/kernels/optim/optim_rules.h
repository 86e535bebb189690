// The formulas of the optimizers, for the CPU and the GPU: prepare<C>(args, lr, step) once a call
// or block, in double; then step(p, grad, s1, s2, s3) for every element, computed in C. A state
// that is not kept comes in as 0. Formulas are those of https://pytorch.org/docs/stable/optim.html.
#pragma once

#include "framework/host_device.h"
#include "framework/kernels/math.h"
#include "framework/kernels/optim/optim.h"
#include "framework/kernels/optim/tensor_list.h"
#include "framework/kernels/per_element.h"

namespace taper::kernels {

// The tensors of an Update.
enum UpdateRole { kParam, kGrad, kState1, kState2, kState3, kLow, kUpdateRoles };

inline std::vector<ListEntry<kUpdateRoles>> entries_of(const std::vector<Update>& updates,
                                                       bool doubles) {
  std::vector<ListEntry<kUpdateRoles>> entries;
  for (const Update& u : updates) {
    if ((u.param.dtype() == kFloat64) != doubles) continue;
    entries.push_back(list_entry(u.param, u.grad, u.states[0], u.states[1], u.states[2], u.low));
  }
  return entries;
}
TAPER_HD bool has_master(const ListChunk<kUpdateRoles>& chunk) {
  return chunk.data[kLow] && chunk.dtype[kGrad] == chunk.dtype[kLow];
}

// What a master is for a half parameter `low`; `rounded` is the master in its precision.
template <class C> TAPER_HD C renewed(C master, C rounded, C low) {
  return rounded == low ? master : low;
}

// 1 - beta^t, without cancellation.
TAPER_HD double bias_correction(double beta, double t) { return -math::expm1(t * math::log(beta)); }

// A step's members, all of type C, from numbers in double.
template <class Step, class... T> TAPER_HD Step make(const T&... numbers) {
  return {decltype(Step::lr)(numbers)...};
}

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
  return make<SgdStep<C>>(lr, a.momentum, step > 1 ? 1 - a.dampening : 1, a.weight_decay,
                          a.maximize ? -1 : 1, a.nesterov);
}

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
template <class C> TAPER_HD AdamStep<C> prepare(const AdamOptions& a, double lr, double step) {
  return make<AdamStep<C>>(a.betas[0], a.betas[1], 1 - a.betas[0], 1 - a.betas[1], a.eps,
                           lr / bias_correction(a.betas[0], step),
                           math::sqrt(bias_correction(a.betas[1], step)), a.maximize ? -1 : 1,
                           a.amsgrad, a.decoupled_weight_decay ? 1 - lr * a.weight_decay : 1,
                           a.decoupled_weight_decay ? 0 : a.weight_decay);
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
  return make<AdagradStep<C>>(lr / (1 + (step - 1) * a.lr_decay), a.weight_decay, a.eps,
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
  return make<AdadeltaStep<C>>(lr, a.rho, 1 - a.rho, a.eps, a.weight_decay, a.maximize ? -1 : 1);
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
  return make<RmspropStep<C>>(lr, a.alpha, 1 - a.alpha, a.eps, a.weight_decay, a.momentum,
                              a.maximize ? -1 : 1, a.centered);
}

// Chen et al., 2023: p -= lr * sign(beta1 m + (1 - beta1) g), with decay as in AdamW.
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
  return make<LionStep<C>>(lr, a.betas[0], a.betas[1], 1 - a.betas[0], 1 - a.betas[1],
                           1 - lr * a.weight_decay, a.maximize ? -1 : 1);
}

template <class C> struct MuonStep {
  C lr, momentum, rest, nesterov;
  TAPER_HD void operator()(C& direction, C grad, C& buf, C&, C&) const {
    buf = momentum * buf + rest * grad;
    direction = nesterov != C(0) ? rest * grad + momentum * buf : buf;
  }
};
template <class C> TAPER_HD MuonStep<C> prepare(const MuonOptions& a, double lr, double) {
  return make<MuonStep<C>>(lr, a.momentum, 1 - a.momentum, a.nesterov);
}

struct CountStep {
  double* step;
  const float* found_inf;
  TAPER_HD void operator()(int64_t) const {
    if (!found_inf || *found_inf == 0) *step += 1;
  }
};

}  // namespace taper::kernels
