#include "optim/algorithms/update_formulas.h"

namespace taper::v0::optim {

OptimizerTraits SGDOptions::traits() const {
  require<ValueError>(!nesterov || (momentum != 0 && dampening == 0),
                      "Nesterov momentum requires a momentum and zero dampening");
  if (momentum == 0) return {"SGD"};
  // Updates must be counted, because dampening is not applied in the first step.
  return {"SGD",
          {"momentum_buffer"},
          dampening != 0 ? OptimizerTraits::kCounted : OptimizerTraits::kUncounted};
}

OptimizerTraits RMSpropOptions::traits() const {
  OptimizerTraits r{"RMSprop", {"square_avg"}, OptimizerTraits::kSaved};
  if (centered) r.states.push_back("grad_avg");
  if (momentum > 0) r.states.push_back("momentum_buffer");
  return r;
}

OptimizerTraits NAdamOptions::traits() const {
  OptimizerTraits r{"NAdam", {"exp_avg", "exp_avg_sq"}, OptimizerTraits::kSaved};
  r.derived = {"mu_product", [o = *this](double step) { return o.mu_product(step); }};
  return r;
}

}  // namespace taper::v0::optim
