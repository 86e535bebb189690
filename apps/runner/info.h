// What `taper info` prints: versions, and every device with its memory.
#pragma once

#include <string>

namespace taper::runner {

std::string system_info();

}  // namespace taper::runner
