// Signals that ask a run to save and end: SIGTERM, SIGINT, SIGUSR1, and SIGHUP of a lost terminal
// (unless it is ignored, as nohup has it).
#pragma once

#include <string>

namespace taper::runner {

// Listens until the end of the scope, then gives the signals back to whom they were. A second
// SIGINT ends the process at once.
class SignalScope {
 public:
  SignalScope();
  ~SignalScope();
  SignalScope(const SignalScope&) = delete;
  SignalScope& operator=(const SignalScope&) = delete;

  // The name of the signal that came, as "SIGTERM"; empty: none.
  static std::string received();
};

// For loops that may take seconds before a run begins (reading of data): throws Interrupted where a
// signal came. Does nothing without a SignalScope. Not for the bodies of parallel loops.
void check_stop();

}  // namespace taper::runner
