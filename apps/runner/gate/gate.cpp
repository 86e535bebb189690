#include "apps/runner/gate/gate.h"

#include "apps/runner/base/files.h"
#include "framework/base/log.h"

namespace taper::v0::runner {

// --- repeating a run ---

void run_again(const std::vector<Phase>& phases, const fs::path& dir, Observer* observer) {
  bool is_first = true;
  const LogGuard quiet([&](LogLevel level, const std::string&) {
    // Later phases only warn that the config changes.
    return is_first && level == LogLevel::kWarning;
  });
  for (const Phase& phase : phases) {
    const bool is_last = phase.until == 0;
    const TrainResult result = train(phase.config, dir,
                                     {.resume = &phase == phases.data() ? "no" : "last",
                                      .stop_at = is_last ? -1 : phase.until,
                                      .observer = observer});
    if (is_last || result.steps < phase.until) break;
    is_first = false;
  }
}

std::string metrics_of(const fs::path& run) {
  return read_file(run / "metrics.jsonl", "metrics of the run");
}

MetricsDifference compare_metrics(const std::string& a, const std::string& b) {
  if (a.starts_with(b) || b.starts_with(a)) return {{}, std::ssize(b) - std::ssize(a)};
  return {first_difference(a, b), 0};
}

namespace {

std::string headed(const char* head, const std::string& lines) {
  return lines.empty() ? "" : concat_to_string(head, "\n", lines);
}

std::string data_cause(const fs::path& run, const RunConfig& config) {
  return headed("the data have changed since the run (then | now), which may be the cause:",
                changed_data(run, config));
}

// Compares model.safetensors of two runs. Returns a sentence, or "" if they are equal or one run
// has none.
std::string weights_difference(const fs::path& a, const fs::path& b) {
  const fs::path left = a / "model.safetensors", right = b / "model.safetensors";
  if (!fs::exists(left) || !fs::exists(right)) return "";
  const auto bytes = [](const fs::path& file) { return read_file(file, "weights of the run"); };
  if (bytes(left) == bytes(right)) return "";
  return "model.safetensors differs from that of the repeated run\n";
}

// Returns the differences in config, data and program that may explain why the numbers differ.
std::string causes(const Recording& got, const Recording& golden) {
  const std::string config =
      config_differences(with_defaults(got.config), with_defaults(golden.config));
  std::string out = headed("config (the run | the recording):", config);
  if (got.metadata.program.empty() || golden.metadata.program.empty())
    return out;  // the recording was made by an older version
  out += headed("data (the run | the recording):",
                differences(got.metadata.data, golden.metadata.data));
  const auto versions = lines_of(differences(got.metadata.program, golden.metadata.program));
  if (!versions.empty()) {
    const auto inner = [](const std::string& line) { return line.substr(2); };
    out += concat_to_string("program or machine (the run | the recording): ",
                            joined(versions | std::views::transform(inner)), "\n");
  }
  return out.empty() ? "config, data files, versions and machine are as recorded: the program's "
                       "code has changed\n"
                     : out;
}

// Calls run_again(). If that throws, adds to the message which data files have changed.
void make_again(const fs::path& run, const std::vector<Phase>& phases, const fs::path& dir,
                Observer* observer) try {
  run_again(phases, dir, observer);
} catch (const Error& error) {
  const std::string cause = data_cause(run, phases.back().config);
  throw RunError(exit_code_of(error),
                 concat_to_string(error.what(), cause.empty() ? "" : "\n", cause));
}

Recording record_again(const fs::path& run, const std::vector<Phase>& phases, const fs::path& dir,
                       Recording like) {
  Recorder recorder(std::move(like));
  make_again(run, phases, dir, &recorder);
  // The config in the directory also has the values that the run chose itself.
  recorder.taken.config = to_yaml(load_run_config(dir));
  recorder.taken.metadata = metadata_of_run(dir);
  return std::move(recorder.taken);
}

}  // namespace

Verdict record(const fs::path& run, const fs::path& to, const RecordOptions& options) {
  const TemporaryDirectory scratch;
  const Recording taken = record_again(run, phases_of_run(run), scratch.path() / "run", {options});
  save_recording(taken, to);
  return {true, concat_to_string("recorded ", taken.rows.size(), " steps and evaluations\n")};
}

Verdict check(const fs::path& run, const fs::path& golden_file, const Tolerances& tolerances) {
  const Recording golden = load_recording(golden_file);
  const TemporaryDirectory scratch;
  const fs::path again = scratch.path() / "run";
  const bool is_run = run.extension() != ".json";
  std::vector<Phase> phases;
  if (is_run) phases = phases_of_run(run);
  for (Phase& phase : phases) {
    std::optional<int64_t>& size = phase.config.train.eval_batch_size;
    if (!size) size = recorded_eval_batch_size(golden.config);
  }
  const Recording got =
      is_run ? record_again(run, phases, again,
                            {{.steps = golden.steps, .state_every = golden.state_every}})
             : load_recording(run);
  Verdict verdict = compare(got, golden, tolerances);
  if (!verdict.passed) {
    verdict.text += causes(got, golden);
    if (is_run) verdict.text += data_cause(run, phases.back().config);
    return verdict;
  }
  // If only the first steps were recorded, there are no final weights to compare.
  const bool is_whole =
      is_run && golden.steps == 0 && compares_state(tolerances_of(golden, tolerances));
  const std::string weights = is_whole ? weights_difference(run, again) : "";
  if (!weights.empty()) return {false, verdict.text + weights};
  verdict.text +=
      headed("the numbers are the same, but the config differs (the run | the recording):",
             config_differences(with_defaults(got.config), with_defaults(golden.config)));
  return verdict;
}

Verdict reproduce(const fs::path& run) {
  const std::vector<Phase> phases = phases_of_run(run);
  const TemporaryDirectory scratch;
  const fs::path again = scratch.path() / "run";
  make_again(run, phases, again, nullptr);
  const std::string env = headed("environment (then | now):", env_differences(run, again));
  const MetricsDifference found = compare_metrics(metrics_of(run), metrics_of(again));
  if (found.line > 0) {
    return {false, concat_to_string(env, "metrics.jsonl differs first in line ", found.line,
                                    ":\n  then ", found.a, "\n  now  ", found.b, "\n",
                                    data_cause(run, phases.back().config))};
  }
  const std::string weights = found.more == 0 ? weights_difference(run, again) : "";
  if (!weights.empty()) return {false, concat_to_string(env, "the same metrics, but ", weights)};
  const char* end = found.more == 0  ? "\n"
                    : found.more > 0 ? "; the run ended early\n"
                                     : ", but it ends early now\n";
  return {found.more >= 0, concat_to_string(env, "the same metrics, byte for byte", end)};
}

}  // namespace taper::v0::runner
