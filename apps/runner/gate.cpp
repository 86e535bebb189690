#include "apps/runner/gate.h"

#include "apps/runner/errors.h"
#include "apps/runner/rerun.h"

namespace taper::runner {
namespace {

namespace fs = std::filesystem;

Recording record_again(const fs::path& run, Recording like) {
  const RunConfig config = config_of_run(run);
  const TemporaryDirectory scratch;
  Recorder recorder(std::move(like));
  run_again(config, scratch.path() / "run", &recorder);
  recorder.taken.config = to_yaml(config);
  return std::move(recorder.taken);
}

std::string headed(const char* head, const std::string& lines) {
  return lines.empty() ? "" : cat(head, "\n", lines);
}

}  // namespace

Verdict record(const fs::path& run, const fs::path& to, const RecordOptions& options) {
  const Recording taken = record_again(run, {.steps = options.steps,
                                             .state_every = options.state_every,
                                             .tolerances = options.tolerances});
  save_recording(taken, to);
  return {true, cat("recorded ", taken.rows.size(), " steps and evaluations\n")};
}

Verdict check(const fs::path& run, const fs::path& golden_file, const Tolerances& tolerances) {
  const Recording golden = load_recording(golden_file);
  const Recording got =
      run.extension() == ".json"
          ? load_recording(run)
          : record_again(run, {.steps = golden.steps, .state_every = golden.state_every});
  Verdict verdict = compare(got, golden, tolerances);
  if (!verdict.passed) {
    verdict.text +=
        headed("config (the run | the recording):", config_differences(got.config, golden.config));
  }
  return verdict;
}

Verdict reproduce(const fs::path& run) {
  const TemporaryDirectory scratch;
  const fs::path again = scratch.path() / "run";
  run_again(config_of_run(run), again, nullptr);
  const std::string env = headed("environment (then | now):", env_differences(run, again));
  const MetricsDifference found = compare_metrics(run, again);
  if (found.line > 0) {
    return {false, cat(env, "metrics.jsonl differs first in line ", found.line, ":\n  then ",
                       found.a, "\n  now  ", found.b, "\n")};
  }
  const char* end = found.more == 0  ? "\n"
                    : found.more > 0 ? "; the run ended early\n"
                                     : ", but it ends early now\n";
  return {found.more >= 0, cat(env, "the same metrics, byte for byte", end)};
}

}  // namespace taper::runner
