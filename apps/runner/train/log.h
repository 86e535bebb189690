// What a run says while it goes: metrics.jsonl, timing.jsonl, TensorBoard's file, lines of the log,
// a bar; and the clocks behind it.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/runner/base/errors.h"
#include "apps/runner/base/files.h"
#include "apps/runner/report/tensorboard.h"
#include "apps/runner/settings/run_config.h"
#include "apps/runner/train/state.h"

namespace taper::v0::runner {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point then);

// Where a run is.
struct Standing {
  int64_t step = 0, total = 0, epoch = 1;
  double samples_per_second = 0;
  int64_t seconds_left = 0;
  std::optional<double> loss{};  // none before the first
  double lr = 0;
};

// Joins the parts by spaces into lines of less than 80 columns, of which those after the first are
// indented.
std::string wrapped(const std::vector<std::string>& parts);

// In less than `columns` columns, so that no terminal breaks the line: what matters most where not
// all has room.
std::string bar_of(const Standing& at, size_t columns, bool has_colors);

// On the console of the program, where that is a terminal, a bar that redraws itself and gives way
// to messages. Elsewhere a message of key=value every ten seconds.
class Progress {
 public:
  Progress();
  ~Progress();  // also when the run ends by an exception, whose message comes next
  // Whether it is time to show something.
  bool is_due() const;
  void show(const Standing& at);
  // Removes the bar.
  void clear();

 private:
  const bool is_bar_, has_colors_;
  Clock::time_point last_ = Clock::now();
};

// What a run has spent, all in seconds and of this process.
struct Spent {
  Clock::time_point start = Clock::now();
  double evaluating = 0, saving = 0;
  int64_t evaluations = 0, steps = 0, samples = 0;

  double training() const { return seconds_since(start) - evaluating - saving; }
};

// The files and the lines. The bar gives way to what is logged.
class Log {
 public:
  // Files of `dir`, unless it is mute; the config is to outlive it.
  Log(const RunConfig& config, fs::path dir, bool is_mute = false);
  // Goes on behind what the state has.
  void open(const RunState& state);
  void go_back(const RunState& state);  // to an earlier one

  void step(int64_t step, int64_t epoch, float loss, float norm, double lr);
  void evaluation(const RunState& state);
  // An epoch of training, from its sample of that number on.
  void begin_epoch(int64_t first_sample);
  void end_epoch(const RunState& state, int64_t samples, double data_seconds);
  void memory(int64_t step, int64_t peak, int64_t foretold);
  // The bar, when it is due. `evaluations`: so many are to come.
  void show(const RunState& state, int64_t total, int64_t evaluations, double lr);
  void end_bar() { progress_.clear(); }

  // Notes in the state how far metrics.jsonl goes; sync() waits until it is on the disk, too.
  void note_position(RunState& state) const;
  void sync(RunState& state) const;

  Spent spent;

 private:
  const RunConfig& config_;
  const fs::path dir_;
  const bool is_mute_;
  JsonLines metrics_, timing_;
  std::unique_ptr<EventWriter> events_;
  Progress progress_;
  std::optional<float> last_loss_;
  double loss_sum_ = 0;  // of the steps since the last evaluation's line
  int64_t loss_count_ = 0;
  double epoch_start_ = 0;  // of spent.training()
  int64_t epoch_first_sample_ = 0;
};

}  // namespace taper::v0::runner
