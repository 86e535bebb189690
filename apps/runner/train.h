// A training run: data, model, optimizer and loop as one config says.
#pragma once

#include <filesystem>
#include <string>

#include "apps/runner/config.h"
#include "apps/runner/observer.h"

namespace taper::runner {

struct TrainOptions {
  // "no": anew; what lies in the directory is moved aside. "auto": from the newest checkpoint there
  // that is whole, or anew where there is none. "last", "best", or the path of a checkpoint: from
  // that one.
  std::string resume = "no";
  Observer* observer = nullptr;
};

struct TrainResult {
  int64_t steps = 0;
  std::string reason{};  // of an end before the last step: "early stopping", "time limit"
  Metrics metrics{};     // of the last evaluation
};

// Trains in the directory of a run, which then holds config.yaml, env.json, data.json,
// metrics.jsonl, timing.jsonl, log.txt, checkpoints, model.safetensors and exit.json. The same
// config on the same device gives the same bytes of metrics.jsonl and model.safetensors, also when
// the run was killed and resumed. Throws ConfigError (resumed with another config), InputError,
// DeviceUnavailable, Diverged, DiskError, or Interrupted once it is saved after a signal.
TrainResult train(const RunConfig& config, const std::filesystem::path& dir,
                  const TrainOptions& options = {});

// Two steps, an evaluation, a save, a reload and a comparison of bits, which leave nothing behind:
// a line "OK ..." for each. Throws what train() throws, and Error where bits differ.
std::string dry_run(const RunConfig& config);

}  // namespace taper::runner
