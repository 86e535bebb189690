// Writes the report: training runs on one HTML page.
#pragma once

#include <string>
#include <vector>

#include "apps/runner/base/errors.h"

namespace taper::v0::runner {

// Writes an HTML page about the runs: a table of them, their curves in common charts, the
// differences of their configs, and for each run its evaluation, sample predictions, config and
// system. A folder that is not a run is replaced by all runs below it. The page loads nothing: its
// style and its script are apps/runner/report/page. A run that is still in progress is shown up to
// its last complete line. Throws InputError for a directory that is not a run's, and, with file and
// line, for a damaged file. A run that was found below a folder is shown with that message instead,
// which is also a warning.
void write_report(const std::vector<fs::path>& runs, const fs::path& to);

// --- the parts, for the server ---

// Returns the runs among these paths, and the runs below the paths that are folders of runs. A path
// without any run is returned as it is.
std::vector<fs::path> runs_among(const std::vector<fs::path>& paths);

// Returns how many points a curve of the report may have.
size_t points_of_curves(size_t runs);

// Returns the data of the page as JSON, made of the objects of run_data(). is_live: the page asks
// its server for changes.
std::string report_data(const std::vector<std::string>& runs, bool is_live);

// Returns the page with these data.
std::string report_page(const std::string& data);

// The page with "{{data}}" in place of the data. Generated from apps/runner/report/page.
extern const char* const kReportPage;

}  // namespace taper::v0::runner
