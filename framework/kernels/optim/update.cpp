#include "framework/kernels/optim/update.h"

#include "framework/kernels/elementwise/copy.h"

namespace taper::v0::kernels {

std::vector<ListEntry<kUpdateRoles>> entries_of(const std::vector<Update>& updates, bool doubles) {
  std::vector<ListEntry<kUpdateRoles>> entries;
  const Tensor none;
  for (const Update& u : updates) {
    if ((u.param.dtype() == kFloat64) != doubles) continue;
    const auto state = [&](size_t k) -> const Tensor& {
      return k < u.states.size() ? u.states[k] : none;
    };
    entries.push_back(list_entry(u.param, u.grad, state(0), state(1), state(2), u.low));
  }
  return entries;
}

Tensor make_step(Device device, const Tensor& from) {
  const Tensor both = Tensor::make({2}, kFloat64, device);
  fill(both, 0);
  const Tensor step = view_as(both, {}, {}, 0);
  if (from.defined()) copy_into(step, from);
  return step;
}

}  // namespace taper::v0::kernels
