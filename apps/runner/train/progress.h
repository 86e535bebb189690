// What a terminal shows while a run goes.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace taper::runner {

// Where a run is.
struct Standing {
  int64_t step = 0, total = 0, epoch = 1;
  double samples_per_second = 0;
  int64_t seconds_left = 0;
  std::optional<double> loss{};  // none before the first
  double lr = 0;
};

// In less than `columns` columns, so that no terminal breaks the line: what matters most where not
// all has room.
std::string bar_of(const Standing& at, size_t columns, bool has_colors);

// On a terminal a bar that redraws itself, and gives way to what is logged; elsewhere a line of
// key=value every ten seconds.
class Progress {
 public:
  Progress();
  ~Progress();  // also when the run ends by an exception, whose message comes next
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  // Whether it is time to show something.
  bool is_due() const;
  void show(const Standing& at);
  // Removes the bar.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;
  bool terminal_, colors_;
  std::atomic<bool> shown_ = false;
  Clock::time_point last_ = Clock::now();
};

}  // namespace taper::runner
