// What ends a program of Taper's, each with its exit code (after sysexits.h where it has one).
#pragma once

#include "framework/error.h"

namespace taper::runner {

enum ExitCode : int {
  kExitOk = 0,
  kExitConfig = 2,
  kExitData = 65,
  kExitInput = 66,
  kExitDevice = 69,
  kExitBug = 70,
  kExitMemory = 71,
};

struct RunError : Error {
  RunError(ExitCode exit_code, const std::string& what) : Error(what), code(exit_code) {}
  ExitCode code;
};
template <ExitCode kCode> struct RunErrorOf : RunError {
  explicit RunErrorOf(const std::string& what) : RunError(kCode, what) {}
};

using ConfigError = RunErrorOf<kExitConfig>;        // the command line or the YAML file is wrong
using InputError = RunErrorOf<kExitInput>;          // a file is missing, damaged or of another kind
using DeviceUnavailable = RunErrorOf<kExitDevice>;  // the device that the run names
using Diverged = RunErrorOf<kExitData>;             // the loss is no longer a finite number

}  // namespace taper::runner
