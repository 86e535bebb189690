#include "framework/kernels/optim.h"

#include "framework/kernels/dispatch.h"

namespace taper::kernels {

void sgd(const std::vector<Update>& updates, const Tensor& lr, SgdArgs args) {
  if (updates.empty()) return;
  dispatch(
      lr.device(), [&] { cpu::sgd(updates, lr, args); }, [&] { cuda::sgd(updates, lr, args); });
}

void adam(const std::vector<Update>& updates, const Tensor& lr, const Tensor& step, AdamArgs args) {
  if (updates.empty()) return;
  dispatch(
      lr.device(), [&] { cpu::adam(updates, lr, step, args); },
      [&] { cuda::adam(updates, lr, step, args); });
}

}  // namespace taper::kernels
