// Describes the connections between the GPUs of this host.
#pragma once

#include <functional>
#include <string>

#include "framework/base/namespace.h"

namespace taper::v0::distributed {

// Describes the link between two devices: "NVLink, 18 links", "PCIe", or why it is unknown. Also
// says whether memory is copied directly between the devices or through the host. Requires a build
// with CUDA and existing devices.
std::string link_between(int a, int b);
// Returns one line for each pair of GPUs, or a single line if all links are the same. Empty for one
// GPU.
std::string link_lines(int gpus, const std::function<std::string(int, int)>& between);
// Returns for example "2.28.9". Requires a build with NCCL and that NCCL can be loaded.
std::string nccl_version();

}  // namespace taper::v0::distributed
