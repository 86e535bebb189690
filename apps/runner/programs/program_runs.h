// Lets other builds of `taper` train a config, and reads what they recorded.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/runner/base/child_process.h"
#include "apps/runner/gate/gate.h"
#include "framework/tensor/tensor.h"

namespace taper::v0::runner {

// A program, and what it trains.
struct ProgramRun {
  std::string program;   // path of a `taper` program
  fs::path run;          // a YAML config or the directory of a run
  fs::path scratch;      // an existing folder for temporary files
  fs::path directory{};  // working directory; empty: that of this process
};

// Throws the error of a program that has failed: InputError if it cannot be run, otherwise RunError
// with its exit code and what it printed.
[[noreturn]] void fail_with(const std::string& program, const ProgramEnd& end);

// Lets the program record the first steps of a run (options.steps and options.state_every) and
// returns how it ended. If its exit code is 0, the file `to` has the recording. Programs of older
// versions, which do not know --seeds, record bits only.
ProgramEnd try_record(const ProgramRun& run, const RecordOptions& options, const fs::path& to);
// The same, but throws the errors of fail_with(), and returns the recording.
Recording record_by(const ProgramRun& run, const RecordOptions& options);

// Lets the program trace a step, counted from 1. Returns std::nullopt if it is too old to know
// `trace`. Throws the errors of fail_with().
std::optional<std::vector<NamedTensor>> trace_by(const ProgramRun& run, const std::string& step);

// A trace and the program that wrote it, for messages.
struct ProgramTrace {
  std::string program;
  std::optional<std::vector<NamedTensor>> tensors;
};
// Describes the first difference between two programs: in the tensors of the step or, if the rows
// show that only an evaluation differs, in the evaluation after it.
std::string program_difference(const ProgramTrace& a, const ProgramTrace& b,
                               const std::vector<Recording::Row>& a_rows,
                               const std::vector<Recording::Row>& b_rows, const std::string& step);

}  // namespace taper::v0::runner
