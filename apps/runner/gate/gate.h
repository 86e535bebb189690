// The gate: does a training run still give the numbers that it gave? Recordings of its steps,
// comparisons with them, and the search for the first thing that differs between two runs.
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

// Relative tolerances by metric ("loss", "grad_norm", "state", "test.accuracy"); "" is for all that
// are not named. 0 asks for the same bits. Of "state", a hash, any other value means "not
// compared".
using Tolerances = std::map<std::string, double>;
// Of the command line's words: "1e-5", "loss=1e-4". Throws ConfigError.
Tolerances parse_tolerances(const std::vector<std::string>& words);

struct RecordOptions {
  int64_t steps = 0;        // the run's first steps; 0: all
  int64_t state_every = 1;  // steps between two hashes of the state
  Tolerances tolerances = {};
};

// What a comparison found, as text for stdout; where it did not pass the exit code is 1
// (kExitGate).
struct Verdict {
  bool passed = false;
  std::string text;
};

// RUN in all of these: a run's directory, which is run again from its config.yaml, in a directory
// of its own that goes afterwards; `check` takes a recording too. All throw InputError for a file
// that is missing or damaged, and what train() throws.

// Writes each step's loss, gradient norm and state (a hash of all parameters and buffers), and each
// evaluation, as hex floats.
Verdict record(const fs::path& run, const fs::path& to, const RecordOptions& options = {});
// Compares step by step with a recording, up to its length; `tolerances` go before its own. Without
// any, the weights of a run recorded to its end are compared with those that it stored, too.
Verdict check(const fs::path& run, const fs::path& golden, const Tolerances& tolerances = {});
// Goes to the first step at which two runs differ, and names the module, op and element.
Verdict diff(const fs::path& a, const fs::path& b);
// Compares metrics.jsonl of the run with that of the run made again, byte for byte, as far as the
// run went, and its weights. A run that went on with another config is made again so.
Verdict reproduce(const fs::path& run);

// --- recordings ---
struct Recording : RecordOptions {
  // A step, or an evaluation after it: "step"; metrics as hex floats: "loss" and "grad_norm", or
  // "test.loss" and its like; and "state", the hash after the step, where one was taken.
  using Row = std::map<std::string, std::string>;
  std::string config{};    // of the run, resolved
  RunMetadata metadata{};  // of the program, the machine and the data; empty in older ones
  std::vector<Row> rows{};
};

// Whether hashes of the state count: where nothing may be off, or where it is named with 0.
bool compares_state(const Tolerances& tolerances);
// The recording's own behind those given.
Tolerances tolerances_of(const Recording& golden, Tolerances given);

void save_recording(const Recording& recording, const fs::path& file);
// InputError, naming the file: missing, damaged, or no recording.
Recording load_recording(const fs::path& file);

// Step by step, up to the end of `golden`. Where a step is beyond the tolerances the text names it,
// and the metrics with both numbers.
Verdict compare(const Recording& got, const Recording& golden, const Tolerances& tolerances);

// Records the run that it watches, with the settings of `like`. The state's hash is the CRC-32 of
// all parameters and buffers, in the order of the state dict.
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

// --- runs made again ---

// Trains into `dir`, quietly, as the run did: where it went on with another config, so does this.
// Only one phase's result counts: of the last, or of that which the observer ended.
void run_again(const std::vector<Phase>& phases, const fs::path& dir, Observer* observer);

std::string metrics_of(const fs::path& run);
// Of the metrics.jsonl of two runs the first line that differs. A run that ended early differs
// nowhere, but is shorter.
struct MetricsDifference : LineDifference {
  int64_t more = 0;  // bytes for which b goes on behind a that differs nowhere; negative: a does
};
MetricsDifference compare_metrics(const std::string& a, const std::string& b);

}  // namespace taper::v0::runner
