// The gate: checks whether a training run still gives the same numbers. It records the steps of a
// run, compares a run with a recording bit by bit or by the statistics of several seeds, and finds
// the first difference between two runs.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/runner/base/errors.h"
#include "apps/runner/base/string_utils.h"
#include "apps/runner/run/run_metadata.h"
#include "apps/runner/train/train.h"
#include "framework/base/text_enum.h"
#include "framework/gate/comparison.h"
#include "framework/gate/gate_verdict.h"
#include "framework/gate/golden.h"

namespace taper::v0::runner {

using namespace golden;  // from framework/gate, which taper::testing uses, too

// Parses the arguments of --tolerance, such as "1e-5" or "loss=1e-4". Throws ConfigError.
Tolerances parse_tolerances(const std::vector<std::string>& words);

// What a recording may also cover, to measure by how much the numbers vary.
struct CoverValues {
  enum class Value : uint8_t { kThreads, kDevice, kPrecision, kSeeds };
  static constexpr Value kThreads = Value::kThreads, kDevice = Value::kDevice,
                         kPrecision = Value::kPrecision, kSeeds = Value::kSeeds;
  static constexpr const char* kOption = "cover";
  static constexpr const char* kWords[] = {"threads", "device", "precision", "seeds"};
};
using Cover = TextEnum<CoverValues>;
// Parses the arguments of --cover, such as "threads,precision". Throws ConfigError.
std::vector<Cover> parse_covers(const std::vector<std::string>& words);

struct RecordOptions {
  int64_t steps = 0;        // the number of first steps to record; 0: all
  int64_t state_every = 1;  // steps between two hashes of the state
  // If no tolerance is given, they are derived from the spread over `cover`.
  Tolerances tolerances = {};
  // The number of seeds whose curves are recorded for statistics, the run's own included. 0: none;
  // otherwise at least kFewestSeeds.
  int64_t seeds = 0;
  std::vector<Cover> cover = {};
  int64_t jobs = 0;  // seeds that are trained at the same time; 0: see jobs_for() in seeds.h
};

struct CheckOptions {
  // The number of seeds to train for statistics. 0: as many as the recording has, if it has no
  // section for this machine; otherwise bits or tolerances are compared.
  int64_t seeds = 0;
  double alpha = 0.01;  // the probability at which a metric counts as worse
  double detect = 2;    // the shift that must be detectable, in standard deviations
  int64_t jobs = 0;     // as in RecordOptions
};

// In the functions below `run` is a run's directory or a YAML config, which is trained again in a
// temporary directory; check() also takes a recording. All throw InputError for a file that is
// missing or damaged, and the errors of train().

// Repeats the run and writes a recording to the file `to`: the loss, gradient norm and state of
// each step (a hash of all parameters and buffers), and each evaluation, as hex floats. If the file
// exists, adds a section for this machine to it. Throws ConfigError if the file has such a section
// with other numbers, or belongs to another config.
Verdict record(const fs::path& run, const fs::path& to, const RecordOptions& options = {});
// Repeats the run and compares it with the recording's section for this machine, step by step, up
// to the recording's length. `tolerances` override those of the recording. If there are no
// tolerances and the recording covers the whole run, also compares the final weights with those
// that the run has stored. If the recording has no section for this machine, or if seeds are
// requested, compares the curves of several seeds (compare_curves() in curves.h).
Verdict check(const fs::path& run, const fs::path& golden, const Tolerances& tolerances = {},
              const CheckOptions& options = {});

struct BlessOptions {
  std::string reason;       // why the new numbers are right; must not be empty
  std::string author = {};  // default: `git config user.name`
};
// Replaces the recording's section for this machine by the run's numbers, with the options of that
// section. Adds author, date, reason and the old numbers to the file's history. Throws ConfigError
// if reason or author is missing, or if there is no such section.
Verdict bless(const fs::path& run, const fs::path& golden, const BlessOptions& options);

// Finds the first step at which two runs differ, and the first module, op and element in it.
Verdict diff(const fs::path& a, const fs::path& b);
// Repeats the run and compares its metrics.jsonl with the original, byte for byte up to the
// original's length, and its weights. If the run was resumed with another config, the repeated run
// changes its config at the same step.
Verdict reproduce(const fs::path& run);

// --- recordings ---
struct Recording : RecordOptions {
  using Row = golden::Row;
  std::string config{};    // the resolved config of the run
  RunMetadata metadata{};  // program, machine and data; empty in recordings of older versions
  std::vector<Row> rows{};
};

// Returns the given tolerances. Those that are not given are taken from the recording, unless the
// tolerance "" for all quantities is given.
Tolerances tolerances_of(const Recording& golden, Tolerances given);

// Reads a recording of runs. Throws the errors of load_golden(), and InputError for a golden of
// taper::testing.
Golden load_run_golden(const fs::path& file);
// Returns the chosen section with the config of the file.
Recording recording_of(const Golden& golden, const ChosenSection& chosen);
// Writes a file with one section (framework/gate/golden.h).
void save_recording(const Recording& recording, const fs::path& file);
// Reads the first section of a file. Throws InputError, with the name of the file, if it is
// missing, damaged, or not a recording.
Recording load_recording(const fs::path& file);
// Compares the rows, as compare_rows() does.
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

// Sets the batch size of evaluations to that of the recorded config where the phases have none. Its
// default depends on the memory that is free, and sums over other batches have other bits.
void keep_batch_sizes(std::vector<Phase>& phases, const std::string& recorded);

// Calls run_again() with an observer that records, and adds the run's config and metadata.
// If training fails, the message says which data files have changed since `run`.
Recording record_again(const fs::path& run, const std::vector<Phase>& phases, const fs::path& dir,
                       const RecordOptions& options);

std::string metrics_of(const fs::path& run);
// The first line that differs in the metrics.jsonl of two runs. If one run only ended early, there
// is no such line.
struct MetricsDifference : LineDifference {
  int64_t more = 0;  // bytes by which b is longer than a if no line differs; negative: b is shorter
};
MetricsDifference compare_metrics(const std::string& a, const std::string& b);

}  // namespace taper::v0::runner
