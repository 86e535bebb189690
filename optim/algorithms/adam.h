// Adam, AdamW, Adamax, NAdam and RAdam, which keep running means of gradients and of their
// magnitude (https://pytorch.org/docs/stable/generated/torch.optim.Adam.html,
// .../torch.optim.Adamax.html, .../torch.optim.NAdam.html, .../torch.optim.RAdam.html).
#pragma once

#include "framework/base/host_device.h"
#include "optim/optimizer.h"

namespace taper::v0::optim {

// Options of Adam and AdamW. Adam adds weight_decay * param to the gradient; AdamW shrinks the
// parameter itself.
template <bool kDecoupled> struct AdamOptionsOf {
  double lr = 1e-3;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8, weight_decay = kDecoupled ? 1e-2 : 0;
  bool amsgrad = false, maximize = false, master_weights = false;
  bool decoupled_weight_decay = kDecoupled;
  static constexpr int kMinStates = 2, kMaxStates = 3;

  template <class V> void describe(V& v) {
    v("lr", lr, kPositive, "learning rate");
    v("betas", betas, kBelowOne,
      "decay rates of the running means of gradient and squared gradient");
    v("eps", eps, kPositive, "added to the denominator for numerical stability");
    v("weight_decay", weight_decay, kNonNegative,
      kDecoupled ? "decoupled weight decay, multiplied by lr"
                 : "L2 penalty, added to the gradient");
    v("amsgrad", amsgrad, "use the largest mean of squared gradients so far");
    v("maximize", maximize, "maximize the objective instead of minimizing it");
    v("master_weights", master_weights, "keep float32 copies of half-precision weights");
  }
  OptimizerTraits traits() const {
    OptimizerTraits r{decoupled_weight_decay ? "AdamW" : "Adam",
                      {"exp_avg", "exp_avg_sq"},
                      OptimizerTraits::kSaved};
    if (amsgrad) r.states.push_back("max_exp_avg_sq");
    return r;
  }
};
using AdamOptions = AdamOptionsOf<false>;
using AdamWOptions = AdamOptionsOf<true>;
using Adam = OptimizerOf<AdamOptions>;
using AdamW = OptimizerOf<AdamWOptions>;

// Options of Adamax: Adam that divides by the largest gradient so far, with decay, instead of the
// root of the mean of squares.
struct AdamaxOptions {
  double lr = 2e-3;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8, weight_decay = 0;
  bool maximize = false, master_weights = false;
  static constexpr int kMinStates = 2, kMaxStates = 2;

  template <class V> void describe(V& v) {
    v("lr", lr, kPositive, "learning rate");
    v("betas", betas, kBelowOne, "decay rates of the running mean and of the largest gradient");
    v("eps", eps, kPositive, "added to the denominator for numerical stability");
    describe_common_options(v, *this);
  }
  OptimizerTraits traits() const {
    return {"Adamax", {"exp_avg", "exp_inf"}, OptimizerTraits::kSaved};
  }
};
using Adamax = OptimizerOf<AdamaxOptions>;

// Options of NAdam: Adam with Nesterov momentum, whose coefficient grows with the steps.
struct NAdamOptions {
  double lr = 2e-3;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8, weight_decay = 0, momentum_decay = 4e-3;
  bool decoupled_weight_decay = false, maximize = false, master_weights = false;
  static constexpr int kMinStates = 2, kMaxStates = 2;

  template <class V> void describe(V& v) {
    v("lr", lr, kPositive, "learning rate");
    v("betas", betas, kBelowOne,
      "decay rates of the running means of gradient and squared gradient");
    v("eps", eps, kPositive, "added to the denominator for numerical stability");
    v("momentum_decay", momentum_decay, kNonNegative, "decay of the momentum schedule");
    v("decoupled_weight_decay", decoupled_weight_decay, "decoupled weight decay, as in AdamW");
    describe_common_options(v, *this);
  }
  OptimizerTraits traits() const;
  // Return the momentum coefficient of a step, and the product of the coefficients up to it. A
  // product below 1e-20 no longer has an effect, so it is cut off there.
  TAPER_HD double mu(double step) const;
  TAPER_HD double mu_product(double step) const;
};
using NAdam = OptimizerOf<NAdamOptions>;

// Options of RAdam: Adam whose first steps use only the momentum, because their estimate of the
// gradients' variance is too uncertain.
struct RAdamOptions {
  double lr = 1e-3;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8, weight_decay = 0;
  bool decoupled_weight_decay = false, maximize = false, master_weights = false;
  static constexpr int kMinStates = 2, kMaxStates = 2;

  template <class V> void describe(V& v) {
    v("lr", lr, kPositive, "learning rate");
    v("betas", betas, kBelowOne,
      "decay rates of the running means of gradient and squared gradient");
    v("eps", eps, kPositive, "added to the denominator for numerical stability");
    v("decoupled_weight_decay", decoupled_weight_decay, "decoupled weight decay, as in AdamW");
    describe_common_options(v, *this);
  }
  OptimizerTraits traits() const {
    return {"RAdam", {"exp_avg", "exp_avg_sq"}, OptimizerTraits::kSaved};
  }
};
using RAdam = OptimizerOf<RAdamOptions>;

}  // namespace taper::v0::optim
