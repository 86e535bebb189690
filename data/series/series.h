// Series: values at equal times, whose next values are to be predicted.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/series/series_encoding.h"
#include "data/series/series_grid.h"
#include "data/source.h"
#include "data/tables/table.h"
#include "framework/base/describe.h"

namespace taper::v0::data {

// The last times are the test part, those before them the validation part: shares of all times if
// below 1, and otherwise numbers of steps.
struct SeriesSplit {
  double validation = 0.1, test = 0.2;

  template <class V> void describe(V& v) {
    v("validation", validation, {0, 1e9},
      "times before the test part that choose the weights to save: a share, or a number of steps "
      "from 1 on");
    v("test", test, {0, 1e9, true},
      "last times for the test: a share, or a number of steps from 1 on");
  }
};

// The forecasts of one series: the steps after its last value.
struct Forecast {
  std::vector<std::string> keys;   // the cells of the columns that tell series apart
  std::vector<std::string> times;  // [horizon], as cells
  std::vector<float> features;     // [width]
  SeriesScale scale;
};

// The data type `series`.
struct Series {
  std::vector<std::string> path{};
  std::string time{}, target{};
  std::vector<std::string> series{};
  int64_t horizon = 1;
  std::optional<int64_t> past{}, season{};
  std::vector<std::string> known{};
  bool calendar = true;
  Gaps gaps = Gaps::kFill;
  SeriesSplit split{};
  ReadOptions read{};

  template <class V> void describe(V& v) {
    constexpr Range kSteps{1, 100'000};
    v("path", path, kPath, "files with the rows, joined by column name; wildcards are allowed")
        .required();
    v("time", time, "column of the times: dates or numbers").required();
    v("target", target, "column to predict: numbers").required();
    v("series", series, "columns that tell several series apart; default: the table is one series");
    v("horizon", horizon, kSteps, "number of steps to predict").required();
    v("past", past, kSteps, "number of steps that the model sees; default: 4 * horizon");
    v("season", season, kSteps,
      "number of steps of a season; default: a day, a week or a year, by the distance of the "
      "times");
    v("known", known, "columns whose future is known when a forecast is made, such as a promotion");
    v("calendar", calendar, "let the model see the hour, the weekday and the day of the year");
    v("gaps", gaps,
      "missing steps: filled between their neighbors but never predicted; an error; or rows count "
      "as equally spaced");
    v("split", split, "training, validation and test part");
    v("read", read, "how the files are read");
  }

  std::optional<Task> learns() const { return Task::kRegression; }
  Splits load(uint64_t seed) const;
  std::vector<DataFile> files() const;
  // Returns all windows of a further file, with the scales of the training data.
  DatasetPtr more(const DataInfo& info, const std::filesystem::path& file) const;
};

// Returns what the model needs to predict the steps after the last value of each series in the
// files. Known columns are read from rows without a target after these values. Logs a warning with
// the series that are too short. Throws InputError, with the file and the series, if the future of
// a known column is missing, or if all series are too short.
std::vector<Forecast> forecasts_of(const SeriesEncoding& encoding,
                                   const std::vector<std::filesystem::path>& files);

}  // namespace taper::v0::data
