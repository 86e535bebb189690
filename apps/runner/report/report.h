// Writes the report: training runs on one HTML page.
#pragma once

#include <vector>

#include "apps/runner/base/errors.h"

namespace taper::v0::runner {

// Writes an HTML page with the curves of all runs in common charts (metrics.jsonl and
// timing.jsonl). For each run it contains the last confusion matrix, samples (samples.txt),
// env.json and config.yaml. The page has no scripts and loads nothing. A run that is still in
// progress is shown up to its last complete line. Throws InputError for a directory that is not a
// run's, and, with file and line, for a damaged file.
void write_report(const std::vector<fs::path>& runs, const fs::path& to);

}  // namespace taper::v0::runner
