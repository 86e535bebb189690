#include "apps/runner/train/log.h"

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>
#include <spdlog/spdlog.h>

namespace taper::runner {

namespace fs = std::filesystem;

double seconds_since(Clock::time_point then) {
  return std::chrono::duration<double>(Clock::now() - then).count();
}

Log::Log(const RunConfig& config, fs::path dir) : config_(config), dir_(std::move(dir)) {}

void Log::open(const RunState& state) {
  go_back(state);
  std::error_code none;
  const auto timed = fs::file_size(dir_ / "timing.jsonl", none);
  timing_.open(dir_ / "timing.jsonl", none ? 0 : timed);
  if (config_.train.tensorboard) events_ = std::make_unique<EventWriter>(dir_);
  runner::sync(dir_);
}

void Log::go_back(const RunState& state) {
  metrics_.open(dir_ / "metrics.jsonl", state.metrics_bytes, state.metrics_crc);
}

void Log::step(int64_t step, int64_t epoch, float loss, float norm, double lr) {
  last_loss_ = loss;
  loss_sum_ += loss;
  ++loss_count_;
  if (step % config_.train.log_every != 0) return;
  std::string line = json_fields("kind", "train", "step", step, "epoch", epoch, "loss", loss);
  if (config_.train.clip_norm) line += cat(",", json_fields("grad_norm", norm));
  metrics_.write(cat(line, ",", json_fields("lr", lr)));
  if (!events_) return;
  events_->scalar("train/loss", step, loss);
  events_->scalar("train/grad_norm", step, norm);
  events_->scalar("train/lr", step, lr);
}

void Log::evaluation(const RunState& state, double lr) {
  const auto& [step, at, metrics] = std::tie(state.step, state.at, state.metrics);
  std::string fields =
      json_fields("kind", "eval", "step", step, "epoch", at.epoch, "split", "test");
  std::string line = cat("epoch=", at.epoch, " step=", step);
  if (loss_count_ > 0) line += cat(" train_loss=", float(loss_sum_ / double(loss_count_)));
  loss_sum_ = 0;
  loss_count_ = 0;
  for (const auto& [name, x] : metrics.values) {
    fields += cat(",", json_fields(name.c_str(), x));
    line += cat(" test_", name, "=", float(x));
    if (events_) events_->scalar(cat("test/", name), step, x);
  }
  if (!metrics.confusion.empty()) {
    fields += cat(",\"confusion\":", nlohmann::json(metrics.confusion).dump());
  }
  metrics_.write(fields);
  if (events_) events_->flush();
  spdlog::info("{} lr={} seconds={:.2f}", line, lr, seconds_since(spent.start));
}

void Log::begin_epoch(int64_t first_sample) {
  epoch_start_ = spent.training();
  epoch_first_sample_ = first_sample;
}

void Log::end_epoch(const RunState& state, int64_t samples, double data_seconds) {
  const double seconds = spent.training() - epoch_start_;
  timing_.write(json_fields("kind", "epoch", "epoch", state.at.epoch, "step", state.step, "seconds",
                            seconds, "data_seconds", data_seconds, "samples_per_second",
                            double(samples - epoch_first_sample_) / seconds));
}

void Log::memory(int64_t step, int64_t peak, int64_t foretold) {
  const double ratio = double(peak) / double(foretold);
  timing_.write(json_fields("kind", "memory", "step", step, "peak_bytes", peak, "foretold_bytes",
                            foretold, "ratio", ratio));
  spdlog::info("memory: {:.1f} MiB at the most, {:.2f} of what --validate foretells",
               double(peak) / (1 << 20), ratio);
}

// The time that is left foresees each evaluation, and checkpoints as often as they came so far.
void Log::show(const RunState& state, int64_t total, int64_t evaluations, double lr) {
  if (!progress_.is_due()) return;
  const double training = spent.training();
  const double left =
      (training + spent.saving) / double(spent.steps) * double(total - state.step) +
      double(evaluations) * spent.evaluating / double(std::max<int64_t>(spent.evaluations, 1));
  progress_.show({state.step, total, state.at.epoch, double(spent.samples) / training,
                  std::llround(left), last_loss_, lr});
}

void Log::sync(RunState& state) const {
  state.metrics_bytes = metrics_.sync();
  state.metrics_crc = metrics_.crc();
}

}  // namespace taper::runner
