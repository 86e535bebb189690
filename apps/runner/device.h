// The device of a run.
#pragma once

#include <string>

#include "framework/device.h"

namespace taper::runner {

// "auto" takes the current GPU, or the CPU where no GPU can be used, and logs which and why;
// anything else is taken as named. Throws DeviceUnavailable with the reason for a GPU that cannot
// be used.
Device choose_device(const std::string& name);

}  // namespace taper::runner
