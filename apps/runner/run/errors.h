// What ends a program of Taper's, each with its exit code (after sysexits.h where it has one).
#pragma once

#include <filesystem>
#include <new>

#include "framework/error.h"

namespace taper::v0::runner {

namespace fs = std::filesystem;

enum ExitCode : int {
  kExitOk = 0,
  kExitGate = 1,  // numbers differ
  kExitConfig = 2,
  kExitData = 65,
  kExitInput = 66,
  kExitDevice = 69,
  kExitBug = 70,
  kExitMemory = 71,
  kExitDisk = 74,
  kExitInterrupted = 75,
  kExitRanks = 76,
};

struct RunError : Error {
  RunError(ExitCode exit_code, const std::string& what) : Error(what), code(exit_code) {}
  ExitCode code;
};
template <ExitCode kCode> struct RunErrorOf : RunError {
  explicit RunErrorOf(const std::string& what) : RunError(kCode, what) {}
};

using ConfigError = RunErrorOf<kExitConfig>;        // the command line or the YAML file is wrong
using DeviceUnavailable = RunErrorOf<kExitDevice>;  // the device that the run names
using Diverged = RunErrorOf<kExitData>;             // a loss or gradient is no finite number
using DiskError = RunErrorOf<kExitDisk>;            // what the run writes cannot be written
using Interrupted = RunErrorOf<kExitInterrupted>;   // by a signal, and saved

// What f gives. An error of it becomes an E that says `place` first; memory that is too small stays
// so.
template <class E, class F> auto failing_as(const std::string& place, F f) try {
  return f();
} catch (const OutOfMemoryError&) {
  throw;
} catch (const Error& error) {
  throw E(place + error.what());
}

// Whether the error is one of those.
template <class... E> bool is_any(const std::exception& error) {
  return (dynamic_cast<const E*>(&error) || ...);
}

// How a program ends that an exception reaches; what is none of Taper's is a bug.
inline ExitCode exit_code_of(const std::exception& error) {
  if (const auto* known = dynamic_cast<const RunError*>(&error)) return known->code;
  if (is_any<InputError>(error)) return kExitInput;
  if (is_any<DataError>(error)) return kExitData;
  // The latter names the path and the reason. Whoever reads says InputError instead.
  if (is_any<OutputError, fs::filesystem_error>(error)) return kExitDisk;
  return is_any<OutOfMemoryError, std::bad_alloc>(error) ? kExitMemory : kExitBug;
}

}  // namespace taper::v0::runner
