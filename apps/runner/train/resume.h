// Finds the checkpoint from which a run is resumed, and checks that config and data match it.
#pragma once

#include <optional>
#include <string>

#include "apps/runner/base/errors.h"
#include "apps/runner/run/checkpoint.h"
#include "apps/runner/run/run_directory.h"
#include "apps/runner/train/train.h"

namespace taper::v0::runner {

// A checkpoint from which a run is resumed.
struct Resumed {
  Checkpoint checkpoint;
  fs::path run{};         // the directory of the run that wrote it
  std::string changes{};  // a line for each change of the config that may change the numbers
  std::optional<int64_t> eval_batch_size{};  // of that run; empty if the config gives one
};

// Returns the checkpoint that the options name; empty: a new run begins. Its data, and all settings
// that may not change on resume, must match. Throws what train() throws.
std::optional<Resumed> find_resumed(const RunConfig& config, const fs::path& dir,
                                    const TrainOptions& options);

// Returns the checkpoint for a rollback: the newest one that is undamaged and not extra, or the
// newest undamaged one if all are extra. Throws InputError if none is left.
Checkpoint target_of_rollback(const fs::path& run);

// Logs from which checkpoint and step a run is resumed, and warns of settings that differ from
// there on. lr: the learning rate of the config at that step.
void report_resumed(const Resumed& from, int64_t step, double lr);

// Prepares the directory of a resumed run. If the checkpoint is from another run, makes the
// directory and copies that run's metrics.
void prepare_to_resume(const fs::path& dir, const Resumed& from, int64_t step,
                       std::optional<RunLock>& lock);

}  // namespace taper::v0::runner
