// The program `taper` as a function, for programs that register parts of their own.
#pragma once

#include <vector>

#include "apps/runner/commands/command.h"

namespace taper::v0::runner {

// The program: runs a command line, with Taper's own commands and those given. Returns the exit
// code (docs/exit_codes.md). Log messages, and at the end what a command throws, are printed to
// stderr, or go to the logger that the host has installed before (framework/base/log.h).
int main(int argc, char** argv, const std::vector<Command>& more = {});

}  // namespace taper::v0::runner
