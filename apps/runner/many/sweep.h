// `taper sweep`: searches for settings by random search, or by successive halving.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/runner/many/run_set.h"

namespace taper::v0::runner {

struct SweepOptions {
  int64_t trials = 20;
  uint64_t seed = 0;  // of the drawn settings
  // Successive halving: all trials are trained for a part of the run's length, the best third of
  // them for three times as long, and so on up to the whole length.
  bool halves = false;
  bool resumes = false;  // continues the trials in the directory
  int64_t jobs = 0;      // trials that are trained at the same time; 0: one for each core or GPU
};

// A trial and its result.
struct Trial {
  std::string name;                   // of its directory: "trial-007"
  std::vector<std::string> settings;  // "optimizer.lr=0.00213"
  int64_t steps = 0;                  // that it was trained for
  // After each round in which it was trained, the metric by which trials are compared, for the
  // weights that were saved then. std::nullopt: it failed.
  std::vector<std::optional<double>> values{};
  std::string error{};  // why it failed; empty: it did not
  int code = 0;         // the exit code, if it failed
};

struct SweepResult {
  std::vector<Trial> trials;  // the best first: those with the most rounds, then by value
  std::string metric{};       // "validation.loss"
  std::string text{};         // a table, and the command that trains the best settings
};

// Trains `words`, settings and ranges as in SearchSpace, in DIR/trial-00, DIR/trial-01, ... and
// writes DIR/sweep.json after each round. Trials are compared by the metric of train.best, else of
// train.early_stopping, else by the loss, on the validation part of the data. Throws the errors of
// RunSet and SearchSpace, and RunError with the exit code of the first trial if all trials fail.
SweepResult sweep(const std::string& file, const std::vector<std::string>& words,
                  const fs::path& dir, const SweepOptions& options);

}  // namespace taper::v0::runner
