#include "apps/runner/train/log.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <span>
#include <tuple>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/ioctl.h>
#include <unistd.h>

#include "apps/runner/base/process.h"
#include "apps/runner/run/log_sink.h"

namespace taper::v0::runner {

constexpr size_t kLeastBar = 10, kMostBar = 26;  // with its brackets

// As of now: the window may have been resized. A terminal that does not know its width has 80.
static size_t columns_now() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

double seconds_since(Clock::time_point then) {
  return std::chrono::duration<double>(Clock::now() - then).count();
}

// --- lines ---

std::string wrapped(const std::vector<std::string>& parts) {
  constexpr size_t kColumns = 79;
  std::string out;
  size_t column = 0;
  for (const std::string& part : parts) {
    const bool is_first = out.empty(), fits = column + 1 + part.size() <= kColumns;
    const char* gap = is_first ? "" : fits ? " " : "\n  ";
    column = (is_first || fits ? column + !is_first : 2) + part.size();
    out += gap + part;
  }
  return out;
}

// --- the bar ---

std::string bar_of(const Standing& at, size_t columns, bool has_colors) {
  const int64_t left = at.seconds_left;
  const auto loss = [&] { return at.loss ? fmt::format("loss {:.4f}", *at.loss) : ""; };
  // In the order of the line, each with its rank; the bar takes what is left.
  struct Part {
    int rank;
    std::string text;
  };
  std::vector<Part> parts = {
      {6, fmt::format("epoch {}", at.epoch)},
      {4, std::string(kLeastBar, ' ')},
      {1, fmt::format("{}/{}", at.step, at.total)},
      {5, fmt::format("{:.0f} samples/s", at.samples_per_second)},
      {3, loss()},
      {7, fmt::format("lr {:.3g}", at.lr)},
      {2, fmt::format("{}:{:02}:{:02} left", left / 3600, left / 60 % 60, left % 60)}};
  size_t room = columns > 0 ? columns - 1 : 0;
  std::vector<Part*> by_rank;
  for (Part& part : parts) by_rank.push_back(&part);
  std::ranges::sort(by_rank, {}, &Part::rank);
  by_rank[0]->text.resize(std::min(by_rank[0]->text.size(), room));
  room -= by_rank[0]->text.size();
  for (Part* part : std::span(by_rank).subspan(1)) {
    const size_t needed = part->text.size() + 2;
    if (needed > room) part->text.clear();
    if (!part->text.empty()) room -= needed;
  }
  if (std::string& bar = parts[1].text; !bar.empty()) {
    const size_t inner = std::min(kLeastBar + room, kMostBar) - 2;
    const size_t full =
        at.total > 0 ? size_t(double(inner) * double(at.step) / double(at.total)) : 0;
    bar = fmt::format("[{}{}{}{}]", has_colors ? "\033[32m" : "", std::string(full, '#'),
                      has_colors ? "\033[0m" : "", std::string(inner - full, '.'));
  }
  std::string line;
  for (const Part& part : parts) {
    if (!part.text.empty()) line += (line.empty() ? "" : "  ") + part.text;
  }
  return line;
}

static bool asks_for_colors() {
  const char* plain = std::getenv("NO_COLOR");
  return !plain || !*plain;
}

Progress::Progress()
    : is_bar_(owns_process() && has_status_line()), has_colors_(asks_for_colors()) {}

Progress::~Progress() { clear(); }

bool Progress::is_due() const {
  return Clock::now() - last_ >= std::chrono::milliseconds(is_bar_ ? 100 : 10'000);
}

void Progress::show(const Standing& at) {
  last_ = Clock::now();
  if (is_bar_) return show_status_line(bar_of(at, columns_now(), has_colors_));
  std::vector<std::string> parts = {cat("step=", at.step), cat("epoch=", at.epoch)};
  if (at.loss) parts.push_back(fmt::format("loss={:.4g}", *at.loss));
  parts.push_back(fmt::format("lr={:.4g}", at.lr));
  parts.push_back(fmt::format("samples_per_second={:.0f}", at.samples_per_second));
  parts.push_back(cat("seconds_left=", at.seconds_left));
  inform(wrapped(parts));
}

void Progress::clear() {
  if (is_bar_) clear_status_line();
}

// --- the log ---

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
  if (config_.train.clip_norm) line += cat(",", json_fields("grad_norm", norm));
  metrics_.write(cat(line, ",", json_fields("lr", lr)));
  if (!events_) return;
  events_->scalar("train/loss", step, loss);
  events_->scalar("train/grad_norm", step, norm);
  events_->scalar("train/lr", step, lr);
}

void Log::evaluation(const RunState& state) {
  if (is_mute_) return;
  const auto& [step, at, metrics] = std::tie(state.step, state.at, state.metrics);
  std::string fields =
      json_fields("kind", "eval", "step", step, "epoch", at.epoch, "split", "test");
  std::vector<std::string> parts = {cat("epoch=", at.epoch), cat("step=", step)};
  if (loss_count_ > 0) {
    parts.push_back(fmt::format("loss={:.4g}", loss_sum_ / double(loss_count_)));
  }
  loss_sum_ = 0;
  loss_count_ = 0;
  for (const auto& [name, x] : metrics.values) {
    fields += cat(",", json_fields(name.c_str(), x));
    parts.push_back(fmt::format("test_{}={:.4g}", name, x));
    if (events_) events_->scalar(cat("test/", name), step, x);
  }
  if (!metrics.confusion.empty()) {
    fields += cat(",\"confusion\":", nlohmann::json(metrics.confusion).dump());
  }
  metrics_.write(fields);
  if (events_) events_->flush();
  parts.push_back(fmt::format("{:.1f} s", seconds_since(spent.start)));
  inform(wrapped(parts));
}

void Log::begin_epoch(int64_t first_sample) {
  epoch_start_ = spent.training();
  epoch_first_sample_ = first_sample;
}

void Log::end_epoch(const RunState& state, int64_t samples, double data_seconds) {
  if (is_mute_) return;
  const double seconds = spent.training() - epoch_start_;
  timing_.write(json_fields("kind", "epoch", "epoch", state.at.epoch, "step", state.step, "seconds",
                            seconds, "data_seconds", data_seconds, "samples_per_second",
                            double(samples - epoch_first_sample_) / seconds));
}

void Log::memory(int64_t step, int64_t peak, int64_t foretold) {
  const double ratio = double(peak) / double(foretold);
  const int64_t resident = peak_resident_memory();
  timing_.write(json_fields("kind", "memory", "step", step, "peak_bytes", peak, "foretold_bytes",
                            foretold, "ratio", ratio, "process_peak_bytes", resident));
  const auto mib = [](int64_t bytes) { return double(bytes) / (1 << 20); };
  std::vector<std::string> parts{
      fmt::format("peak memory: {:.1f} MiB training ({:.2f}x the estimate)", mib(peak), ratio)};
  if (resident > 0) {  // 0 where /proc does not say
    parts[0] += ",";
    parts.push_back(fmt::format("{:.1f} MiB of the process, reading included", mib(resident)));
  }
  inform(wrapped(parts));
}

// The time that is left foresees each evaluation, and checkpoints as often as they came so far.
void Log::show(const RunState& state, int64_t total, int64_t evaluations, double lr) {
  if (is_mute_ || !progress_.is_due()) return;
  const double training = spent.training();
  const double left =
      (training + spent.saving) / double(spent.steps) * double(total - state.step) +
      double(evaluations) * spent.evaluating / double(std::max<int64_t>(spent.evaluations, 1));
  progress_.show({state.step, total, state.at.epoch, double(spent.samples) / training,
                  std::llround(left), last_loss_, lr});
}

void Log::note_position(RunState& state) const {
  if (is_mute_) return;
  state.metrics_bytes = metrics_.size();
  state.metrics_crc = metrics_.crc();
}

void Log::sync(RunState& state) const {
  if (!is_mute_) metrics_.sync();
  note_position(state);
}

}  // namespace taper::v0::runner
