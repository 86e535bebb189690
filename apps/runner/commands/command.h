// A command of the program: its name, its arguments and its function.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "apps/runner/config/schema.h"

namespace taper::v0::runner {

// A command that runs as `taper NAME` with its arguments.
struct Command {
  const char *name, *doc, *examples;
  std::function<int()> run;  // returns the exit code
  // The arguments, bound to variables that `run` reads: texts, lists of texts, numbers and flags. A
  // name that begins with '-' is an option ("-o,--to"); other names are positional arguments.
  Schema arguments{};
};

// Creates a command from a struct with describe() (framework/base/describe.h) for its arguments and
// an operator() that returns the exit code.
template <class Options>
Command command_of(const char* name, const char* doc, const char* examples) {
  const auto options = std::make_shared<Options>();
  return {name, doc, examples, [options] { return (*options)(); }, schema_of(*options)};
}

// Writes to stdout. Returns kExitOk if `passed`, otherwise kExitGate. Throws DiskError.
int print(const std::string& text, bool passed = true);

}  // namespace taper::v0::runner
