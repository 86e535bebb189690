#include "optim/algorithms/update_formulas.h"

namespace taper::v0::optim {

Recipe SGDOptions::recipe() const {
  require<ValueError>(!nesterov || (momentum != 0 && dampening == 0),
                      "Nesterov momentum requires a momentum and zero dampening");
  if (momentum == 0) return {"SGD"};
  // Dampening does not count in the first step.
  return {"SGD", {"momentum_buffer"}, dampening != 0 ? Recipe::counted : Recipe::uncounted};
}

Recipe RMSpropOptions::recipe() const {
  Recipe r{"RMSprop", {"square_avg"}, Recipe::saved};
  if (centered) r.states.push_back("grad_avg");
  if (momentum > 0) r.states.push_back("momentum_buffer");
  return r;
}

Recipe NAdamOptions::recipe() const {
  Recipe r{"NAdam", {"exp_avg", "exp_avg_sq"}, Recipe::saved};
  r.derived = {"mu_product", [o = *this](double step) { return o.mu_product(step); }};
  return r;
}

}  // namespace taper::v0::optim
