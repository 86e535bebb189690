// Writes the logs of a run: metrics.jsonl, timing.jsonl, TensorBoard's event file, messages, and
// the progress bar.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/runner/base/errors.h"
#include "apps/runner/base/files.h"
#include "apps/runner/report/progress.h"
#include "apps/runner/report/tensorboard.h"
#include "apps/runner/settings/run_config.h"
#include "apps/runner/train/state.h"

namespace taper::v0::runner {

// The time in seconds that this process has spent on the parts of a run, and the amount of work
// done in that time.
struct Timings {
  Clock::time_point start = Clock::now();
  double evaluating = 0, saving = 0;
  int64_t evaluations = 0, steps = 0, samples = 0;

  double training() const { return seconds_since(start) - evaluating - saving; }
};

// The log of a run. In the functions below, `state` is the progress of the run.
class Log {
 public:
  // Writes the log files to `dir`. If is_mute, as on ranks other than the first, writes nothing.
  // The config must outlive the object.
  Log(const RunConfig& config, fs::path dir, bool is_mute = false);
  // Opens the files. Removes the lines of metrics.jsonl that were written after `state`.
  void open(const RunState& state);
  // Removes the lines of metrics.jsonl that were written after `state`, to which the run was rolled
  // back.
  void go_back(const RunState& state);

  // Logs a step. norm: the norm of all gradients before clipping. lr: the learning rate of the
  // step.
  void step(int64_t step, int64_t epoch, float loss, float norm, double lr);
  // Logs the metrics of an evaluation after that step. split: the measured part of the data,
  // "validation" or "test".
  void evaluation(int64_t step, int64_t epoch, const std::string& split, const Metrics& metrics);
  // Begins an epoch at its sample `first_sample`, which is not 0 in a resumed run.
  void begin_epoch(int64_t first_sample);
  // Logs the time and the rate of the epoch up to its sample `samples`, which is its last one
  // unless the run ends within the epoch. A repeated call logs nothing.
  void end_epoch(const RunState& state, int64_t samples, double data_seconds);
  // Logs the peak memory, and the seconds that all training steps took. peak: bytes of tensors on
  // the device; estimate: the result of estimate_memory().
  void memory(int64_t step, int64_t peak, int64_t estimate);
  // Updates the progress bar if that is due. evaluations: the number of evaluations that remain.
  void show(const RunState& state, int64_t total, int64_t evaluations, double lr);
  void end_bar() { progress_.clear(); }

  // Records the size and checksum of metrics.jsonl in the state.
  void note_position(RunState& state) const;
  // Waits until the lines of metrics.jsonl are on the disk. Another thread may log meanwhile.
  void sync() const;

  Timings timings;

 private:
  const RunConfig& config_;
  const fs::path dir_;
  const bool is_mute_;
  JsonLines metrics_, timing_;
  std::unique_ptr<EventWriter> events_;
  Progress progress_;
  std::optional<float> last_loss_;
  double loss_sum_ = 0;  // of loss_count_ steps since the last evaluation
  int64_t loss_count_ = 0;
  double epoch_start_ = 0;  // timings.training() when the epoch began
  int64_t epoch_first_sample_ = 0;
};

}  // namespace taper::v0::runner
