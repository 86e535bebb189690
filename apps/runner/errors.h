// What ends a program of Taper's, each with its exit code (after sysexits.h where it has one).
#pragma once

#include "framework/error.h"

namespace taper::runner {

// The command line or the YAML file is wrong.
struct ConfigError : Error {
  using Error::Error;
};
// An input file is missing, damaged or of another kind.
struct InputError : Error {
  using Error::Error;
};
// The device that the run names cannot be used.
struct DeviceUnavailable : Error {
  using Error::Error;
};

// The loss is no longer a finite number.
struct Diverged : Error {
  using Error::Error;
};

enum ExitCode : int {
  kExitOk = 0,
  kExitConfig = 2,
  kExitData = 65,
  kExitInput = 66,
  kExitDevice = 69,
  kExitBug = 70,
  kExitMemory = 71,
};

}  // namespace taper::runner
