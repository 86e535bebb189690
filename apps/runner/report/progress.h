// Shows on the console how far a run is.
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

// What the console shows of a run at one moment.
struct ProgressSnapshot {
  int64_t step = 0, total = 0, epoch = 1;  // total: steps
  double samples_per_second = 0;
  int64_t seconds_left = 0;
  std::optional<double> loss{};  // of the last step that was read; empty before the first
  double lr = 0;
};

// Joins the parts by spaces into lines of less than 80 columns. Lines after the first are indented.
std::string wrapped(const std::vector<std::string>& parts);

// Returns a line of less than `columns` columns, so that no terminal breaks it. If not all fields
// fit, the less important ones are left out.
std::string bar_of(const ProgressSnapshot& at, size_t columns, bool has_colors);

// Draws a bar on the terminal of the program and redraws it; messages are printed above it. If
// there is no terminal, or a host calls train(), logs a message of key=value every ten seconds.
class Progress {
 public:
  Progress();
  ~Progress();                               // removes the bar, also when an exception ends the run
  Progress& operator=(Progress&&) = delete;  // neither copied nor moved
  // Whether enough time has passed since the last show().
  bool is_due() const;
  void show(const ProgressSnapshot& at);
  // Removes the bar.
  void clear();

 private:
  const bool is_bar_, has_colors_;
  Clock::time_point last_ = Clock::now();
};

}  // namespace taper::v0::runner
