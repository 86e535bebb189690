// What lies between the GPUs of this host, in words for people.
#pragma once

#include <functional>
#include <string>

#include "framework/base/namespace.h"

namespace taper::v0::distributed {

// "NVLink, 18 links", "PCIe" or why that is not known; and whether memory goes between the two
// directly or through the host. In builds with CUDA, of devices that are there.
std::string link_between(int a, int b);
// A line for each two of so many GPUs; one line where all are linked alike, none for one GPU.
std::string link_lines(int gpus, const std::function<std::string(int, int)>& between);
// "2.28.9". In builds with NCCL, where it can be loaded.
std::string nccl_version();

}  // namespace taper::v0::distributed
