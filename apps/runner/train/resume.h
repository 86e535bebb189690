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
  RecordedBatchSizes batch_sizes{};  // of that run; empty where the config has a number
};

// Returns the checkpoint that the options name, or std::nullopt if a new run begins. Throws the
// errors of train() if the data do not match, or if a setting differs that may not change when a
// run is resumed.
std::optional<Resumed> find_resumed(const RunConfig& config, const fs::path& dir,
                                    const TrainOptions& options);

// Returns the newest undamaged checkpoint for a rollback. Extra checkpoints (RunState::is_extra)
// are used only if there are no others. Throws InputError if there is no undamaged checkpoint.
Checkpoint target_of_rollback(const fs::path& run);

// Logs the checkpoint and step from which a run is resumed, and warns of settings that differ after
// that step. lr: the learning rate of the config at that step.
void report_resumed(const Resumed& from, int64_t step, double lr);

// Prepares the directory of a resumed run. If the checkpoint is from another run, makes the
// directory and copies that run's metrics.
void prepare_to_resume(const fs::path& dir, const Resumed& from, int64_t step,
                       std::optional<RunLock>& lock);

}  // namespace taper::v0::runner
