// What the rules of optimizers (update.h) are written with.
#pragma once

#include "framework/base/host_device.h"
#include "framework/kernels/common/math.h"

namespace taper::v0::kernels {

// 1 - beta^t, without cancellation.
TAPER_HD double bias_correction(double beta, double t) { return -math::expm1(t * math::log(beta)); }

// A step's members, all of type C, from numbers in double.
template <class Step, class... T> TAPER_HD Step make(const T&... numbers) {
  return {decltype(Step::lr)(numbers)...};
}

}  // namespace taper::v0::kernels
