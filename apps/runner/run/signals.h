// Signals that ask a run to save and end: SIGTERM, SIGINT, SIGUSR1, and SIGHUP of a lost terminal
// (unless it is ignored, as nohup has it).
#pragma once

#include <string>

namespace taper::runner {

// Listens until the end of the scope, then gives the signals back to whom they were. A second
// SIGINT ends the process at once. check_stop() (framework/hooks.h) throws Interrupted meanwhile
// where a signal came: loops before a run begins end then.
class SignalScope {
 public:
  SignalScope();
  ~SignalScope();
  SignalScope(const SignalScope&) = delete;
  SignalScope& operator=(const SignalScope&) = delete;

  // The name of the signal that came, as "SIGTERM"; empty: none.
  static std::string received();
};

}  // namespace taper::runner
