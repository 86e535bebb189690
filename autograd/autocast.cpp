#include "autograd/autocast.h"

#include "framework/factory/low_precision_cache.h"

namespace taper::v0 {
namespace {

thread_local AutocastState current;

const std::optional<DType>& low_type(const Tensor& x) {
  return x.is_cuda() ? current.cuda : current.cpu;
}

AutocastState changed(DeviceType device, std::optional<DType> dtype, BoolArg enabled) {
  const DType low = dtype.value_or(device == DeviceType::kCuda ? kFloat16 : kBFloat16);
  require<ValueError>(is_half(low), "Autocast only supports dtypes of bfloat16 and float16, got ",
                      low);
  AutocastState state = current;
  (device == DeviceType::kCuda ? state.cuda : state.cpu) =
      enabled ? std::optional(low) : std::nullopt;
  return state;
}

}  // namespace

const AutocastState& autocast_state() { return current; }
void set_autocast_state(const AutocastState& state) { current = state; }

AutocastGuard::AutocastGuard(DeviceType device, std::optional<DType> dtype, BoolArg enabled)
    : AutocastGuard(changed(device, dtype, enabled)) {}

std::optional<DType> autocast_dtype(const Tensor& x) {
  return x.dtype() == kFloat32 ? low_type(x) : std::nullopt;
}

bool autocasts(const Tensor& x) { return (current.cpu || current.cuda) && low_type(x); }

Tensor cast_for(Cast rule, const Tensor& x) {
  if (!x.defined() || !x.is_floating_point() || x.dtype() == kFloat64 || !low_type(x)) return x;
  const DType dtype = rule == Cast::kToLow ? *low_type(x) : kFloat32;
  if (x.dtype() == dtype) return x;
  if (rule != Cast::kToLow || x.dtype() != kFloat32 || !x.impl()->is_parameter) return x.to(dtype);
  const Tensor y = low_precision_copy(x, dtype).detach();
  if (!needs_grad({x})) return y;
  return record("ToCopyBackward0", y, {x}, [](Gradients& g) { g.dx(0) = g.dy().to(kFloat32); });
}

}  // namespace taper::v0
