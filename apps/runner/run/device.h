// The device of a run, and what of the process its config sets.
#pragma once

#include "apps/runner/config/config.h"
#include "framework/device.h"

namespace taper::runner {

// Sets the threads and the precision of float32 products, and finds the device: "auto" is the
// current GPU, or the CPU where no GPU can be used. Throws DeviceUnavailable with the reason for a
// GPU that cannot be used; also where it is too late for `visible_devices`, which is applied first.
Device set_up(const RunConfig& config);

}  // namespace taper::runner
