// Logs a run: metrics.jsonl, timing.jsonl, TensorBoard's event file, messages, and the progress
// bar.
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

// The time that this process has spent on a run, in seconds, and on how much work.
struct Timings {
  Clock::time_point start = Clock::now();
  double evaluating = 0, saving = 0;
  int64_t evaluations = 0, steps = 0, samples = 0;

  double training() const { return seconds_since(start) - evaluating - saving; }
};

// The log of a run. In the functions below `state` is the progress of the run.
class Log {
 public:
  // Writes the files of `dir`, and nothing if is_mute (ranks other than the first). The config must
  // outlive the object.
  Log(const RunConfig& config, fs::path dir, bool is_mute = false);
  // Opens the files. Lines of metrics.jsonl after those of the state are removed.
  void open(const RunState& state);
  // Removes the lines of metrics.jsonl after those of the state: the run was rolled back to it.
  void go_back(const RunState& state);

  // Logs a step. norm: of all gradients, before clipping. lr: the learning rate of the step.
  void step(int64_t step, int64_t epoch, float loss, float norm, double lr);
  // Logs an evaluation of the weights after that step on a part of the data: "validation", "test".
  void evaluation(int64_t step, int64_t epoch, const std::string& split, const Metrics& metrics);
  // An epoch begins with its sample `first_sample`: not 0 in a resumed run.
  void begin_epoch(int64_t first_sample);
  void end_epoch(const RunState& state, int64_t samples, double data_seconds);
  // peak: bytes of tensors on the device; estimate: what estimate_memory() returned.
  void memory(int64_t step, int64_t peak, int64_t estimate);
  // Updates the progress bar if that is due. evaluations: how many are to come.
  void show(const RunState& state, int64_t total, int64_t evaluations, double lr);
  void end_bar() { progress_.clear(); }

  // Notes the size and checksum of metrics.jsonl in the state. sync() first waits until the file is
  // on the disk.
  void note_position(RunState& state) const;
  void sync(RunState& state) const;

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
