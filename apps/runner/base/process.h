// What the program owns in its process, and a host that only calls train() does not share.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/base/namespace.h"

namespace taper::v0::runner {

// Whether a run may use the signals and the terminal of this process: while main() runs. A host
// that calls train() keeps both to itself.
bool owns_process();
class OwnProcessGuard {
 public:
  OwnProcessGuard();
  ~OwnProcessGuard();
  OwnProcessGuard& operator=(OwnProcessGuard&&) = delete;  // neither copied nor moved

 private:
  const bool previous_;
};
// How messages name what a caller can set: by the option of the command line while main() runs,
// else by the member of TrainOptions or the argument of a function.
inline std::string for_caller(const std::string& option, const std::string& member) {
  return owns_process() ? option : member;
}
inline std::string resume_auto() {
  return for_caller("--resume auto", "TrainOptions.resume = \"auto\"");
}

// The words that started this process: a library has no command line of its own.
std::vector<std::string> command_line();

// Returns the most physical memory in bytes that this process has held, the reading of its data
// included; 0 where the system does not tell.
int64_t peak_resident_memory();

}  // namespace taper::v0::runner
