#include "apps/runner/train/progress.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace taper::runner {
namespace {

constexpr size_t kLeastBar = 10, kMostBar = 26;  // with its brackets

// As of now: the window may have been resized. A terminal that does not know its width has 80.
size_t columns_now() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

// Stands before the others, so that no message is written behind the bar.
class BarRemover : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit BarRemover(Progress& progress) : progress_(progress) {}

 private:
  void sink_it_(const spdlog::details::log_msg&) override { progress_.clear(); }
  void flush_() override {}
  Progress& progress_;
};

}  // namespace

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

Progress::Progress() {
  const char *term = std::getenv("TERM"), *plain = std::getenv("NO_COLOR");
  terminal_ = isatty(STDERR_FILENO) != 0 && (!term || std::strcmp(term, "dumb") != 0);
  colors_ = !plain || !*plain;
  auto& sinks = spdlog::default_logger()->sinks();
  sinks.insert(sinks.begin(), std::make_shared<BarRemover>(*this));
}

Progress::~Progress() {
  auto& sinks = spdlog::default_logger()->sinks();
  sinks.erase(sinks.begin());
  clear();
}

bool Progress::is_due() const {
  return Clock::now() - last_ >= std::chrono::milliseconds(terminal_ ? 100 : 10'000);
}

void Progress::show(const Standing& at) {
  last_ = Clock::now();
  if (terminal_) {
    // Not by fmt::print, which throws where the terminal is gone.
    std::fputs(("\r\033[K" + bar_of(at, columns_now(), colors_)).c_str(), stderr);
    std::fflush(stderr);
    shown_ = true;
    return;
  }
  spdlog::info("step={} epoch={}{} lr={:.6g} samples_per_second={:.0f} seconds_left={}", at.step,
               at.epoch, at.loss ? fmt::format(" loss={:.6g}", *at.loss) : "", at.lr,
               at.samples_per_second, at.seconds_left);
}

void Progress::clear() {
  if (!shown_.exchange(false)) return;
  std::fputs("\r\033[K", stderr);
  std::fflush(stderr);
}

}  // namespace taper::runner
