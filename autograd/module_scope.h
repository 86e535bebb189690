// The module that runs, for reports of anomalies and traces.
#pragma once

#include <string>

#include "framework/namespace.h"

namespace taper::v0 {

// Says, in anomaly mode or to a profiler, which module is running: its name in its parent.
class ModuleScope {
 public:
  explicit ModuleScope(const std::string& name);
  ~ModuleScope();
  ModuleScope& operator=(ModuleScope&&) = delete;  // neither copied nor moved

 private:
  bool entered_;
};

}  // namespace taper::v0
