// Selects the half-precision dtype of ops by the precision of a config.
#pragma once

#include <optional>

#include "apps/runner/settings/run_config.h"
#include "autograd/autocast.h"

namespace taper::v0::runner {

// Returns a guard for autocast in the half-precision dtype of `precision`. If the precision has
// none, autocast is off.
inline AutocastGuard autocast_of(Precision precision, DeviceType device) {
  return AutocastGuard(device, precision == Precision::kFp16 ? kFloat16 : kBFloat16,
                       precision == Precision::kFp16 || precision == Precision::kBf16);
}
// Like autocast_of() above, for `device` and all devices of model.placement.
inline AutocastGuard autocast_of(const RunConfig& config, DeviceType device) {
  const Precision precision = config.train.precision;
  std::optional<DType> half;
  if (precision == Precision::kBf16) half = kBFloat16;
  if (precision == Precision::kFp16) half = kFloat16;
  AutocastState state = autocast_state();
  const auto set = [&](DeviceType type) {
    (type == DeviceType::kCuda ? state.cuda : state.cpu) = half;
  };
  set(device);
  for (const auto& [pattern, name] : config.model.placement) set(Device(name).type());
  return AutocastGuard(state);
}

}  // namespace taper::v0::runner
