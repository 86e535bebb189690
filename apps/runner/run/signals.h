// The signals that end or save a run of the program.
#pragma once

#include <string>

#include "framework/base/namespace.h"

namespace taper::v0::runner {

// Receives SIGTERM, SIGINT, SIGUSR1 and SIGHUP until the end of the scope, then restores the
// handlers from before. The first signal prints a line on stderr at once, says what happens next,
// and makes check_stop() (framework/base/cancel.h) throw Interrupted. A second SIGINT or SIGTERM
// ends the process at once, with exit code 130 or 143, after a line that names the newest
// checkpoint.
class SignalGuard {
 public:
  // is_quiet: prints no lines, as on all ranks but the first.
  explicit SignalGuard(bool is_quiet = false);
  ~SignalGuard();
  SignalGuard& operator=(SignalGuard&&) = delete;  // neither copied nor moved

  // The name of the signal that came, as "SIGTERM"; empty: none.
  static std::string received();
  // What the line of the first signal says will happen, such as "stopping after this step". The
  // text must live as long as the process.
  static void set_plan(const char* plan);
  // The checkpoint that the line of a second signal names.
  static void set_newest(const std::string& checkpoint);
};

}  // namespace taper::v0::runner
