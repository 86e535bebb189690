// `taper report`: runs as one self-contained HTML file.
#pragma once

#include <filesystem>
#include <vector>

#include "apps/runner/program.h"

namespace taper::runner {

Command report_command();

// Curves of all runs over one another (from metrics.jsonl and timing.jsonl), the last confusion
// matrix and samples of each (samples.txt), its env.json and its config.yaml. No script, nothing
// fetched. A run that is still going is shown as far as it is. Throws InputError for a directory
// that is no run's, and naming file and line for a damaged one.
void write_report(const std::vector<std::filesystem::path>& runs, const std::filesystem::path& to);

}  // namespace taper::runner
