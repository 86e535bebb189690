// Dates and times in tables, as numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "framework/base/namespace.h"
#include "framework/base/text_enum.h"

namespace taper::v0::data {

// The order of day and month in dates such as 01/02/2024 and 01-02-2024.
struct DateOrderValues {
  enum class Value : uint8_t { kMonthFirst, kDayFirst };
  static constexpr Value kMonthFirst = Value::kMonthFirst, kDayFirst = Value::kDayFirst;
  static constexpr const char* kOption = "order";
  static constexpr const char* kWords[] = {"month_first", "day_first"};
};
using DateOrder = TextEnum<DateOrderValues>;

// Returns a date as seconds since 1970-01-01T00:00:00Z, or std::nullopt unless the whole text is a
// date. Dates have these forms, in which months and days may have one digit:
//
//   2024-01-31, 2024/01/31, 2024.01.31, 20240131    year first
//   2024-01, 2024/01, Jan 2024, Jan-2024            the first day of a month
//   31.01.2024                                      points: the day is first
//   01/31/2024, 01-31-2024                          in the given order
//   31 Jan 2024, 31-Jan-2024, Jan 31, 2024, 2024-Jan-31, 31 January 2024
//                                                   English names, at least three letters
//
// A year at the end may have two digits: 69 to 99 are in the 20th century, as in POSIX. A time may
// follow after "T" or blanks: 13:45, 13:45:10, 13:45:10.25 or 1:45 PM. After that, a zone may
// follow: Z, UTC, GMT, +01:00, +0100 or +01. The default zone is UTC. Days that do not exist, such
// as 2023-02-29, are not dates. The calendar is Gregorian for all years.
std::optional<double> parse_date(std::string_view text, DateOrder order = DateOrder::kMonthFirst);

// Returns the order in which most of the texts are dates; kMonthFirst if both are equally good.
DateOrder find_date_order(std::span<const std::string_view> texts);

}  // namespace taper::v0::data
