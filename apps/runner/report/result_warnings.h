// Warns of results that are doubtful, in sentences for the user.
#pragma once

#include <string>
#include <vector>

#include "apps/runner/base/errors.h"
#include "apps/runner/run/evaluate.h"
#include "apps/runner/settings/run_config.h"

namespace taper::v0::runner {

// Returns warnings about an evaluation: an r2 below 0, or one class predicted for every sample.
std::vector<std::string> warnings_about(const Metrics& metrics, const DataInfo& info);

// Returns warnings about the run in `dir`. It warns if the training loss is not finite at the end
// or more than three times as large as in the first step, and if a training and a test file have
// the same content.
std::vector<std::string> warnings_about_run(const fs::path& dir, const RunConfig& config);

}  // namespace taper::v0::runner
