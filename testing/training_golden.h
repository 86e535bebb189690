// Goldens of trainings: compares any training function with the numbers that it gave before, bit by
// bit or by the statistics of several seeds, as `taper record` and `taper check` do for runs from
// YAML. The functions do not depend on GoogleTest (testing/taper_testing.h has the macros).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "framework/base/device.h"
#include "framework/gate/gate_verdict.h"
#include "framework/gate/golden.h"
#include "testing/verdict.h"

// The compiler of the source that includes this header. Its bits may differ from those of another
// compiler, so it is part of a section's platform.
#define TAPER_TEXT_OF_NUMBERS(a, b, c) #a "." #b "." #c
#define TAPER_VERSION_TEXT(a, b, c) TAPER_TEXT_OF_NUMBERS(a, b, c)
#if defined(__clang__)
#define TAPER_TEST_COMPILER \
  "Clang " TAPER_VERSION_TEXT(__clang_major__, __clang_minor__, __clang_patchlevel__)
#else
#define TAPER_TEST_COMPILER "GNU " TAPER_VERSION_TEXT(__GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__)
#endif

namespace taper::v0::test {

// The numbers that one training reports: values of metrics by step.
//
//   Metrics out;
//   for (int step = 1; step <= 100; ++step) out.add(step, {{"loss", train_step()}});
//   out.add(100, {{"test.accuracy", evaluate()}});
class Metrics {
 public:
  Metrics() = default;
  // The metrics of a training that reports only its end: return {{"loss", 0.3}, {"accuracy", 0.9}}.
  Metrics(std::initializer_list<std::pair<const std::string, double>> values) { add(1, values); }

  // Adds values of a step, counted from 1. Steps must not decrease. Throws ValueError if they do,
  // if the step already has the metric, or if a name is empty or "step", "state".
  void add(int64_t step, const std::map<std::string, double>& values);

  const std::vector<golden::Row>& rows() const { return rows_; }

 private:
  std::vector<golden::Row> rows_;
};

// A training. It must depend on nothing but the seed: call manual_seed(seed) first.
using TrainingFunction = std::function<Metrics(uint64_t seed)>;

struct GoldenOptions {
  uint64_t seed = 0;  // the first seed; statistics also train those after it
  // The number of seeds to record and to compare by statistics; at least 3. 0 records no curves.
  int64_t seeds = 8;
  double alpha = 0.01;  // the probability at which a metric counts as worse
  double detect = 2;    // the shift that must be detectable, in standard deviations
  // Relative tolerances of the comparison with the section of this machine, by metric; "" is for
  // all that are not named. Without any, every bit must match.
  std::map<std::string, double> rtol = {};
  // The directions of metrics that Taper does not know. It knows losses and errors (smaller is
  // better), and accuracy, precision, recall, f1, auc, r2 and similar ones (larger is better).
  std::vector<std::string> larger_is_better = {}, smaller_is_better = {};
  // What the numbers depend on, such as hyperparameters, one "name: value" on each line. If a check
  // fails, lines that differ from the recorded ones are named as the cause.
  std::string config = {};
  Device device = {};  // where the function trains
  std::string compiler = TAPER_TEST_COMPILER;
};

// Trains the first seed and compares every number with the golden's section for this machine. If
// there is none and the numbers differ from those of the nearest one, compares the curves of all
// seeds by statistics.
//
// TAPER_UPDATE_GOLDEN=1 in the environment writes the file if it is missing, or adds a section for
// this machine; it never replaces numbers. TAPER_BLESS="reason" replaces the section of this
// machine, and keeps author (GIT_AUTHOR_NAME or `git config user.name`), date, reason and the old
// numbers in the file's history.
//
// A file that cannot be used, a metric that is nan, and an Error of `train` make a failed verdict,
// whose text has the reason and the seed; then nothing is written. Exceptions of other types are
// passed on.
golden::Verdict check_bits(const TrainingFunction& train, const std::filesystem::path& golden,
                           const GoldenOptions& options = {});
// Trains all seeds and tests by statistics whether the training has become worse: a one-sided Welch
// test of the mean of each metric's curve, with Holm's correction. With too few seeds to find a
// shift of options.detect, the verdict is inconclusive, which does not pass. TAPER_UPDATE_GOLDEN
// and TAPER_BLESS are as for check_bits().
golden::Verdict check_statistics(const TrainingFunction& train, const std::filesystem::path& golden,
                                 const GoldenOptions& options = {});

// The same as checks of GoogleTest. An inconclusive verdict is a failure.
Verdict matches_golden(const TrainingFunction& train, const std::filesystem::path& golden,
                       const GoldenOptions& options = {});
Verdict trains_as_well(const TrainingFunction& train, const std::filesystem::path& golden,
                       const GoldenOptions& options = {});

}  // namespace taper::v0::test
