// The errors that end a run, each with its exit code (after sysexits.h where it has one).
//
//   try {
//     runner::train(config, "runs/a", {.stop = token});
//   } catch (const runner::Interrupted&) {  // saved; train() with .resume = "auto" goes on
//   } catch (const runner::Diverged&) {     // a loss or gradient is not finite
//   } catch (const runner::RunError& error) {
//     return error.code;
//   }
#pragma once

#include <exception>
#include <filesystem>
#include <new>
#include <string>

#include "framework/base/error.h"

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

// An error of the program with its exit code. The error classes below derive from it.
struct RunError : Error {
  RunError(ExitCode exit_code, const std::string& what) : Error(what), code(exit_code) {}
  ExitCode code;
};
template <ExitCode kCode> struct RunErrorOf : RunError {
  explicit RunErrorOf(const std::string& what) : RunError(kCode, what) {}
};

using ConfigError = RunErrorOf<kExitConfig>;        // the command line or the YAML file is wrong
using DeviceUnavailable = RunErrorOf<kExitDevice>;  // the device that the run names is not there
using Diverged = RunErrorOf<kExitData>;             // a loss or gradient is not finite
using DiskError = RunErrorOf<kExitDisk>;            // a file of the run cannot be written
using Interrupted = RunErrorOf<kExitInterrupted>;   // ended by a signal or its caller, and saved

// An exception that came out of a part that the user's program adds, such as a layer. The exception
// itself is nested: std::rethrow_if_nested(error) throws it again. Construct it in a catch block.
struct ForeignError : RunError, std::nested_exception {
  explicit ForeignError(const std::string& what) : RunError(kExitBug, what) {}
};

// Whether the error is one of these types.
template <class... E> bool is_any(const std::exception& error) {
  return (dynamic_cast<const E*>(&error) || ...);
}

// Returns f(). Throws E, with `place` in front of the message, where f throws Error. Errors that
// say nothing about what f does pass through: memory that has run out, a GPU that fails, a signal.
template <class E, class F> auto failing_as(const std::string& place, F f) try {
  return f();
} catch (const Error& error) {
  if (is_any<OutOfMemoryError, AcceleratorError, Interrupted>(error)) throw;
  throw E(place + error.what());
}

// Whether an op, a layer or a loss has refused its arguments: Error, ValueError, TypeError,
// IndexError or NotImplementedError itself, not a class that derives from one of them.
bool is_refusal(const std::exception& error);

// Returns the exit code for an uncaught exception. Foreign exception types count as bugs.
inline ExitCode exit_code_of(const std::exception& error) {
  if (const auto* known = dynamic_cast<const RunError*>(&error)) return known->code;
  if (is_any<InputError>(error)) return kExitInput;
  if (is_any<DataError>(error)) return kExitData;
  // The latter names the path and the reason. Whoever reads says InputError instead.
  if (is_any<OutputError, fs::filesystem_error>(error)) return kExitDisk;
  return is_any<OutOfMemoryError, std::bad_alloc>(error) ? kExitMemory : kExitBug;
}

// Returns "an exception of type std::out_of_range from the layer 'mine', which is not part of
// Taper: ..." for a part such as "layer 'mine'".
std::string foreign_message(const std::exception& error, const std::string& part);
// Returns what the program prints for an exception: its message, after "a bug in Taper" where
// nothing else is known to be at fault.
std::string message_of(const std::exception& error);

}  // namespace taper::v0::runner
