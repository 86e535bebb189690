// The files of a run's directory, and what is shown while it goes.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

namespace taper::runner {

// An empty directory for a run. One that holds an earlier run is kept: it is renamed to DIR.1,
// DIR.2,
// ... first. Throws InputError when it cannot be made.
std::filesystem::path make_run_directory(const std::filesystem::path& dir);

struct TrainRecord {
  int64_t step = 0, epoch = 0;  // from 1
  float loss = 0;
  double lr = 0;
};

// accuracy is a share in [0, 1]; regression has none.
struct EvalRecord {
  int64_t step = 0, epoch = 0;
  std::string split;
  double loss = 0;
  double accuracy = -1;
};

// metrics.jsonl: one JSON object a line. Nothing in it depends on the clock.
class MetricsLog {
 public:
  // Throws InputError when the file cannot be made.
  void open(const std::filesystem::path& file);
  void write(const TrainRecord& record);
  void write(const EvalRecord& record);

 private:
  void line(const std::string& text);

  std::filesystem::path path_;
  std::ofstream out_;
};

// A bar that redraws itself on a terminal; nothing on a pipe, where epochs are logged as lines.
class Progress {
 public:
  Progress();
  void show(const std::string& label, int64_t done, int64_t total, const std::string& note);
  // Removes the bar, before anything else is printed.
  void clear();

 private:
  bool terminal_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point last_{};
};

}  // namespace taper::runner
