// Trains a config with several seeds, or on several folds of its table, and measures the spread of
// its metrics.
#pragma once

#include <string>

#include "apps/runner/many/run_set.h"

namespace taper::v0::runner {

struct SpreadOptions {
  // The number of seeds, from the config's own on, or the number of folds. One of them is 0.
  int64_t seeds = 0, folds = 0;
  bool resumes = false;  // continues the runs in the directory
  int64_t jobs = 0;      // runs that are trained at the same time; 0: one for each core or GPU
};

// What train_spread() returns.
struct SpreadResult {
  std::string text;  // a table of the runs, the mean and the standard deviation of each metric
  int code = 0;      // the exit code of the first run that failed
};

// Trains DIR/seed-0, DIR/seed-1, ... or DIR/fold-0, ..., and writes DIR/summary.json. Throws the
// errors of RunSet, and ConfigError if the data cannot be divided into folds.
SpreadResult train_spread(const std::string& file, const std::vector<std::string>& overrides,
                          const fs::path& dir, const SpreadOptions& options);

}  // namespace taper::v0::runner
