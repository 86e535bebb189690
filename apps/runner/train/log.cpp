#include "apps/runner/train/log.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/runner/base/process.h"
#include "framework/base/log.h"

namespace taper::v0::runner {

Log::Log(const RunConfig& config, fs::path dir, bool is_mute)
    : config_(config), dir_(std::move(dir)), is_mute_(is_mute) {}

void Log::open(const RunState& state) {
  if (is_mute_) return;
  go_back(state);
  std::error_code none;
  const auto timed = fs::file_size(dir_ / "timing.jsonl", none);
  timing_.open(dir_ / "timing.jsonl", none ? 0 : timed);
  if (config_.train.tensorboard) events_ = std::make_unique<EventWriter>(dir_);
  runner::sync(dir_);
}

void Log::go_back(const RunState& state) {
  if (is_mute_) return;
  metrics_.open(dir_ / "metrics.jsonl", state.metrics_bytes, state.metrics_crc);
}

void Log::step(int64_t step, int64_t epoch, float loss, float norm, double lr) {
  if (is_mute_) return;
  last_loss_ = loss;
  loss_sum_ += loss;
  ++loss_count_;
  if (step % config_.train.log_every != 0) return;
  std::string line = json_fields("kind", "train", "step", step, "epoch", epoch, "loss", loss);
  if (config_.train.clip_norm) line += concat_to_string(",", json_fields("grad_norm", norm));
  metrics_.write(concat_to_string(line, ",", json_fields("lr", lr)));
  if (!events_) return;
  events_->scalar("train/loss", step, loss);
  events_->scalar("train/grad_norm", step, norm);
  events_->scalar("train/lr", step, lr);
}

void Log::evaluation(int64_t step, int64_t epoch, const std::string& split,
                     const Metrics& metrics) {
  if (is_mute_) return;
  std::string fields =
      json_fields("kind", "eval", "step", step, "epoch", epoch, "split", split.c_str());
  std::vector<std::string> parts = {concat_to_string("epoch=", epoch),
                                    concat_to_string("step=", step)};
  if (loss_count_ > 0) {
    parts.push_back(fmt::format("loss={:.4g}", loss_sum_ / double(loss_count_)));
  }
  loss_sum_ = 0;
  loss_count_ = 0;
  for (const auto& [name, x] : metrics.values) {
    fields += concat_to_string(",", json_fields(name.c_str(), x));
    parts.push_back(fmt::format("{}_{}={:.4g}", split == "validation" ? "val" : split, name, x));
    if (events_) events_->scalar(concat_to_string(split, "/", name), step, x);
  }
  if (!metrics.confusion.empty()) {
    fields += concat_to_string(",\"confusion\":", nlohmann::json(metrics.confusion).dump());
  }
  metrics_.write(fields);
  if (events_) events_->flush();
  parts.push_back(fmt::format("{:.1f} s", seconds_since(timings.start)));
  log_info(wrapped(parts));
}

void Log::begin_epoch(int64_t first_sample) {
  epoch_start_ = timings.training();
  epoch_first_sample_ = first_sample;
}

void Log::end_epoch(const RunState& state, int64_t samples, double data_seconds) {
  if (is_mute_ || samples <= epoch_first_sample_) return;
  const double seconds = timings.training() - epoch_start_;
  timing_.write(json_fields("kind", "epoch", "epoch", state.at.epoch, "step", state.step, "seconds",
                            seconds, "data_seconds", data_seconds, "samples_per_second",
                            double(samples - epoch_first_sample_) / seconds));
  epoch_first_sample_ = samples;
}

void Log::memory(int64_t step, int64_t peak, int64_t estimate) {
  const double ratio = double(peak) / double(estimate);
  const int64_t resident = peak_resident_memory();
  timing_.write(json_fields("kind", "memory", "step", step, "peak_bytes", peak, "foretold_bytes",
                            estimate, "ratio", ratio, "process_peak_bytes", resident,
                            "training_seconds", timings.training()));
  const auto mib = [](int64_t bytes) { return double(bytes) / (1 << 20); };
  std::vector<std::string> parts{
      fmt::format("peak memory: {:.1f} MiB training ({:.2f}x the estimate)", mib(peak), ratio)};
  if (resident > 0) {  // 0: /proc does not report it
    parts[0] += ",";
    parts.push_back(fmt::format("{:.1f} MiB for the process, including data", mib(resident)));
  }
  log_info(wrapped(parts));
}

// Shows the progress. The estimate of the time left includes the evaluations that remain, and
// assumes that checkpoints stay as frequent as they were so far.
void Log::show(const RunState& state, int64_t total, int64_t evaluations, double lr) {
  if (is_mute_ || !progress_.is_due()) return;
  const double training = timings.training();
  const double left =
      (training + timings.saving) / double(timings.steps) * double(total - state.step) +
      double(evaluations) * timings.evaluating / double(std::max<int64_t>(timings.evaluations, 1));
  progress_.show({state.step, total, state.at.epoch, double(timings.samples) / training,
                  std::llround(left), last_loss_, lr});
}

void Log::note_position(RunState& state) const {
  if (is_mute_) return;
  state.metrics_bytes = metrics_.size();
  state.metrics_crc = metrics_.crc();
}

void Log::sync() const {
  if (!is_mute_) metrics_.sync();
}

}  // namespace taper::v0::runner
