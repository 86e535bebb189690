// The requests that end a run or interrupt its steps.
#pragma once

#include <string>

#include "framework/base/namespace.h"

namespace taper::v0::runner {

// The requests of clocks and signals after a step.
struct LoopControl {
  std::string signal{};   // the signal that was received, or "its program" for the stop token;
                          // empty: none
  bool is_late = false;   // train.time_limit has passed
  bool saves = false;     // checkpoint.interval has passed
  bool reads = false;     // it is time to read losses
  bool is_saved = false;  // the thread that was writing a checkpoint has ended; requests nothing

  bool ends_run() const { return !signal.empty() || is_late; }
  bool requests_anything() const { return ends_run() || saves || reads; }
};

}  // namespace taper::v0::runner
