// What a run goes on from.
#pragma once

#include <optional>
#include <string>

#include "apps/runner/base/errors.h"
#include "apps/runner/run/checkpoint.h"
#include "apps/runner/run/run_directory.h"
#include "apps/runner/train/train.h"

namespace taper::v0::runner {

struct Resumed {
  Checkpoint checkpoint;
  fs::path run{};                            // whose it is
  std::string changes{};                     // of the config, those that count, a line each
  std::optional<int64_t> eval_batch_size{};  // as recorded, where the config gives none
};

// The checkpoint that the options ask for, if any, once the run may go on from it: its config is
// the same but for what may differ, and its data are. Throws what train() throws.
std::optional<Resumed> find_resumed(const RunConfig& config, const fs::path& dir,
                                    const TrainOptions& options);

// What a run goes back to: its newest whole checkpoint that is no extra one, or the newest where
// all are. InputError: none is left.
Checkpoint target_of_rollback(const fs::path& run);

// Says from where a run goes on, after that step, and what is otherwise from there on. `lr`: the
// rate that the config has there.
void report_resumed(const Resumed& from, int64_t step, double lr);

// Makes the directory ready. The checkpoint may be of another run, whose metrics then come along.
void prepare_to_resume(const fs::path& dir, const Resumed& from, int64_t step,
                       std::optional<RunLock>& lock);

}  // namespace taper::v0::runner
