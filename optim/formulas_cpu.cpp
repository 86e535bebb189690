#include "framework/kernels/optim/update_cpu.h"
#include "optim/algorithms/formulas.h"

namespace taper::inline v0::optim {

Recipe NAdamOptions::recipe() const {
  Recipe r{"NAdam", {"exp_avg", "exp_avg_sq"}, Recipe::saved};
  r.derived = {"mu_product", [o = *this](double step) { return o.mu_product(step); }};
  return r;
}

template auto all_formulas<kernels::OnCpu>();

}  // namespace taper::inline v0::optim
