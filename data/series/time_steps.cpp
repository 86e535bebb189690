#include "data/series/time_steps.h"

#include <chrono>
#include <cmath>
#include <cstdio>
#include <map>
#include <numbers>

#include "framework/base/error.h"

namespace taper::v0::data {
namespace {

constexpr double kMinute = 60, kHour = 3600, kDay = 86400, kWeek = 7 * kDay,
                 kYear = 365.2425 * kDay;

using Days = std::chrono::sys_days;
using std::chrono::year_month;
using std::chrono::year_month_day;

// A time as the month in which it is, counted from year 0, and what it has beyond that.
struct MonthTime {
  int64_t month;
  unsigned day;
  double of_day;  // seconds
  bool is_last_day;
};

MonthTime month_time(double time) {
  const double days = std::floor(time / kDay);
  const Days at{std::chrono::days(int64_t(days))};
  const year_month_day date(at);
  const bool is_last = year_month_day(at + std::chrono::days(1)).month() != date.month();
  return {int64_t(int(date.year())) * 12 + unsigned(date.month()) - 1, unsigned(date.day()),
          time - days * kDay, is_last};
}

// Returns the time in a month with that day, or the last day of the month if it is shorter.
double time_in(int64_t month, unsigned day, double of_day) {
  const int64_t year = month >= 0 ? month / 12 : (month - 11) / 12;
  const year_month ym{std::chrono::year(int(year)),
                      std::chrono::month(unsigned(month - year * 12) + 1)};
  const auto last = unsigned((ym / std::chrono::last).day());
  const Days at(ym / std::chrono::day(std::min(day, last)));
  return double(at.time_since_epoch().count()) * kDay + of_day;
}

// Returns the key with the highest count, and of several the smallest.
template <class Key> Key most_common(const std::map<Key, int64_t>& counts) {
  auto best = counts.begin();
  for (auto at = counts.begin(); at != counts.end(); ++at) {
    if (at->second > best->second) best = at;
  }
  return best->first;
}

// Returns the step if the dates are on the same day of their months, at least one month apart.
std::optional<TimeStep> find_months(const std::vector<std::vector<double>>& series) {
  std::map<int64_t, int64_t> counts;
  bool on_same_day = true, on_last_day = true;
  std::optional<MonthTime> first;
  for (const std::vector<double>& times : series) {
    for (size_t i = 0; i < times.size(); ++i) {
      const MonthTime at = month_time(times[i]);
      if (!first) first = at;
      on_same_day = on_same_day && at.day == first->day && at.of_day == first->of_day;
      on_last_day = on_last_day && at.is_last_day && at.of_day == first->of_day;
      if (i > 0) ++counts[at.month - month_time(times[i - 1]).month];
    }
  }
  if (counts.empty() || (!on_same_day && !on_last_day) || counts.begin()->first < 1) return {};
  return TimeStep{.unit = StepUnit::kMonths,
                  .length = double(most_common(counts)),
                  .is_at_month_end = on_last_day};
}

double phase(double time, double period) {
  return 2 * std::numbers::pi * std::fmod(time, period) / period;
}

}  // namespace

std::optional<TimeStep> find_step(const std::vector<std::vector<double>>& series, bool are_dates) {
  if (are_dates) {
    if (const auto months = find_months(series)) return months;
  }
  std::map<double, int64_t> counts;
  for (const std::vector<double>& times : series) {
    for (size_t i = 1; i < times.size(); ++i) ++counts[times[i] - times[i - 1]];
  }
  if (counts.empty()) return {};
  return TimeStep{.unit = are_dates ? StepUnit::kSeconds : StepUnit::kNumbers,
                  .length = most_common(counts),
                  .are_dates = are_dates};
}

std::optional<int64_t> TimeStep::steps_between(double start, double time) const {
  if (unit == StepUnit::kMonths) {
    const MonthTime a = month_time(start), b = month_time(time);
    const bool fits = is_at_month_end ? b.is_last_day : a.day == b.day;
    const int64_t months = b.month - a.month, each = int64_t(length);
    if (!fits || a.of_day != b.of_day || months % each != 0) return {};
    return months / each;
  }
  const double steps = (time - start) / length, whole = std::round(steps);
  constexpr double kRounding = 1e-6;  // of a step
  if (!(std::abs(whole) < 1e15) || std::abs(steps - whole) > kRounding) return {};
  return int64_t(whole);
}

double TimeStep::after(double start, int64_t steps) const {
  if (unit != StepUnit::kMonths) return start + double(steps) * length;
  const MonthTime at = month_time(start);
  return time_in(at.month + steps * int64_t(length), is_at_month_end ? 31 : at.day, at.of_day);
}

int64_t TimeStep::usual_season() const {
  if (unit == StepUnit::kMonths) return 12 % int64_t(length) == 0 ? 12 / int64_t(length) : 1;
  if (!are_dates || unit == StepUnit::kNumbers) return 1;
  if (length >= kMinute && length < kDay) {
    return std::fmod(kDay, length) == 0 ? int64_t(kDay / length) : 1;
  }
  if (length == kDay) return 7;
  return length == kWeek ? 52 : 1;
}

int64_t TimeStep::num_calendar_features() const {
  if (!are_dates || unit == StepUnit::kNumbers) return 0;
  if (unit == StepUnit::kMonths) return length < 12 ? 2 : 0;
  int64_t pairs = 0;
  for (const double period : {kDay, kWeek, kYear}) pairs += length < period;
  return 2 * pairs;
}

void TimeStep::calendar_features(double time, std::span<float> out) const {
  constexpr double kMonday = 4 * kDay;  // 1970-01-05
  size_t i = 0;
  const auto add = [&](double angle) {
    out[i++] = float(std::sin(angle));
    out[i++] = float(std::cos(angle));
  };
  const bool has_months = unit == StepUnit::kMonths;
  if (!has_months && length < kDay) add(phase(time, kDay));
  if (!has_months && length < kWeek) add(phase(time - kMonday, kWeek));
  if (i < out.size()) add(phase(time, kYear));
}

std::string TimeStep::text() const {
  const auto with = [](double count, const char* name) {
    return concat_to_string(count, " ", name, count == 1 ? "" : "s");
  };
  if (unit == StepUnit::kRows) return "1 row";
  if (unit == StepUnit::kNumbers) return concat_to_string(length);
  if (unit == StepUnit::kMonths) return with(length, "month");
  for (const auto& [size, name] : {std::pair(kWeek, "week"), std::pair(kDay, "day"),
                                   std::pair(kHour, "hour"), std::pair(kMinute, "minute")}) {
    if (length >= size && std::fmod(length, size) == 0) return with(length / size, name);
  }
  return with(length, "second");
}

std::string TimeStep::time_text(double time) const {
  if (!are_dates) return concat_to_string(time);
  const double days = std::floor(time / kDay), of_day = time - days * kDay;
  const year_month_day date{Days{std::chrono::days(int64_t(days))}};
  char out[64];
  int n = std::snprintf(out, sizeof out, "%04d-%02u-%02u", int(date.year()), unsigned(date.month()),
                        unsigned(date.day()));
  if (of_day != 0 || (unit == StepUnit::kSeconds && length < kDay)) {
    const auto seconds = unsigned(of_day);
    std::snprintf(out + n, sizeof out - size_t(n), " %02u:%02u:%02u", seconds / 3600,
                  seconds / 60 % 60, seconds % 60);
  }
  return out;
}

}  // namespace taper::v0::data
