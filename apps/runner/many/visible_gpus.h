// The GPUs among which processes can be divided.
#pragma once

#include <string>
#include <vector>

#include "framework/base/namespace.h"

namespace taper::v0::runner {

// Returns the values of CUDA_VISIBLE_DEVICES that show one GPU each. If `device`, a config's
// `device`, names one GPU ("cuda:1"), only that one.
std::vector<std::string> visible_gpus(const std::string& device);

}  // namespace taper::v0::runner
