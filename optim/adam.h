// Optimizers with a rate for each element
// (https://pytorch.org/docs/stable/generated/torch.optim.Adam.html and its neighbours).
#pragma once

#include "optim/optimizer.h"

namespace taper::optim {

using kernels::AdamOptions;
using Adam = OptimizerOf<AdamOptions>;

struct AdamWOptions {
  double lr = 1e-3;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 1e-2;  // shrinks the weight itself
  bool amsgrad = false, maximize = false, master_weights = false;
  operator AdamOptions() const {
    return {lr, betas, eps, weight_decay, amsgrad, maximize, master_weights, true};
  }

  template <class V> void describe(V& v) {
    v("lr", lr, kPositive, "learning rate");
    v("betas", betas, kBelowOne, "decay of the two running means");
    v("eps", eps, kPositive, "keeps the division finite");
    v("weight_decay", weight_decay, kNonNegative, "part of the weight that is taken off, times lr");
    v("amsgrad", amsgrad, "divide by the largest mean of squares so far");
    v("maximize", maximize, "climb, do not descend");
    v("master_weights", master_weights, "train float32 copies of half weights");
  }
};
using AdamW = OptimizerOf<AdamWOptions>;

using kernels::AdagradOptions;
using Adagrad = OptimizerOf<AdagradOptions>;

using kernels::AdadeltaOptions;
using Adadelta = OptimizerOf<AdadeltaOptions>;

using kernels::RMSpropOptions;
using RMSprop = OptimizerOf<RMSpropOptions>;

// Chen et al., 2023, "Symbolic Discovery of Optimization Algorithms", algorithm 2: only the sign of
// the smoothed gradient counts. PyTorch does not have it.
using kernels::LionOptions;
using Lion = OptimizerOf<LionOptions>;

}  // namespace taper::optim
