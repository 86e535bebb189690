// Helpers for the formulas of optimizers (update.h).
#pragma once

#include "framework/base/host_device.h"
#include "framework/kernels/common/math.h"

namespace taper::v0::kernels {

// Returns 1 - beta^t without cancellation.
TAPER_HD double bias_correction(double beta, double t) { return -math::expm1(t * math::log(beta)); }

// Creates a Step, whose members all have type C, from numbers in double.
template <class Step, class... T> TAPER_HD Step make(const T&... numbers) {
  return {decltype(Step::lr)(numbers)...};
}

}  // namespace taper::v0::kernels
