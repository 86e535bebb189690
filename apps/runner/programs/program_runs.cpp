#include "apps/runner/programs/program_runs.h"

#include <algorithm>

#include "apps/runner/base/files.h"
#include "apps/runner/base/string_utils.h"
#include "apps/runner/gate/trace.h"

namespace taper::v0::runner {
namespace {

// Returns whether the first row that differs belongs to an evaluation.
bool differs_in_evaluation(const std::vector<Recording::Row>& a,
                           const std::vector<Recording::Row>& b) {
  const auto found = std::ranges::mismatch(a, b);
  return found.in1 != a.end() && found.in2 != b.end() && !found.in1->contains("loss");
}

}  // namespace

void fail_with(const std::string& program, const ProgramEnd& end) {
  if (end.is_missing())
    throw InputError(concat_to_string("cannot run the program ", in_quotes(program)));
  throw RunError(ExitCode(end.code),
                 concat_to_string("the program ", in_quotes(program), " failed with exit code ",
                                  end.code, ":\n", end.text));
}

ProgramEnd try_record(const ProgramRun& run, const RecordOptions& options, const fs::path& to) {
  std::vector<std::string> words = {run.program, "record", run.run.string(), "--to", to.string()};
  if (options.steps > 0) {
    words.emplace_back("--steps");
    words.push_back(concat_to_string(options.steps));
  }
  if (options.state_every > 1) {
    words.emplace_back("--state-every");
    words.push_back(concat_to_string(options.state_every));
  }
  words.insert(words.end(), {"--seeds", "0"});
  fs::remove(to);  // `record` would add to it
  const ProgramCall call{.words = words, .log = run.scratch / "log", .directory = run.directory};
  ProgramEnd end = run_program(call);
  if (end.code == kExitConfig && end.text.find("--seeds") != std::string::npos) {
    ProgramCall older = call;
    older.words.resize(words.size() - 2);
    end = run_program(older);
  }
  return end;
}

Recording record_by(const ProgramRun& run, const RecordOptions& options) {
  const fs::path to = run.scratch / "golden.json";
  const ProgramEnd end = try_record(run, options, to);
  if (end.code != kExitOk) fail_with(run.program, end);
  return load_recording(to);
}

std::optional<std::vector<NamedTensor>> trace_by(const ProgramRun& run, const std::string& step) {
  const fs::path to = run.scratch / "trace.safetensors";
  const ProgramEnd end = run_program(
      {.words = {run.program, "trace", run.run.string(), "--step", step, "--to", to.string()},
       .log = run.scratch / "log",
       .directory = run.directory});
  if (end.code == kExitConfig && end.text.find("unknown command") != std::string::npos) return {};
  if (end.code != kExitOk) fail_with(run.program, end);
  return load_trace(to);
}

std::string program_difference(const ProgramTrace& a, const ProgramTrace& b,
                               const std::vector<Recording::Row>& a_rows,
                               const std::vector<Recording::Row>& b_rows, const std::string& step) {
  if (differs_in_evaluation(a_rows, b_rows)) {
    return concat_to_string(
        "first difference: the weights are the same; the evaluation after step ", step,
        " uses different data or metrics\n");
  }
  if (a.tensors && b.tensors)
    return first_different_tensor(*a.tensors, *b.tensors, std::stoll(step));
  return concat_to_string("first difference, in step ", step, ": ",
                          a.tensors ? b.program : a.program, " is too old to name the tensor\n");
}

}  // namespace taper::v0::runner
