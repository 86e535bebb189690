// Shows the progress of a run on the console.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "framework/base/namespace.h"

namespace taper::v0::runner {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point then);

// The progress of a run at one moment.
struct ProgressSnapshot {
  int64_t step = 0, total = 0, epoch = 1;  // step: steps done; total: steps of the run
  double samples_per_second = 0;
  int64_t seconds_left = 0;
  std::optional<double> loss{};  // of the last step that was read; empty before the first
  double lr = 0;
};

// Joins the parts by spaces into lines of at most 79 columns. Lines after the first are indented.
std::string wrapped(const std::vector<std::string>& parts);

// Returns a line of less than `columns` columns, so that the terminal does not wrap it. Less
// important fields are left out if not all fit.
std::string bar_of(const ProgressSnapshot& at, size_t columns, bool has_colors);

// How much of the files of a table has been read.
struct ReadingSnapshot {
  int64_t bytes = 0, total_bytes = 0, rows = 0;
  double seconds = 0;  // since the start
};

// Returns a line about a table that is being read, in the same way.
std::string reading_bar_of(const ReadingSnapshot& at, size_t columns, bool has_colors);

// How much of some work is done, such as the batches of an evaluation.
struct WorkSnapshot {
  std::string what{}, unit{};  // "evaluating", "batches"
  int64_t done = 0, total = 0;
  double seconds = 0;  // since the start
};

// Returns a line about the work, in the same way.
std::string work_bar_of(const WorkSnapshot& at, size_t columns, bool has_colors);

// Draws a bar on the terminal of the program for work that takes longer than a second. Without a
// terminal, on later ranks, and in a host program, it does nothing.
class WorkProgress {
 public:
  WorkProgress(const std::string& what, const std::string& unit, int64_t total);
  ~WorkProgress();  // removes the bar, also when an exception ends the work
  WorkProgress& operator=(WorkProgress&&) = delete;  // neither copied nor moved
  void show(int64_t done);

 private:
  const bool is_bar_;
  bool is_shown_ = false;
  const Clock::time_point start_ = Clock::now();
  Clock::time_point last_{};
  WorkSnapshot at_;
};

// Draws a bar on the terminal of the program while tables or images are read that take longer than
// a moment. Only one object may exist at a time.
class ReadingProgress {
 public:
  ReadingProgress();
  ~ReadingProgress();  // removes the bar, also when an exception ends the reading
  ReadingProgress& operator=(ReadingProgress&&) = delete;  // neither copied nor moved

 private:
  const bool is_bar_;
};

// Draws a bar on the terminal of the program and redraws it; messages are printed above it. If
// there is no terminal, or if a host program calls train(), logs a message with key=value fields
// every ten seconds.
class Progress {
 public:
  Progress();
  ~Progress();                               // removes the bar, also when an exception ends the run
  Progress& operator=(Progress&&) = delete;  // neither copied nor moved
  // Returns whether enough time has passed since the last show().
  bool is_due() const;
  void show(const ProgressSnapshot& at);
  // Removes the bar.
  void clear();

 private:
  const bool is_bar_, has_colors_;
  Clock::time_point last_ = Clock::now();
};

}  // namespace taper::v0::runner
