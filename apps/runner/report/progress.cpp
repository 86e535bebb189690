#include "apps/runner/report/progress.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <span>

#include <fmt/format.h>

#include "apps/runner/base/process.h"
#include "apps/runner/run/log_sink.h"
#include "apps/runner/run/ranks.h"
#include "data/images/image_set.h"
#include "data/tables/raw_table.h"
#include "data/tables/table_report.h"
#include "framework/base/log.h"

namespace taper::v0::runner {
namespace {

constexpr size_t kMinBar = 10, kMaxBar = 26;  // columns, brackets included

// A field of the bar. rank: its importance; 1 is kept longest if the line is too short.
struct Part {
  int rank;
  std::string text;
};

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

// Returns "[#####.....]" of `columns` columns, of which the part done / total is filled.
std::string bar(int64_t done, int64_t total, size_t columns, bool has_colors) {
  const size_t inner = columns - 2;
  const double share = total > 0 ? std::clamp(double(done) / double(total), 0.0, 1.0) : 0;
  const auto full = size_t(double(inner) * share);
  return fmt::format("[{}{}{}{}]", has_colors ? "\033[32m" : "", std::string(full, '#'),
                     has_colors ? "\033[0m" : "", std::string(inner - full, '.'));
}

// Joins the parts that fit. The bar is part number 1, and grows into the columns that the others
// leave.
std::string line_of(std::vector<Part> parts, int64_t done, int64_t total, size_t columns,
                    bool has_colors) {
  constexpr size_t kBar = 1;
  const size_t room = drop_what_does_not_fit(parts, columns > 0 ? columns - 1 : 0);
  if (!parts[kBar].text.empty()) {
    parts[kBar].text = bar(done, total, std::min(kMinBar + room, kMaxBar), has_colors);
  }
  std::string line;
  for (const Part& part : parts) {
    if (!part.text.empty()) line += (line.empty() ? "" : "  ") + part.text;
  }
  return line;
}

std::string time_left(int64_t seconds) {
  return fmt::format("{}:{:02}:{:02} left", seconds / 3600, seconds / 60 % 60, seconds % 60);
}

// The table that is being read, for the function that the reader calls.
Clock::time_point reading_since{}, reading_shown{};
int64_t reading_bytes = 0;

void show_reading(const data::TableReadProgress& now) {
  constexpr auto kMoment = std::chrono::milliseconds(300), kPause = std::chrono::milliseconds(100);
  if (!has_status_line()) return;
  const Clock::time_point time = Clock::now();
  if (now.bytes < reading_bytes || reading_since == Clock::time_point{}) reading_since = time;
  reading_bytes = now.bytes;
  if (now.bytes >= now.total_bytes) {
    reading_since = {};
    return clear_status_line();
  }
  if (time - reading_since < kMoment || time - reading_shown < kPause) return;
  reading_shown = time;
  const ReadingSnapshot at{now.bytes, now.total_bytes, now.rows, seconds_since(reading_since)};
  show_status_line(reading_bar_of(at, terminal_columns(), wants_colors()));
}

void show_decoding(const data::DecodingProgress& now) {
  static std::unique_ptr<WorkProgress> work;
  if (now.done == 0 || !work) {
    work.reset();
    work = std::make_unique<WorkProgress>("reading", "images", now.total);
  }
  work->show(now.done);
  if (now.done >= now.total) work.reset();
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
  return line_of({{6, fmt::format("epoch {}", at.epoch)},
                  {4, std::string(kMinBar, ' ')},
                  {1, fmt::format("{}/{}", at.step, at.total)},
                  {5, fmt::format("{:.0f} samples/s", at.samples_per_second)},
                  {3, at.loss ? fmt::format("loss {:.4f}", *at.loss) : ""},
                  {7, fmt::format("lr {:.3g}", at.lr)},
                  {2, time_left(at.seconds_left)}},
                 at.step, at.total, columns, has_colors);
}

std::string reading_bar_of(const ReadingSnapshot& at, size_t columns, bool has_colors) {
  const double share = double(at.bytes) / double(std::max<int64_t>(at.total_bytes, 1));
  const double left = share > 0 ? at.seconds / share - at.seconds : 0;
  return line_of({{3, "reading"},
                  {5, std::string(kMinBar, ' ')},
                  {1, fmt::format("{:.0f} %", 100 * share)},
                  {6, fmt::format("{:.0f} of {:.0f} MB", double(at.bytes) / 1e6,
                                  double(at.total_bytes) / 1e6)},
                  {4, concat_to_string(data::with_separators(at.rows), " rows")},
                  {2, time_left(std::llround(left))}},
                 at.bytes, at.total_bytes, columns, has_colors);
}

std::string work_bar_of(const WorkSnapshot& at, size_t columns, bool has_colors) {
  const double left = at.done > 0 ? at.seconds / double(at.done) * double(at.total - at.done) : 0;
  return line_of({{3, at.what},
                  {5, std::string(kMinBar, ' ')},
                  {1, fmt::format("{}/{} {}", data::with_separators(at.done),
                                  data::with_separators(at.total), at.unit)},
                  {2, time_left(std::llround(left))}},
                 at.done, at.total, columns, has_colors);
}

WorkProgress::WorkProgress(const std::string& what, const std::string& unit, int64_t total)
    : is_bar_(owns_process() && !is_later_rank() && has_status_line()),
      at_{.what = what, .unit = unit, .total = total} {}

WorkProgress::~WorkProgress() {
  if (is_shown_) clear_status_line();
}

void WorkProgress::show(int64_t done) {
  constexpr auto kMoment = std::chrono::milliseconds(1000), kPause = std::chrono::milliseconds(100);
  const Clock::time_point now = Clock::now();
  if (!is_bar_ || now - start_ < kMoment || now - last_ < kPause) return;
  last_ = now;
  is_shown_ = true;
  at_.done = std::min(done, at_.total);
  at_.seconds = seconds_since(start_);
  show_status_line(work_bar_of(at_, terminal_columns(), wants_colors()));
}

ReadingProgress::ReadingProgress() : is_bar_(owns_process() && !is_later_rank()) {
  if (!is_bar_) return;
  data::set_table_progress(show_reading);
  data::set_decoding_progress(show_decoding);
}

ReadingProgress::~ReadingProgress() {
  if (!is_bar_) return;
  data::set_table_progress(nullptr);
  data::set_decoding_progress(nullptr);
  clear_status_line();
}

Progress::Progress() : is_bar_(owns_process() && has_status_line()), has_colors_(wants_colors()) {}

Progress::~Progress() { clear(); }

bool Progress::is_due() const {
  return Clock::now() - last_ >= std::chrono::milliseconds(is_bar_ ? 100 : 10'000);
}

void Progress::show(const ProgressSnapshot& at) {
  last_ = Clock::now();
  if (is_bar_) return show_status_line(bar_of(at, terminal_columns(), has_colors_));
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
