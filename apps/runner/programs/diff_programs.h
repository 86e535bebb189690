// Finds the first difference between two programs that train the same config.
#pragma once

#include <string>

#include "apps/runner/gate/gate.h"

namespace taper::v0::runner {

// Lets two programs train the same config, and finds the first step, module and tensor in which
// they differ. `a` and `b` are paths of `taper` programs, such as those of two commits. Throws
// InputError if the config or a program does not exist, and the errors of the programs.
Verdict diff_programs(const fs::path& config, const std::string& a, const std::string& b);

}  // namespace taper::v0::runner
