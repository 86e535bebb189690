// Tracks whether the program `taper` owns this process. A host that only calls train() keeps
// control of its signals and its terminal.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/base/namespace.h"

namespace taper::v0::runner {

// Returns whether a run may use the signals and the terminal of this process. That is the case
// while main() runs, and not in a host that calls train().
bool owns_process();
class OwnProcessGuard {
 public:
  OwnProcessGuard();
  ~OwnProcessGuard();
  OwnProcessGuard& operator=(OwnProcessGuard&&) = delete;  // neither copyable nor movable

 private:
  const bool previous_;
};
// Returns the name by which messages refer to a setting: `option`, the option of the command line,
// while main() runs; otherwise `member`, the member of TrainOptions or the function's argument.
inline std::string for_caller(const std::string& option, const std::string& member) {
  return owns_process() ? option : member;
}
inline std::string resume_auto() {
  return for_caller("--resume auto", "TrainOptions.resume = \"auto\"");
}

// Returns the arguments with which this process was started, its name included.
std::vector<std::string> command_line();

// Returns the peak physical memory of this process in bytes, including that used for reading data;
// 0 if the system does not report it.
int64_t peak_resident_memory();

}  // namespace taper::v0::runner
