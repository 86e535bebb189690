#include "data/tables/dates.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace taper::v0::data {
namespace {

constexpr double kDay = 86'400;
constexpr double kJan31 = 1'706'659'200;  // date -u -d 2024-01-31 +%s
constexpr double kJan1 = 1'704'067'200;   // date -u -d 2024-01-01 +%s

TEST(Dates, FormsOfDays) {
  const struct {
    std::string_view text;
    std::optional<double> expected;
  } rows[] = {
      {"1970-01-01", 0.0},
      {"1969-12-31", -kDay},
      {"0001-01-01", -62'135'596'800.0},
      {"9999-12-31", 253'402'214'400.0},
      {"2024-02-29", 1'709'164'800.0},
      {"2023-02-29", {}},
      {"1900-02-29", {}},
      {"2024-01-31", kJan31},
      {"2024-1-31", kJan31},
      {"2024/01/31", kJan31},
      {"2024.01.31", kJan31},
      {"20240131", kJan31},
      {"20241301", {}},
      {"2024-01", kJan1},
      {"2024/01", kJan1},
      {"2024.01", {}},  // a number
      {"2024", {}},
      {"31.01.2024", kJan31},
      {"31.1.24", kJan31},
      {"01.31.2024", {}},
      {"01/31/2024", kJan31},
      {"1/31/24", kJan31},
      {"1/31/69", kJan31 - 55 * 365.25 * kDay + 0.75 * kDay},
      {"31/01/2024", {}},
      {"01-31-2024", kJan31},
      {"01-31/2024", {}},
      {"31 Jan 2024", kJan31},
      {"31-Jan-2024", kJan31},
      {"31-JAN-24", kJan31},
      {"Jan 31, 2024", kJan31},
      {"Jan 31 2024", kJan31},
      {"January 31, 2024", kJan31},
      {"2024-Jan-31", kJan31},
      {"Jan 2024", kJan1},
      {"Jan-2024", kJan1},
      {"Sept 2024", 1'725'148'800.0},
      {"Janu 2024", {}},
      {"Jan", {}},
      {"", {}},
      {"-", {}},
      {" 2024-01-31", {}},
      {"2024-01-31 ", {}},
      {"2024-01-31x", {}},
      {"2024-00-10", {}},
      {"2024-01-00", {}},
      {"0000-01-01", {}},
      {"2024-01-", {}},
      {"2024-01-31-05", {}},
      {"12.5", {}},
      {"1.2.3", {}},
      {"192.168.1.1", {}},
      {"555-1234", {}},
      {"may", {}},
      {"123456789", {}},
      {"999999999999999999999", {}},
  };
  for (const auto& [text, expected] : rows) EXPECT_EQ(parse_date(text), expected) << text;
}

TEST(Dates, FormsOfTimes) {
  const struct {
    std::string_view time;
    std::optional<double> seconds;  // since midnight, UTC
  } rows[] = {
      {"T13:45", 49'500.0},
      {" 13:45", 49'500.0},
      {"  13:45:10", 49'510.0},
      {"T13:45:10Z", 49'510.0},
      {"T13:45:10.25Z", 49'510.25},
      {"T13:45:10,25", 49'510.25},
      {" 13:45:10 UTC", 49'510.0},
      {"T13:45:10+01:00", 45'910.0},
      {"T13:45:10+0100", 45'910.0},
      {"T13:45:10-05", 67'510.0},
      {" 1:45 PM", 49'500.0},
      {" 1:45pm", 49'500.0},
      {" 12:00 AM", 0.0},
      {" 12:00 PM", 43'200.0},
      {" 0:00", 0.0},
      {"T23:59:60", 86'400.0},
      {"T24:00", {}},
      {"T13:60", {}},
      {"T13:45:61", {}},
      {"T13", {}},
      {"13:45", {}},
      {" 13:45 PM", {}},
      {" 0:45 AM", {}},
      {"T13:45 CET", {}},
      {"T13:45+", {}},
      {"T13:45+15:00", {}},
      {"T13:45Zx", {}},
      {" ", {}},
  };
  for (const std::string day : {"2024-01-31", "01/31/2024", "Jan 31, 2024", "20240131"}) {
    for (const auto& [time, seconds] : rows) {
      const auto expected = seconds ? std::optional(kJan31 + *seconds) : std::nullopt;
      EXPECT_EQ(parse_date(day + std::string(time)), expected) << day << time;
    }
  }
  EXPECT_EQ(parse_date("Jan 2024 13:45"), kJan1 + 49'500);
}

TEST(Dates, TheOrderOfDayAndMonthFollowsFromAllTexts) {
  using Texts = std::vector<std::string_view>;
  EXPECT_EQ(parse_date("02/01/2024", DateOrder::kDayFirst), kJan1 + kDay);
  EXPECT_EQ(parse_date("01/02/2024", DateOrder::kMonthFirst), kJan1 + kDay);
  EXPECT_EQ(find_date_order(Texts{"01/02/2024", "13/02/2024"}), DateOrder::kDayFirst);
  EXPECT_EQ(find_date_order(Texts{"01/02/2024", "02/13/2024"}), DateOrder::kMonthFirst);
  EXPECT_EQ(find_date_order(Texts{"01/02/2024"}), DateOrder::kMonthFirst);
  EXPECT_EQ(find_date_order(Texts{}), DateOrder::kMonthFirst);
}

}  // namespace
}  // namespace taper::v0::data
