// Anomaly mode: finds the op that produced a NaN
// (https://pytorch.org/docs/stable/autograd.html#anomaly-detection).
//
// In anomaly mode each op records its call site. A backward function that returns NaN throws Error
// with that call site: "Function 'LogBackward0' returned nan values in its 0th output." Other
// errors in backward functions report the call site too. The mode is slow, since every gradient is
// copied to the host, which synchronizes.
//
// The call site is a stack of return addresses that are resolved to names only for the report. Link
// the program with -rdynamic to see its function names; otherwise `addr2line -Cfe PROGRAM OFFSET`
// resolves the printed offsets.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <typeinfo>

#include "autograd/node.h"

namespace taper::v0 {

// --- per thread; must be on in the forward and the backward pass ---
bool is_anomaly_enabled();
void set_detect_anomaly(BoolArg on);

// `DetectAnomalyGuard guard;` enables anomaly mode until the end of the scope.
struct DetectAnomalyGuard : ThreadStateGuard<is_anomaly_enabled, set_detect_anomaly> {
  explicit DetectAnomalyGuard(BoolArg on = true) : ThreadStateGuard(on) {}
};

// The call site of an op.
struct ForwardCall {
  std::string module;  // "net.2", or empty
  static constexpr int kDeepest = 48;
  void* addresses[kDeepest];
  int depth = 0;
};
std::unique_ptr<ForwardCall> current_call();
// Returns the demangled name of a function or type, or `name` itself if it is not a mangled name.
std::string demangled(const char* name);
// Returns a type's name without namespaces, enclosing classes and template arguments.
std::string short_name(const std::type_info& type);
// Returns "The forward was called in module net.2, at:" and one line per stack frame, without
// Taper's own frames.
std::string to_string(const ForwardCall& call);

// Throws Error if one of the gradients that node `name` returned contains a NaN. Synchronizes.
void check_no_nan(const char* name, std::span<const Tensor> gradients);

}  // namespace taper::v0
