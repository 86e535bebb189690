// Reports of `taper check` for CI systems.
#pragma once

#include <string>

#include "apps/runner/gate/gate.h"

namespace taper::v0::runner {

// One check and its result, as the reports show them.
struct CheckReport {
  const Verdict& verdict;
  std::string run, golden;  // paths as given on the command line
  double seconds;           // how long the check took
};

// Returns the verdict, its text and the metrics as a JSON object.
std::string json_report(const CheckReport& report);
// Returns a JUnit file with one test case. A check that is inconclusive or could not be made is an
// error, not a failure.
std::string junit_report(const CheckReport& report);
// Returns the annotation of a check that did not pass, "::error file=golden.json,line=7::...", or
// "" if it passed. The line is that of the first step that differs.
std::string github_annotation(const CheckReport& report);
// Returns a summary in Markdown, with a table of the metrics if curves were compared.
std::string github_summary(const CheckReport& report);

}  // namespace taper::v0::runner
