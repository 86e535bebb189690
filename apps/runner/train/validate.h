// Checks a config without leaving a run: `taper train --validate` and `--dry-run`.
#pragma once

#include <cstdint>
#include <string>

#include "apps/runner/settings/run_config.h"

namespace taper::v0::runner {

// Builds the model on the CPU, whatever the config's device, and runs a few samples through a step.
// Returns the shapes, parameters and multiply-adds of each module, the memory by its parts on each
// of `ranks` ranks, and the number of steps. Of images only the headers are read. Throws
// ConfigError for shapes that do not fit (check_batches), InputError for data that are missing or
// damaged.
std::string validate(const RunConfig& config, int64_t ranks = 1);

// Takes two steps on the config's device, evaluates, saves, reloads and compares the bits. Returns
// a line "OK ..." for each. Throws what train() throws, and Error if bits differ.
std::string dry_run(const RunConfig& config);

}  // namespace taper::v0::runner
