// What makes the results of a run doubtful, in sentences for its user.
#pragma once

#include <string>
#include <vector>

#include "apps/runner/base/errors.h"
#include "apps/runner/run/evaluate.h"
#include "apps/runner/settings/run_config.h"

namespace taper::v0::runner {

// Of an evaluation: an r2 below 0, or one class that is predicted for every sample.
std::vector<std::string> warnings_about(const Metrics& metrics, const DataInfo& info);

// Of the run whose files are in `dir`: a training loss that is not finite at the end, or more than
// three times as large as in the first step; training and test files with the same content.
std::vector<std::string> warnings_about_run(const fs::path& dir, const RunConfig& config);

}  // namespace taper::v0::runner
