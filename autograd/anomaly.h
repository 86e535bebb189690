// Finding the op behind a nan (https://pytorch.org/docs/stable/autograd.html#anomaly-detection).
//
// In anomaly mode each op remembers where it was called, and a backward function that returns nan
// throws "Function 'LogBackward0' returned nan values in its 0th output." with that place; errors
// of backward functions gain the place too. Slow: every gradient is read on the host.
//
// The place is a stack of addresses, which are named when reported: link the program with -rdynamic
// to see its functions; else `addr2line -Cfe PROGRAM OFFSET` names what is printed.
#pragma once

#include <span>
#include <string>
#include <typeinfo>

#include "autograd/node.h"
#include "framework/memory/pointers.h"

namespace taper::v0 {

// --- per thread; forward and backward pass must both see it ---
bool is_anomaly_enabled();
void set_detect_anomaly(BoolArg on);

// `AnomalyMode guard;` until the end of the scope.
struct AnomalyMode : Switched<is_anomaly_enabled, set_detect_anomaly> {
  explicit AnomalyMode(BoolArg on = true) : Switched(on) {}
};

// Where an op was called.
struct ForwardCall {
  std::string module;  // "net.2", or empty
  static constexpr int kDeepest = 48;
  void* addresses[kDeepest];
  int depth = 0;
};
Owned<ForwardCall> current_call();
// A compiler's name for a function or type as it is written; the name itself when it is none.
std::string demangled(const char* name);
// A type's name without namespaces, enclosing classes and template arguments.
std::string short_name(const std::type_info& type);
// "The forward was called in module net.2, at:" and a line for each function, without Taper's own.
std::string to_string(const ForwardCall& call);

// Throws when one of a node's gradients has a nan.
void check_no_nan(const char* name, std::span<const Tensor> gradients);

}  // namespace taper::v0
