// The directory of a run without --out.
#pragma once

#include <string>

#include "framework/base/namespace.h"

namespace taper::v0::runner {

// Returns runs/NAME/20260131-235959-1a2b.
std::string default_directory(const std::string& name);

}  // namespace taper::v0::runner
