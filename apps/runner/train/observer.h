// Whoever looks on at a training run: the gate, tests, a user's program.
#pragma once

#include <cstdint>
#include <string>

#include "apps/runner/train/evaluate.h"
#include "modules/module.h"

namespace taper::runner {

// A run with an observer reads every step's loss and gradient norm before the next step begins; one
// without does not wait for the device. The numbers of the run are the same.
struct Observer {
  virtual ~Observer() = default;
  // The model as the first step will see it, resumed or new. Hooks may be registered on it.
  virtual void on_start(Module&) {}
  // The step is done and the weights have moved; gradients may be gone. The norm is that of all
  // gradients before clipping. False ends the run here: train() returns without evaluating again.
  virtual bool on_step(int64_t /*step*/, double /*loss*/, double /*grad_norm*/) { return true; }
  // What an "eval" line of metrics.jsonl says.
  virtual void on_eval(int64_t /*step*/, const std::string& /*split*/, const Metrics&) {}
};

}  // namespace taper::runner
