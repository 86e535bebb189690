// Summarizes a run from its files: its state, its length, its metrics.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "apps/runner/base/errors.h"

namespace taper::v0::runner {

struct RunSummary {
  fs::path dir{};
  // "running" while a process holds the run's lock; otherwise why the run has ended: "finished",
  // "early stopping", "time limit", "stopped" (as requested), "interrupted", "failed", or "killed"
  // if its process could not say.
  std::string state{};
  int code = -1;                 // the exit code of the process; -1: none was recorded
  std::string message{};         // of the error, if the run has failed
  int64_t steps = 0, epoch = 0;  // of the last line of metrics.jsonl
  std::string data{};            // the path of the data, or their type if there is none
  // The metrics of the saved weights, as {"validation.loss", 0.31}. If these were not evaluated, or
  // while the run goes on, the metrics of the last evaluation.
  std::vector<std::pair<std::string, double>> metrics{};
  bool are_of_saved_weights = false;  // whether the metrics are those of the saved weights
  std::chrono::system_clock::time_point started{};
  uintmax_t bytes = 0;  // of all files of the run

  // Returns whether the run trained to its end. Early stopping and a time limit are ends.
  bool is_complete() const;
  // Returns whether TrainOptions::stop_after_steps or stop_after_epochs has stopped the run.
  bool is_paused() const;
  // Returns a metric by its name, such as "test.accuracy"; null if it was not measured.
  const double* find(const std::string& metric) const;
  // Returns the name of the part of the data on which evaluations ran: "validation" or, without a
  // validation part, "test".
  std::string evaluated_on() const;
};

// Returns whether the directory has the files of a run that has begun.
bool is_begun_run(const fs::path& dir);
// Reads the files of a run, which may still be written. Throws InputError, with file and line, if
// one of them is damaged.
RunSummary summarize_run(const fs::path& dir);

}  // namespace taper::v0::runner
