// Signals that ask a run to save and end: SIGTERM, SIGINT and SIGUSR1.
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

}  // namespace taper::runner
