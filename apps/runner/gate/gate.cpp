#include "apps/runner/gate/gate.h"

#include <algorithm>
#include <iterator>

#include "apps/runner/base/files.h"
#include "apps/runner/base/process.h"
#include "apps/runner/gate/cause.h"
#include "apps/runner/gate/seeds.h"
#include "framework/base/log.h"

namespace taper::v0::runner {

// --- repeating a run ---

void run_again(const std::vector<Phase>& phases, const fs::path& dir, Observer* observer) try {
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
} catch (const Interrupted&) {  // whose message says how to resume a run, which this one is not
  throw Interrupted(
      "interrupted while a run was repeated, so there is no result; start the command again");
}

void keep_batch_sizes(std::vector<Phase>& phases, const std::string& recorded) {
  for (Phase& phase : phases) keep_batch_sizes(phase.config, recorded_batch_sizes(recorded));
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

// Calls run_again(). If that throws, adds to the message which data files have changed.
void make_again(const fs::path& run, const std::vector<Phase>& phases, const fs::path& dir,
                Observer* observer) try {
  run_again(phases, dir, observer);
} catch (const Error& error) {
  const std::string cause = data_cause(run, phases.back().config);
  throw RunError(exit_code_of(error),
                 concat_to_string(error.what(), cause.empty() ? "" : "\n", cause));
}

// Trains the seeds of the recording, or more of them if requested, and compares their curves. The
// rows of the run's own seed are known.
Verdict check_seeds(const std::vector<Phase>& phases, const Recording& own, const Curves& want,
                    const CheckOptions& options) {
  const int64_t count = options.seeds > 0 ? options.seeds : std::ssize(want.seeds);
  const std::vector<int64_t> seeds = seeds_from(int64_t(phases.back().config.seed), count);
  std::vector<Repetition> others;
  for (size_t i = 1; i < seeds.size(); ++i) others.push_back(with_seed(phases, seeds[i]));
  std::vector<std::vector<Recording::Row>> rows = {own.rows};
  std::ranges::move(train_all(others, {.steps = own.steps, .state_every = own.state_every},
                              jobs_for(own.metadata, phases, options.jobs)),
                    std::back_inserter(rows));
  return compare_seeds(curves_of_seeds(seeds, rows), want, options);
}

// Compares a recording with the sections of another one.
Verdict check_recording(const fs::path& file, const Golden& golden, const Tolerances& tolerances) {
  const Recording got = load_recording(file);
  const ChosenSection chosen = choose_section(golden, got.metadata);
  const Recording want = recording_of(golden, chosen);
  Verdict verdict = compare(got, want, tolerances);
  verdict.section = chosen.number;
  verdict.text += verdict.passed ? same_numbers_cause(got, want) : cause_of(got, want, {});
  return verdict;
}

// Returns the rows of another repetition of the run. If they differ from those of the first one,
// the program is not deterministic.
std::vector<Recording::Row> repeated_rows(const std::vector<Phase>& phases, const Recording& like) {
  const TemporaryDirectory scratch;
  Recorder recorder({{.steps = like.steps, .state_every = like.state_every}});
  run_again(phases, scratch.path() / "run", &recorder);
  return std::move(recorder.taken.rows);
}

void require_statistics(const CheckOptions& options) {
  require<ConfigError>(options.seeds == 0 || options.seeds >= kFewestSeeds,
                       for_caller("--seeds", "CheckOptions.seeds"), " is ", options.seeds,
                       "; statistics need at least ", kFewestSeeds, " seeds");
}

// A run that check() has repeated.
struct Repeated {
  const fs::path& run;
  const fs::path& dir;  // of the repeated run
  const std::vector<Phase>& phases;
  Recording got;
};

Verdict failed_bits(const Repeated& again, const Recording& want, Verdict verdict) {
  const std::string changed = data_cause(again.run, again.phases.back().config);
  const bool may_be_random = changed.empty() && has_same_inputs(again.got, want);
  verdict.text += cause_of(
      again.got, want,
      may_be_random ? repeated_rows(again.phases, again.got) : std::vector<Recording::Row>());
  verdict.text += changed;
  return verdict;
}

Verdict passed_bits(const Repeated& again, const Recording& want, const Tolerances& tolerances,
                    Verdict verdict) {
  // If only the first steps were recorded, there are no final weights to compare.
  const bool is_whole = want.steps == 0 && compares_state(tolerances_of(want, tolerances));
  const std::string weights = is_whole ? weights_difference(again.run, again.dir) : "";
  if (!weights.empty()) return {false, verdict.text + weights};
  verdict.text += same_numbers_cause(again.got, want);
  return verdict;
}

}  // namespace

Recording record_again(const fs::path& run, const std::vector<Phase>& phases, const fs::path& dir,
                       const RecordOptions& options) {
  Recorder recorder(Recording{options});
  make_again(run, phases, dir, &recorder);
  // The config in the directory also has the values that the run chose itself.
  recorder.taken.config = to_yaml(load_run_config(dir));
  recorder.taken.metadata = metadata_of_run(dir);
  return std::move(recorder.taken);
}

Verdict check(const fs::path& run, const fs::path& golden_file, const Tolerances& tolerances,
              const CheckOptions& options) {
  const Golden golden = load_run_golden(golden_file);
  require_statistics(options);
  if (run.extension() == ".json") return check_recording(run, golden, tolerances);
  std::vector<Phase> phases = phases_of_run(run);
  keep_batch_sizes(phases, golden.config);
  const TemporaryDirectory scratch;
  const fs::path dir = scratch.path() / "run";
  const Repeated again{
      run, dir, phases,
      record_again(run, phases, dir, {.steps = golden.steps, .state_every = golden.state_every})};
  const ChosenSection chosen = choose_section(golden, again.got.metadata);
  const Recording want = recording_of(golden, chosen);
  const std::string head = section_line(golden, chosen);
  Verdict bits = compare(again.got, want, tolerances);
  bits.section = chosen.number;
  const Curves& curves = chosen.section.curves;
  const bool falls_back = !chosen.matches && !bits.passed && !curves.seeds.empty();
  require<ConfigError>(options.seeds == 0 || std::ssize(curves.seeds) >= kFewestSeeds,
                       for_caller("--seeds", "CheckOptions.seeds"), ": section ", chosen.number,
                       " of ", golden_file.string(), " has no curves of seeds; leave --seeds out ",
                       "to compare bits, or record to another file with --seeds");
  if (options.seeds > 0 || falls_back) {
    Verdict verdict = check_seeds(phases, again.got, curves, options);
    const char* why = falls_back && options.seeds == 0
                          ? "the numbers differ from it, so the curves of several seeds are "
                            "compared instead\n"
                          : "";
    verdict.text = concat_to_string(
        head, why, verdict.text,
        bits.passed ? same_numbers_cause(again.got, want) : cause_of(again.got, want, {}));
    return verdict;
  }
  bits.text = head + bits.text;
  if (bits.passed) return passed_bits(again, want, tolerances, std::move(bits));
  return failed_bits(again, want, std::move(bits));
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
