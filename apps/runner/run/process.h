// What a run sets in its process: device, threads, signals.
#pragma once

#include <string>
#include <vector>

#include "apps/runner/config/config.h"
#include "framework/device.h"

namespace taper::v0::runner {

// Sets the threads and the precision of float32 products, and finds the device: "auto" is the
// current GPU, or the CPU where no GPU can be used. Throws DeviceUnavailable with the reason for a
// GPU that cannot be used; also where it is too late for `visible_devices`, which is applied first.
Device set_up(const RunConfig& config);

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

// The words that started this process: a library has no command line of its own.
std::vector<std::string> command_line();

// Returns the most physical memory in bytes that this process has held, the reading of its data
// included; 0 where the system does not tell.
int64_t peak_resident_memory();

// Listens until the end of the scope, then gives the signals back to whom they were. A second
// SIGINT ends the process at once. check_stop() (framework/host/hooks.h) throws Interrupted
// meanwhile where a signal came: loops before a run begins end then.
class SignalScope {
 public:
  SignalScope();
  ~SignalScope();
  SignalScope& operator=(SignalScope&&) = delete;  // neither copied nor moved

  // The name of the signal that came, as "SIGTERM"; empty: none.
  static std::string received();
};

}  // namespace taper::v0::runner
