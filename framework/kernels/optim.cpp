#include "framework/kernels/optim.h"

#include "framework/kernels/dispatch.h"

namespace taper::kernels {

void update(const std::vector<Update>& updates, const StepScalars& scalars,
            const UpdateRule& rule) {
  if (updates.empty()) return;
  dispatch(
      scalars.lr.device(), [&] { cpu::update(updates, scalars, rule); },
      [&] { cuda::update(updates, scalars, rule); });
}

void count_step(const Tensor& step, const Tensor& found_inf) {
  dispatch(
      step.device(), [&] { cpu::count_step(step, found_inf); },
      [&] { cuda::count_step(step, found_inf); });
}

}  // namespace taper::kernels
