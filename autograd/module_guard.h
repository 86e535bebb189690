// Tracks the running module for anomaly reports and profiler traces.
#pragma once

#include <string>

#include "framework/base/namespace.h"

namespace taper::v0 {

// Marks the named module as running while the guard exists, if anomaly mode is on or a profiler
// runs. `name` is the module's name in its parent.
class ModuleGuard {
 public:
  explicit ModuleGuard(const std::string& name);
  ~ModuleGuard();
  ModuleGuard& operator=(ModuleGuard&&) = delete;  // neither copied nor moved

 private:
  bool entered_;
};

}  // namespace taper::v0
