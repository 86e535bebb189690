#include "apps/runner/report/progress.h"

#include <algorithm>
#include <cstdlib>
#include <span>

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "apps/runner/base/process.h"
#include "apps/runner/run/log_sink.h"
#include "framework/base/log.h"

namespace taper::v0::runner {
namespace {

constexpr size_t kMinBar = 10, kMaxBar = 26;  // columns, brackets included

// A field of the bar. rank: its importance; 1 is kept longest if the line is too short.
struct Part {
  int rank;
  std::string text;
};

// Returns the width of the terminal, or 80 if it is unknown. Reads it each time, because the window
// may have been resized.
size_t columns_now() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

// Returns whether the user wants colors (https://no-color.org).
bool wants_colors() {
  const char* plain = std::getenv("NO_COLOR");
  return !plain || !*plain;
}

// Clears the parts that do not fit into `columns`, the least important ones first. Returns the
// number of columns left.
size_t drop_what_does_not_fit(std::vector<Part>& parts, size_t columns) {
  std::vector<Part*> by_rank;
  for (Part& part : parts) by_rank.push_back(&part);
  std::ranges::sort(by_rank, {}, &Part::rank);
  std::string& first = by_rank[0]->text;
  first.resize(std::min(first.size(), columns));
  size_t room = columns - first.size();
  for (Part* part : std::span(by_rank).subspan(1)) {
    const size_t needed = part->text.size() + 2;
    if (needed > room) part->text.clear();
    if (!part->text.empty()) room -= needed;
  }
  return room;
}

// Returns "[#####.....]" of `columns` columns.
std::string bar(const ProgressSnapshot& at, size_t columns, bool has_colors) {
  const size_t inner = columns - 2;
  const size_t full = at.total > 0 ? size_t(double(inner) * double(at.step) / double(at.total)) : 0;
  return fmt::format("[{}{}{}{}]", has_colors ? "\033[32m" : "", std::string(full, '#'),
                     has_colors ? "\033[0m" : "", std::string(inner - full, '.'));
}

}  // namespace

double seconds_since(Clock::time_point then) {
  return std::chrono::duration<double>(Clock::now() - then).count();
}

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

std::string bar_of(const ProgressSnapshot& at, size_t columns, bool has_colors) {
  const int64_t left = at.seconds_left;
  // The index of the bar, which grows into the columns that the other parts leave.
  constexpr size_t kBar = 1;
  std::vector<Part> parts = {
      {6, fmt::format("epoch {}", at.epoch)},
      {4, std::string(kMinBar, ' ')},
      {1, fmt::format("{}/{}", at.step, at.total)},
      {5, fmt::format("{:.0f} samples/s", at.samples_per_second)},
      {3, at.loss ? fmt::format("loss {:.4f}", *at.loss) : ""},
      {7, fmt::format("lr {:.3g}", at.lr)},
      {2, fmt::format("{}:{:02}:{:02} left", left / 3600, left / 60 % 60, left % 60)}};
  const size_t room = drop_what_does_not_fit(parts, columns > 0 ? columns - 1 : 0);
  if (!parts[kBar].text.empty()) {
    parts[kBar].text = bar(at, std::min(kMinBar + room, kMaxBar), has_colors);
  }
  std::string line;
  for (const Part& part : parts) {
    if (!part.text.empty()) line += (line.empty() ? "" : "  ") + part.text;
  }
  return line;
}

Progress::Progress() : is_bar_(owns_process() && has_status_line()), has_colors_(wants_colors()) {}

Progress::~Progress() { clear(); }

bool Progress::is_due() const {
  return Clock::now() - last_ >= std::chrono::milliseconds(is_bar_ ? 100 : 10'000);
}

void Progress::show(const ProgressSnapshot& at) {
  last_ = Clock::now();
  if (is_bar_) return show_status_line(bar_of(at, columns_now(), has_colors_));
  std::vector<std::string> parts = {concat_to_string("step=", at.step),
                                    concat_to_string("epoch=", at.epoch)};
  if (at.loss) parts.push_back(fmt::format("loss={:.4g}", *at.loss));
  parts.push_back(fmt::format("lr={:.4g}", at.lr));
  parts.push_back(fmt::format("samples_per_second={:.0f}", at.samples_per_second));
  parts.push_back(concat_to_string("seconds_left=", at.seconds_left));
  log_info(wrapped(parts));
}

void Progress::clear() {
  if (is_bar_) clear_status_line();
}

}  // namespace taper::v0::runner
