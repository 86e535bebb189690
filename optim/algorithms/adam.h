// Running means of gradients and of their size: Adam, AdamW, Adamax, NAdam, RAdam
// (https://pytorch.org/docs/stable/generated/torch.optim.Adam.html, .../torch.optim.Adamax.html,
// .../torch.optim.NAdam.html, .../torch.optim.RAdam.html).
#pragma once

#include "framework/base/host_device.h"
#include "optim/optimizer.h"

namespace taper::v0::optim {

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
  Recipe recipe() const;
  // The momentum of a step, and the product of those up to it, which is 0 once it no longer counts.
  TAPER_HD double mu(double step) const;
  TAPER_HD double mu_product(double step) const;
};
using NAdam = OptimizerOf<NAdamOptions>;

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

}  // namespace taper::v0::optim
