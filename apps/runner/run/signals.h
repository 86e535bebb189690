// Handles the signals that end or save a run of the program.
#pragma once

#include <string>

#include "framework/base/namespace.h"

namespace taper::v0::runner {

// Handles SIGTERM, SIGINT, SIGUSR1 and SIGHUP until the end of the scope, then restores the
// previous handlers. On the first signal, prints a line on stderr that says what happens next, and
// makes check_stop() (framework/base/cancel.h) throw Interrupted. On a second SIGINT or SIGTERM,
// prints the path of the newest checkpoint and immediately ends the process with exit code 130 or
// 143.
class SignalGuard {
 public:
  // is_quiet: prints no lines. Set on all ranks except the first.
  explicit SignalGuard(bool is_quiet = false);
  ~SignalGuard();
  SignalGuard& operator=(SignalGuard&&) = delete;  // neither copied nor moved

  // Returns the name of the signal that was received, such as "SIGTERM", or "" if there was none.
  static std::string received();
  // Sets the end of the line that the first signal prints, such as "stopping after this step". The
  // text must live as long as the process.
  static void set_plan(const char* plan);
  // Sets the checkpoint that is printed when a second signal ends the process.
  static void set_newest(const std::string& checkpoint);
};

}  // namespace taper::v0::runner
