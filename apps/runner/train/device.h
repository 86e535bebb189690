// The device of a run.
#pragma once

#include <optional>
#include <string>

#include "framework/device.h"

namespace taper::runner {

// "auto" takes the current GPU, or the CPU where no GPU can be used, and logs which and why;
// anything else is taken as named. Throws DeviceUnavailable with the reason for a GPU that cannot
// be used. `visible_devices` is applied first, when given, and DeviceUnavailable says why when it
// is too late for that.
Device choose_device(const std::string& name,
                     const std::optional<std::string>& visible_devices = std::nullopt);

}  // namespace taper::runner
