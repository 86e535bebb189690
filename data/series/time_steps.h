// Times at equal distances: which step a series has, and the position of a time on its grid.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "framework/base/namespace.h"
#include "framework/base/text_enum.h"

namespace taper::v0::data {

// What times are. kNumbers: numbers without a unit, such as years or counts. kSeconds: dates, in
// steps of equal length. kMonths: dates, in steps of whole months. kRows: the numbers of the rows,
// because the times are not equally spaced.
struct StepUnitValues {
  enum class Value : uint8_t { kNumbers, kSeconds, kMonths, kRows };
  static constexpr Value kNumbers = Value::kNumbers, kSeconds = Value::kSeconds,
                         kMonths = Value::kMonths, kRows = Value::kRows;
  static constexpr const char* kOption = "unit";
  static constexpr const char* kWords[] = {"numbers", "seconds", "months", "rows"};
};
using StepUnit = TextEnum<StepUnitValues>;

// The distance between two times. Times are seconds since 1970, or numbers.
struct TimeStep {
  StepUnit unit = StepUnit::kSeconds;
  double length = 1;             // in the unit; of kRows: the usual distance, for later times
  bool is_at_month_end = false;  // kMonths: all times are on the last day of their month
  bool are_dates = true;         // whether times are seconds since 1970

  // Returns the number of steps from `start` to `time`. Returns std::nullopt if it is no whole
  // number. Not for kRows.
  std::optional<int64_t> steps_between(double start, double time) const;
  // Returns the time that many steps after `start`.
  double after(double start, int64_t steps) const;
  // Returns how many steps a season has: a day of hours, a week of days, a year of weeks, months or
  // quarters; 1 if there is no usual one.
  int64_t usual_season() const;
  // Returns the number of calendar features: pairs of sine and cosine.
  int64_t num_calendar_features() const;
  // Writes the calendar features of a time: hour of the day, day of the week and day of the year,
  // as far as the step is shorter than these periods.
  void calendar_features(double time, std::span<float> out) const;
  // Returns "1 day", "15 minutes", "3 months".
  std::string text() const;
  // Returns a time as a cell: "2024-01-31", "2024-01-31 13:45:00" or a number.
  std::string time_text(double time) const;
};

// Returns the most common step between consecutive times. Each span has the times of a series,
// rising, without repeated ones. Returns std::nullopt if no series has two times.
std::optional<TimeStep> find_step(const std::vector<std::vector<double>>& series, bool are_dates);

}  // namespace taper::v0::data
