// Adagrad, Adadelta and RMSprop, which divide gradients by the root of the sum or mean of their
// squares (https://pytorch.org/docs/stable/generated/torch.optim.Adagrad.html,
// .../torch.optim.Adadelta.html, .../torch.optim.RMSprop.html).
#pragma once

#include "optim/optimizer.h"

namespace taper::v0::optim {

struct AdagradOptions {
  double lr = 1e-2, lr_decay = 0, weight_decay = 0, initial_accumulator_value = 0, eps = 1e-10;
  bool maximize = false, master_weights = false;
  static constexpr int kMinStates = 1, kMaxStates = 1;

  template <class V> void describe(V& v) {
    v("lr", lr, kPositive, "learning rate");
    v("lr_decay", lr_decay, kNonNegative, "the rate is lr / (1 + step * lr_decay)");
    v("initial_accumulator_value", initial_accumulator_value, kNonNegative,
      "initial sum of squared gradients");
    v("eps", eps, kPositive, "added to the denominator for numerical stability");
    describe_common_options(v, *this);
  }
  OptimizerTraits traits() const {
    return {"Adagrad", {"sum"}, OptimizerTraits::kSaved, initial_accumulator_value};
  }
};
using Adagrad = OptimizerOf<AdagradOptions>;

struct AdadeltaOptions {
  double lr = 1.0, rho = 0.9, eps = 1e-6, weight_decay = 0;
  bool maximize = false, master_weights = false;
  static constexpr int kMinStates = 2, kMaxStates = 2;

  template <class V> void describe(V& v) {
    v("lr", lr, kPositive, "learning rate");
    v("rho", rho, kBelowOne, "decay of the running means");
    v("eps", eps, kPositive, "added to the denominator for numerical stability");
    describe_common_options(v, *this);
  }
  OptimizerTraits traits() const {
    require<ValueError>(rho <= 1, "Invalid rho value: ", rho);
    return {"Adadelta", {"square_avg", "acc_delta"}, OptimizerTraits::kSaved};
  }
};
using Adadelta = OptimizerOf<AdadeltaOptions>;

struct RMSpropOptions {
  double lr = 1e-2, alpha = 0.99, eps = 1e-8, weight_decay = 0, momentum = 0;
  bool centered = false, maximize = false, master_weights = false;
  static constexpr int kMinStates = 1, kMaxStates = 3;

  template <class V> void describe(V& v) {
    v("lr", lr, kPositive, "learning rate");
    v("momentum", momentum, kBelowOne, "momentum factor");
    v("alpha", alpha, kBelowOne, "decay of the mean of squared gradients");
    v("centered", centered, "normalize by the standard deviation instead of the root mean square");
    v("eps", eps, kPositive, "added to the denominator for numerical stability");
    describe_common_options(v, *this);
  }
  OptimizerTraits traits() const;
};
using RMSprop = OptimizerOf<RMSpropOptions>;

}  // namespace taper::v0::optim
