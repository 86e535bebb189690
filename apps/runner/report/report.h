// The report: training runs as one HTML page.
#pragma once

#include <vector>

#include "apps/runner/base/errors.h"

namespace taper::v0::runner {

// Curves of all runs over one another (from metrics.jsonl and timing.jsonl), the last confusion
// matrix and samples of each (samples.txt), its env.json and its config.yaml. No script, nothing
// fetched. A run that is still going is shown as far as it is. Throws InputError for a directory
// that is no run's, and naming file and line for a damaged one.
void write_report(const std::vector<fs::path>& runs, const fs::path& to);

}  // namespace taper::v0::runner
