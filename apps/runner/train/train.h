// Trains a model as a config describes it.
#pragma once

#include <filesystem>
#include <stop_token>
#include <string>
#include <vector>

#include "apps/runner/run/evaluate.h"
#include "apps/runner/settings/run_config.h"
#include "modules/module.h"

namespace taper::v0::runner {

struct TrainResult;

// Why a run has ended that TrainOptions::stop_after_steps or stop_after_epochs stopped.
inline constexpr const char* kPaused = "stopped as requested";

// Base class of objects whose functions are called during a training run. The gate, tests and user
// programs derive from it. A config can name a registered observer as a callback (`callbacks:
// [tell: {every: 10}]`):
//
//   register_callback<TellOptions>("tell", [](const TellOptions& o, const CallbackSite& at) {
//     return std::make_unique<Tell>(o.every, at.dir);
//   });
//
// A run with an observer reads the loss and gradient norm of every step before the next one begins.
// A run without an observer does not wait for the device. The numbers of the run are the same.
struct Observer {
  virtual ~Observer() = default;
  // Called before the first step with the new or resumed model. Hooks may be registered on it.
  virtual void on_start(Module&) {}
  // Called after the weights were updated; gradients may have been freed. grad_norm is the norm of
  // all gradients before clipping. Return false to end the run after this step: train() returns
  // without another evaluation.
  virtual bool on_step(int64_t /*step*/, double /*loss*/, double /*grad_norm*/) { return true; }
  // Called after each evaluation with the numbers of the "eval" line of metrics.jsonl.
  virtual void on_eval(int64_t /*step*/, const std::string& /*split*/, const Metrics&) {}
  // Called when the files of the run are complete. Not called if the run failed or was interrupted.
  virtual void on_end(const TrainResult&) {}
};

struct TrainOptions {
  // "no": starts a new run; an earlier run in the directory is renamed. "auto": resumes from the
  // newest undamaged checkpoint, or starts a new run if there is none. "last", "best", or the path
  // of a checkpoint: resumes from that one.
  std::string resume = "no";
  bool allow_changed_data = false;  // resumes although the data files have changed
  int64_t stop_at = -1;             // saves and ends the run after this step; -1: off
  // Evaluates, saves and ends the run after this many steps or epochs; 0: off. At most one of them
  // may be given. If the run is resumed with a larger number or without one, it goes on to the same
  // numbers as a run that was not stopped.
  int64_t stop_after_steps = 0, stop_after_epochs = 0;
  Observer* observer = nullptr;
  std::stop_token stop{};  // when a stop is requested, the run is saved and ends
};

// How a run ended.
struct TrainResult {
  int64_t steps = 0;
  std::string reason{};  // why it ended before the last step: "early stopping", "time limit"
  Metrics metrics{};     // of the last evaluation
  // The name of the part of the data on which evaluations ran: "validation", or "test" if there is
  // no validation part.
  std::string evaluated_on = "test";
  // Whether these evaluations may choose weights. Those on the test part of a table may not.
  bool may_decide = true;
  int64_t saved_step = 0;   // the step whose weights are in model.safetensors
  int64_t saved_epoch = 0;  // the epoch of that step
  Metrics saved_metrics{};  // of these weights; empty if they were not evaluated
  Metrics test_metrics{};   // of these weights on the test part, if there is a validation part
  // The probability from which on the second of two classes is predicted, as a number and in words;
  // empty if the config has no threshold.
  std::vector<double> thresholds{};
  std::string decision{};
  int64_t best_step = 0;      // the step with the best value of best_goal(config.train); 0: none
  double best = 0;            // that value
  bool is_first_rank = true;  // the rank that prints the result
  std::vector<std::string> warnings{};  // about doubtful results; also in exit.json
};

// Trains in `dir`, which then has config.yaml, env.json, data.json, metrics.jsonl, timing.jsonl,
// log.txt, checkpoints, model.safetensors, evaluation.json, exit.json, CRC32 (checksums), run.lock.
// The same config on the same device gives the same bytes of metrics.jsonl and model.safetensors,
// also if the run was killed and resumed.
//
// Throws ConfigError, also if a run is resumed with another config. Throws InputError, also if the
// directory belongs to another program or the data have changed. Throws DeviceUnavailable, Diverged
// and DiskError. Throws Interrupted once the run is saved after a signal or `stop`. Whatever ends a
// run that has begun, its last whole step is saved first if memory and disk allow. A warning names
// the checkpoint, or the reason why there is none. Threads that write checkpoints
// (checkpoint.background) or read data end before train() does.
//
// At the end the settings of the host are restored. These are the number of threads and the
// precision of float32 products, which the run sets for the whole process; gradient mode and
// autocast, which do not affect the run; and the random number generator. Visible devices stay set.
// Signals are received in main() only. Messages are written to log.txt and to the host's logger
// (set_logger), if there is one.
//
//   const TrainResult result = train(load_config("digits.yaml", {}), "runs/a", {.resume = "auto"});
TrainResult train(const RunConfig& config, const std::filesystem::path& dir,
                  const TrainOptions& options = {});

}  // namespace taper::v0::runner
