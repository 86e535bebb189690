// The program `taper` as a function, for programs that register models of their own.
#pragma once

#include <functional>
#include <vector>

namespace taper::runner {

// A command without arguments: `taper NAME`.
struct Command {
  const char *name, *doc, *examples;
  std::function<int()> run;  // gives the exit code
};

// Runs a command line, with Taper's own commands and those given. What a command throws ends as
// one message on stderr. Returns the exit code (docs/exit_codes.md).
int run_program(int argc, char** argv, const std::vector<Command>& more = {});

}  // namespace taper::runner
