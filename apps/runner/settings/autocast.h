// The half type that ops compute in, by a config's precision.
#pragma once

#include "apps/runner/settings/run_config.h"
#include "autograd/autocast.h"

namespace taper::v0::runner {

// Until the end of the returned guard's scope, ops compute in the half type that the precision
// names, if it names one.
inline AutocastGuard autocast_of(Precision precision, DeviceType device) {
  return AutocastGuard(device, precision == Precision::kFp16 ? kFloat16 : kBFloat16,
                       precision == Precision::kFp16 || precision == Precision::kBf16);
}

}  // namespace taper::v0::runner
