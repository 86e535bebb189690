// `taper list`: finds the runs below a folder and prints a line for each.
#pragma once

#include <string>
#include <vector>

#include "apps/runner/many/run_summary.h"

namespace taper::v0::runner {

// Returns the runs below the folder, or the folder itself if it is a run. A run whose files are
// damaged has the state "damaged" and the reason as its message. Throws InputError if there is no
// such folder.
std::vector<RunSummary> find_runs(const fs::path& folder);

// Sorts the runs by "age" (the newest first), "name", "state", "steps" or "size" (the largest
// first), or by a metric such as "test.auc" (the best first); runs without it come last. Throws
// ConfigError, with the names, for another key.
void sort_runs(std::vector<RunSummary>& runs, const std::string& key);

// Returns a table: name, age, state, data, steps, size, and metrics. Names are relative to
// `folder`.
std::string run_table(const std::vector<RunSummary>& runs, const fs::path& folder);
// Returns the same as a JSON array, with all metrics, sizes in bytes, and times in UTC.
std::string run_json(const std::vector<RunSummary>& runs);

}  // namespace taper::v0::runner
