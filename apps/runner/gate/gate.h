// The gate: checks whether a training run still gives the same numbers. It records the steps of a
// run, compares a run with a recording, and finds the first difference between two runs.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "apps/runner/base/errors.h"
#include "apps/runner/base/string_utils.h"
#include "apps/runner/run/run_metadata.h"
#include "apps/runner/train/train.h"

namespace taper::v0::runner {

// Relative tolerances by metric ("loss", "grad_norm", "state", "test.accuracy"). The key "" applies
// to all metrics that are not named. 0 requires equal bits. "state" is a hash: with any tolerance
// other than 0 it is not compared.
using Tolerances = std::map<std::string, double>;
// Parses the arguments of --tolerance, such as "1e-5" or "loss=1e-4". Throws ConfigError.
Tolerances parse_tolerances(const std::vector<std::string>& words);

struct RecordOptions {
  int64_t steps = 0;        // the number of first steps to record; 0: all
  int64_t state_every = 1;  // steps between two hashes of the state
  Tolerances tolerances = {};
};

// The result of a comparison. `text` is printed on stdout. The exit code is 1 (kExitGate) if the
// comparison did not pass.
struct Verdict {
  bool passed = false;
  std::string text;
};

// In the functions below `run` is a run's directory, whose config.yaml is trained again in a
// temporary directory; check() also takes a recording. All throw InputError for a file that is
// missing or damaged, and the errors of train().

// Repeats the run and writes a recording to the file `to`: the loss, gradient norm and state of
// each step (a hash of all parameters and buffers), and each evaluation, as hex floats.
Verdict record(const fs::path& run, const fs::path& to, const RecordOptions& options = {});
// Repeats the run and compares it step by step with a recording, up to the recording's length.
// `tolerances` override those of the recording. If there are no tolerances and the recording covers
// the whole run, also compares the final weights with those that the run has stored.
Verdict check(const fs::path& run, const fs::path& golden, const Tolerances& tolerances = {});
// Finds the first step at which two runs differ, and the first module, op and element in it.
Verdict diff(const fs::path& a, const fs::path& b);
// Repeats the run and compares its metrics.jsonl with the original, byte for byte up to the
// original's length, and its weights. If the run was resumed with another config, the repeated run
// changes its config at the same step.
Verdict reproduce(const fs::path& run);

// --- recordings ---
struct Recording : RecordOptions {
  // The values of one step, or of an evaluation after it. The key "step" has its number; "loss",
  // "grad_norm", "test.loss" and other metrics are hex floats. "state" is the hash after the step,
  // if one was taken.
  using Row = std::map<std::string, std::string>;
  std::string config{};    // the resolved config of the run
  RunMetadata metadata{};  // program, machine and data; empty in recordings of older versions
  std::vector<Row> rows{};
};

// Returns whether hashes of the state are compared. They are if the tolerance of "state" is 0, or
// if no tolerance other than 0 is given.
bool compares_state(const Tolerances& tolerances);
// Returns the given tolerances. Those that are not given are taken from the recording, unless the
// tolerance "" for all quantities is given.
Tolerances tolerances_of(const Recording& golden, Tolerances given);

void save_recording(const Recording& recording, const fs::path& file);
// Reads a recording. Throws InputError, with the name of the file, if it is missing, damaged, or
// not a recording.
Recording load_recording(const fs::path& file);

// Compares step by step, up to the end of `golden`. The text names the first step beyond the
// tolerances, and its metrics with both numbers.
Verdict compare(const Recording& got, const Recording& golden, const Tolerances& tolerances);

// Records the run that it observes, with the settings of `like`. The hash of the state is the
// CRC-32 of all parameters and buffers, in the order of the state dict.
class Recorder : public Observer {
 public:
  explicit Recorder(Recording like) : taken(std::move(like)) {}
  void on_start(Module& model) override { model_ = &model; }
  bool on_step(int64_t step, double loss, double grad_norm) override;
  void on_eval(int64_t step, const std::string& split, const Metrics& metrics) override;

  Recording taken;

 private:
  Module* model_ = nullptr;
};

// --- repeating a run ---

// Trains in `dir` and logs only the warnings of the first phase. If the run changed its config,
// changes it at the same step. Ends when the observer ends a phase.
void run_again(const std::vector<Phase>& phases, const fs::path& dir, Observer* observer);

std::string metrics_of(const fs::path& run);
// The first line that differs in the metrics.jsonl of two runs. If one run only ended early, there
// is no such line.
struct MetricsDifference : LineDifference {
  int64_t more = 0;  // bytes by which b is longer than a if no line differs; negative: b is shorter
};
MetricsDifference compare_metrics(const std::string& a, const std::string& b);

}  // namespace taper::v0::runner
