// The exit codes of the program, and the errors that end a run. Each error has an exit code, taken
// from sysexits.h where that defines one.
//
//   try {
//     runner::train(config, "runs/a", {.stop = token});
//   } catch (const runner::Interrupted&) {  // saved; train() with .resume = "auto" continues it
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

// docs/exit_codes.md describes all of them.
enum ExitCode : int {
  kExitOk = 0,
  kExitGate = 1,  // a comparison found different numbers
  kExitConfig = 2,
  kExitInconclusive = 3,  // a comparison has too few data; no error has this code
  kExitData = 65,
  kExitInput = 66,
  kExitDevice = 69,
  kExitBug = 70,
  kExitMemory = 71,
  kExitDisk = 74,
  kExitInterrupted = 75,
  kExitRanks = 76,
};

// An error with its own exit code. The error classes below derive from it.
struct RunError : Error {
  RunError(ExitCode exit_code, const std::string& what) : Error(what), code(exit_code) {}
  ExitCode code;
};
template <ExitCode kCode> struct RunErrorOf : RunError {
  explicit RunErrorOf(const std::string& what) : RunError(kCode, what) {}
};

using ConfigError = RunErrorOf<kExitConfig>;        // the command line or the YAML file is wrong
using DeviceUnavailable = RunErrorOf<kExitDevice>;  // the requested device does not exist
using Diverged = RunErrorOf<kExitData>;             // a loss or gradient is not finite
using DiskError = RunErrorOf<kExitDisk>;            // a file of the run cannot be written
using Interrupted = RunErrorOf<kExitInterrupted>;   // stopped by a signal or its caller, and saved

// An exception thrown by a component that the user's program registered, such as a layer. The
// original exception is nested: std::rethrow_if_nested(error) throws it again. Must be constructed
// in a catch block.
struct ForeignError : RunError, std::nested_exception {
  explicit ForeignError(const std::string& what) : RunError(kExitBug, what) {}
};

// Returns whether the error has one of these types or a type derived from one.
template <class... E> bool is_any(const std::exception& error) {
  return (dynamic_cast<const E*>(&error) || ...);
}

// Returns f(). If f throws Error, throws E with `place` in front of the message. Errors whose cause
// is outside of f pass through unchanged: exhausted memory, a failing GPU, a signal.
template <class E, class F> auto failing_as(const std::string& place, F f) try {
  return f();
} catch (const Error& error) {
  if (is_any<OutOfMemoryError, AcceleratorError, Interrupted>(error)) throw;
  throw E(place + error.what());
}

// Returns whether an op, a layer or a loss has rejected its arguments: the error is exactly Error,
// ValueError, TypeError, IndexError or NotImplementedError, not a class derived from one of them.
bool is_refusal(const std::exception& error);

// Returns the exit code for an uncaught exception. Foreign exception types count as bugs.
inline ExitCode exit_code_of(const std::exception& error) {
  if (const auto* known = dynamic_cast<const RunError*>(&error)) return known->code;
  if (is_any<InputError>(error)) return kExitInput;
  if (is_any<DataError>(error)) return kExitData;
  // filesystem_error names the path and the reason. Code that reads throws InputError instead.
  if (is_any<OutputError, fs::filesystem_error>(error)) return kExitDisk;
  return is_any<OutOfMemoryError, std::bad_alloc>(error) ? kExitMemory : kExitBug;
}

// Returns "an exception of type std::out_of_range from the layer 'mine', which is not part of
// Taper: ..." for the part "layer 'mine'".
std::string foreign_message(const std::exception& error, const std::string& part);
// Returns the text that the program prints for an exception: its message, preceded by "a bug in
// Taper" if no other cause is known.
std::string message_of(const std::exception& error);

}  // namespace taper::v0::runner
