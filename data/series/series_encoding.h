// How the rows of a table become series: fitted on the training part, and saved with a run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/series/time_steps.h"
#include "data/tables/columns.h"
#include "framework/base/text_enum.h"

namespace taper::v0::data {

// The treatment of steps that a series lacks. kFill: they get values between their neighbors,
// which the model sees but never has to predict. kRefuse: an error. kIgnore: rows count as equally
// spaced.
struct GapsValues {
  enum class Value : uint8_t { kFill, kRefuse, kIgnore };
  static constexpr Value kFill = Value::kFill, kRefuse = Value::kRefuse, kIgnore = Value::kIgnore;
  static constexpr const char* kOption = "gaps";
  static constexpr const char* kWords[] = {"fill", "refuse", "ignore"};
};
using Gaps = TextEnum<GapsValues>;

// A column whose future is known: a number, or words that become one feature each.
struct KnownColumn {
  std::string name;
  std::vector<std::string> words{};  // empty: numbers
  double mean = 0, std = 1;          // of numbers: the feature is (x - mean) / std

  int64_t num_features() const { return words.empty() ? 1 : std::ssize(words); }
};

// The scale of one series.
struct SeriesScale {
  std::string name;          // "" if the table has one series
  double mean = 0, std = 1;  // the model sees (y - mean) / std
  double naive = 1;          // by which MASE divides: the error of the value one season ago
};

struct SeriesEncoding {
  // --- the file ---
  std::string delimiter, decimal, encoding;  // as read_table() takes them
  int64_t skip = 0;
  std::string time, target;
  std::vector<std::string> series{};  // columns that tell series apart; empty: one series
  DateForm date_form = DateForm::kText;
  DateOrder date_order = DateOrder::kMonthFirst;

  TimeStep step{};
  Gaps gaps = Gaps::kFill;
  int64_t past = 1, horizon = 1, season = 1;
  bool uses_calendar = true;
  std::vector<KnownColumn> known{};
  std::vector<SeriesScale> scales{};  // of the series of the training file

  int64_t known_features() const;
  int64_t calendar_features() const { return uses_calendar ? step.num_calendar_features() : 0; }
  // Returns the number of features of a sample: `past` values, then the known features of each past
  // and future step, then the calendar features of each future step.
  int64_t width() const {
    return past + (past + horizon) * known_features() + horizon * calendar_features();
  }
};

}  // namespace taper::v0::data
