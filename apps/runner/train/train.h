// A training run: data, model, optimizer and loop as one config says.
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

// Whoever looks on at a training run: the gate, tests, a user's program; also as a callback that
// configs name (`callbacks: [tell: {every: 10}]`):
//
//   register_callback<TellOptions>("tell", [](const TellOptions& o, const CallbackSite& at) {
//     return std::make_unique<Tell>(o.every, at.dir);
//   });
//
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
  // The run's files are whole. Not for a run that failed or was interrupted.
  virtual void on_end(const TrainResult&) {}
};

struct TrainOptions {
  // "no": anew; what lies in the directory is moved aside. "auto": from the newest checkpoint there
  // that is whole, or anew where there is none. "last", "best", or the path of a checkpoint: from
  // that one.
  std::string resume = "no";
  bool allow_changed_data = false;  // of a run that goes on
  int64_t stop_at = -1;             // saves and ends after this step
  Observer* observer = nullptr;
  std::stop_token stop{};  // asked for by the caller's program: the run is saved and ends
};

// How a run ended.
struct TrainResult {
  int64_t steps = 0;
  std::string reason{};     // of an end before the last step: "early stopping", "time limit"
  Metrics metrics{};        // of the last evaluation
  int64_t saved_step = 0;   // whose weights model.safetensors has
  int64_t saved_epoch = 0;  // in which that step was
  Metrics saved_metrics{};  // of those weights; empty where they were not evaluated
  int64_t best_step = 0;    // the best evaluation's, by best_goal(config.train); 0: there was none
  double best = 0;          // its value
  bool is_first_rank = true;            // which alone has to say so
  std::vector<std::string> warnings{};  // what makes the results doubtful, also in exit.json
};

// Trains in the directory of a run, which then holds config.yaml, env.json, data.json,
// metrics.jsonl, timing.jsonl, log.txt, checkpoints, model.safetensors, exit.json, CRC32 (of these)
// and run.lock. The same config on the same device gives the same bytes of metrics.jsonl and
// model.safetensors, also when the run was killed and resumed. Throws ConfigError (resumed with
// another config), InputError (also: the directory is another's, the data have changed),
// DeviceUnavailable, Diverged, DiskError, or Interrupted once it is saved after a signal
// or `stop`. Whatever ends a run that has begun, its last whole step is saved first where memory
// and disk allow: a warning says where, or why not. What the host has set comes back at the end:
// the number of threads and the precision of float32 products, which are set for the whole process
// meanwhile; its NoGradGuard and Autocast, which do not reach the run; its generators. Visible
// devices stay set. Only main() listens to signals. Messages go to log.txt and to the host's logger
// (set_logger), if there is one.
TrainResult train(const RunConfig& config, const std::filesystem::path& dir,
                  const TrainOptions& options = {});

}  // namespace taper::v0::runner
