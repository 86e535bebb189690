// The program `taper` as a function, for programs that register their own components.
#pragma once

#include <vector>

#include "apps/runner/commands/command.h"

namespace taper::v0::runner {

// Parses and runs a command line with Taper's commands and those in `more`. Returns the exit code
// (docs/exit_codes.md). Prints log messages, and the error that ends a command, to stderr, or
// passes them to the logger that the host has installed (framework/base/log.h).
int main(int argc, char** argv, const std::vector<Command>& more = {});

}  // namespace taper::v0::runner
