// Collects what the report shows of a run, as JSON.
#pragma once

#include <cstddef>
#include <string>

#include "apps/runner/base/errors.h"

namespace taper::v0::runner {

// Returns what the report shows of the run in `dir` as a JSON object: its state, its curves with at
// most `points` points each (metrics.jsonl, timing.jsonl), its results (exit.json,
// evaluation.json), its config, its system (env.json) and its samples.
// apps/runner/report/page/main.js lists the keys. A run that is still in progress is read up to its
// last complete line. Throws InputError for a directory that is not a run's, and, with file and
// line, for a damaged file.
std::string run_data(const fs::path& dir, size_t points);

// Returns the object of a run that cannot be read, with the reason.
std::string unreadable_run_data(const fs::path& dir, const std::string& message);

}  // namespace taper::v0::runner
