#include "apps/runner/gate/gate.h"

#include "apps/runner/gate/replay.h"
#include "apps/runner/run/env.h"
#include "apps/runner/run/errors.h"
#include "apps/runner/run/run_directory.h"

namespace taper::runner {
namespace {

namespace fs = std::filesystem;

std::string headed(const char* head, const std::string& lines) {
  return lines.empty() ? "" : cat(head, "\n", lines);
}

std::string data_cause(const fs::path& run, const RunConfig& config) {
  return headed("the data have changed since the run (then | now), which may be the cause:",
                changed_data(run, config));
}

// As run_again(); what keeps the run from being made is told with its cause.
void make_again(const fs::path& run, const std::vector<Phase>& phases, const fs::path& dir,
                Observer* observer) try {
  run_again(phases, dir, observer);
} catch (const Error& error) {
  const std::string cause = data_cause(run, phases.back().config);
  throw RunError(exit_code_of(error), cat(error.what(), cause.empty() ? "" : "\n", cause));
}

Recording record_again(const fs::path& run, const std::vector<Phase>& phases, const fs::path& dir,
                       Recording like) {
  Recorder recorder(std::move(like));
  make_again(run, phases, dir, &recorder);
  recorder.taken.config = to_yaml(phases.back().config);
  return std::move(recorder.taken);
}

}  // namespace

Verdict record(const fs::path& run, const fs::path& to, const RecordOptions& options) {
  const TemporaryDirectory scratch;
  const Recording taken = record_again(run, phases_to_run_again(run), scratch.path() / "run",
                                       {.steps = options.steps,
                                        .state_every = options.state_every,
                                        .tolerances = options.tolerances});
  save_recording(taken, to);
  return {true, cat("recorded ", taken.rows.size(), " steps and evaluations\n")};
}

Verdict check(const fs::path& run, const fs::path& golden_file, const Tolerances& tolerances) {
  const Recording golden = load_recording(golden_file);
  const TemporaryDirectory scratch;
  const fs::path again = scratch.path() / "run";
  const bool is_run = run.extension() != ".json";
  std::vector<Phase> phases;
  if (is_run) phases = phases_to_run_again(run);
  const Recording got =
      is_run ? record_again(run, phases, again,
                            {.steps = golden.steps, .state_every = golden.state_every})
             : load_recording(run);
  Verdict verdict = compare(got, golden, tolerances);
  if (!verdict.passed) {
    verdict.text +=
        headed("config (the run | the recording):", config_differences(got.config, golden.config));
    if (is_run) verdict.text += data_cause(run, phases.back().config);
    return verdict;
  }
  // Of the first steps alone there are no last weights to compare.
  const bool is_whole =
      is_run && golden.steps == 0 && compares_state(tolerances_of(golden, tolerances));
  const std::string weights = is_whole ? weights_difference(run, again) : "";
  if (!weights.empty()) return {false, verdict.text + weights};
  return verdict;
}

Verdict reproduce(const fs::path& run) {
  const std::vector<Phase> phases = phases_to_run_again(run);
  const TemporaryDirectory scratch;
  const fs::path again = scratch.path() / "run";
  make_again(run, phases, again, nullptr);
  const std::string env = headed("environment (then | now):", env_differences(run, again));
  const MetricsDifference found = compare_metrics(metrics_of(run), metrics_of(again));
  if (found.line > 0) {
    return {false, cat(env, "metrics.jsonl differs first in line ", found.line, ":\n  then ",
                       found.a, "\n  now  ", found.b, "\n", data_cause(run, phases.back().config))};
  }
  const std::string weights = found.more == 0 ? weights_difference(run, again) : "";
  if (!weights.empty()) return {false, cat(env, "the same metrics, but ", weights)};
  const char* end = found.more == 0  ? "\n"
                    : found.more > 0 ? "; the run ended early\n"
                                     : ", but it ends early now\n";
  return {found.more >= 0, cat(env, "the same metrics, byte for byte", end)};
}

}  // namespace taper::runner
