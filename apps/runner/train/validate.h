// Checks a config without leaving a run: `taper train --validate` and `--dry-run`.
#pragma once

#include <cstdint>
#include <string>

#include "apps/runner/settings/run_config.h"

namespace taper::v0::runner {

// Builds the model on the CPU, whatever the config's device is, and runs a few samples through a
// step. Returns the shapes, parameters and multiply-adds of each module, the parts of the memory on
// each of `ranks` ranks, and the number of steps. Reads only the headers of images. Throws
// ConfigError for shapes that do not fit (check_batches), and InputError for data that are missing
// or damaged.
std::string validate(const RunConfig& config, int64_t ranks = 1);

// Takes two steps on the config's device, evaluates, saves a checkpoint, and loads it again.
// Returns a line "OK ..." for each of these. Throws the errors of train(), and Error if the loaded
// state differs from the saved one in any bit.
std::string dry_run(const RunConfig& config);

}  // namespace taper::v0::runner
