// Selects the half-precision dtype of ops by the precision of a config.
#pragma once

#include "apps/runner/settings/run_config.h"
#include "autograd/autocast.h"

namespace taper::v0::runner {

// Returns a guard for autocast in the half-precision dtype of `precision`. If the precision has
// none, autocast is off.
inline AutocastGuard autocast_of(Precision precision, DeviceType device) {
  return AutocastGuard(device, precision == Precision::kFp16 ? kFloat16 : kBFloat16,
                       precision == Precision::kFp16 || precision == Precision::kBf16);
}

}  // namespace taper::v0::runner
