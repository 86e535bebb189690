#include "framework/kernels/optim/optim.h"

#include "framework/kernels/dispatch.h"
#include "framework/kernels/elementwise/copy.h"

namespace taper::kernels {

void update(const std::vector<Update>& updates, const StepScalars& scalars,
            const UpdateRule& rule) {
  if (updates.empty()) return;
  dispatch(
      scalars.lr.device(), [&] { cpu::update(updates, scalars, rule); },
      [&] { cuda::update(updates, scalars, rule); });
}

Tensor make_step(Device device) {
  const Tensor both = Tensor::make({2}, kFloat64, device);
  fill(both, 0);
  return view_as(both, {}, {}, 0);
}

}  // namespace taper::kernels
