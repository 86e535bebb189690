#include "optim/algorithms/formulas.h"

namespace taper::inline v0::optim {

Recipe SGDOptions::recipe() const {
  require<ValueError>(!nesterov || (momentum != 0 && dampening == 0),
                      "Nesterov momentum requires a momentum and zero dampening");
  if (momentum == 0) return {"SGD"};
  // Dampening does not count in the first step.
  return {"SGD", {"momentum_buffer"}, dampening != 0 ? Recipe::counted : Recipe::uncounted};
}

Recipe LionOptions::recipe() const { return {"Lion", {"exp_avg"}}; }

template <bool kDecoupled> Recipe AdamOptionsOf<kDecoupled>::recipe() const {
  Recipe r{decoupled_weight_decay ? "AdamW" : "Adam", {"exp_avg", "exp_avg_sq"}, Recipe::saved};
  if (amsgrad) r.states.push_back("max_exp_avg_sq");
  return r;
}
template Recipe AdamOptionsOf<false>::recipe() const;
template Recipe AdamOptionsOf<true>::recipe() const;

Recipe AdamaxOptions::recipe() const { return {"Adamax", {"exp_avg", "exp_inf"}, Recipe::saved}; }

Recipe RAdamOptions::recipe() const { return {"RAdam", {"exp_avg", "exp_avg_sq"}, Recipe::saved}; }

Recipe AdagradOptions::recipe() const {
  return {"Adagrad", {"sum"}, Recipe::saved, initial_accumulator_value};
}

Recipe AdadeltaOptions::recipe() const {
  if (rho > 1) throw ValueError("Invalid rho value: ", rho);
  return {"Adadelta", {"square_avg", "acc_delta"}, Recipe::saved};
}

Recipe RMSpropOptions::recipe() const {
  Recipe r{"RMSprop", {"square_avg"}, Recipe::saved};
  if (centered) r.states.push_back("grad_avg");
  if (momentum > 0) r.states.push_back("momentum_buffer");
  return r;
}

Recipe LBFGSOptions::recipe() const { return {"LBFGS"}; }

Recipe NAdamOptions::recipe() const {
  Recipe r{"NAdam", {"exp_avg", "exp_avg_sq"}, Recipe::saved};
  r.derived = {"mu_product", [o = *this](double step) { return o.mu_product(step); }};
  return r;
}

}  // namespace taper::inline v0::optim
