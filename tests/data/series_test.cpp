// Series in tables: steps, gaps, windows, parts, scales and baselines.
#include "data/series/series.h"

#include <cmath>
#include <functional>
#include <numbers>

#include <gtest/gtest.h>

#include "data/series/series_dataset.h"
#include "data/series/time_steps.h"
#include "data/tables/dates.h"
#include "framework/base/log.h"
#include "framework/factory/factories.h"
#include "tests/data_files.h"
#include "tests/testing.h"

namespace taper::v0::data {
namespace {

double at(const char* date) { return parse_date(date).value(); }

// --- steps ---

struct StepRow {
  std::vector<const char*> times;
  const char* text;
  int64_t season;
  int64_t calendar;  // features
  const char* next;  // the time one step after the last one
};
const StepRow kStepRows[] = {
    {{"2024-01-30", "2024-01-31", "2024-02-01"}, "1 day", 7, 4, "2024-02-02"},
    {{"2024-01-01", "2024-01-08", "2024-01-22"}, "1 week", 52, 2, "2024-01-29"},
    {{"2024-01-01 10:00", "2024-01-01 11:00"}, "1 hour", 24, 6, "2024-01-01 12:00:00"},
    {{"2024-01-01 10:05", "2024-01-01 10:20"}, "15 minutes", 96, 6, "2024-01-01 10:35:00"},
    {{"2024-01-01 10:00:00", "2024-01-01 10:00:30"}, "30 seconds", 1, 6, "2024-01-01 10:01:00"},
    {{"2023-11-01", "2023-12-01", "2024-01-01"}, "1 month", 12, 2, "2024-02-01"},
    {{"2023-12-31", "2024-01-31", "2024-02-29"}, "1 month", 12, 2, "2024-03-31"},
    {{"2023-01-01", "2023-04-01", "2023-07-01"}, "3 months", 4, 2, "2023-10-01"},
    {{"2021-06-15", "2022-06-15", "2023-06-15"}, "12 months", 1, 0, "2024-06-15"},
    {{"2024-01-01", "2024-01-03", "2024-01-04", "2024-01-05"}, "1 day", 7, 4, "2024-01-06"},
};

TEST(TimeSteps, AreFoundFromTimes) {
  for (const auto& [texts, text, season, calendar, next] : kStepRows) {
    std::vector<double> times;
    for (const char* each : texts) times.push_back(at(each));
    const TimeStep step = find_step({times}, true).value();
    EXPECT_EQ(step.text(), text) << texts[0];
    EXPECT_EQ(step.usual_season(), season) << texts[0];
    EXPECT_EQ(step.num_calendar_features(), calendar) << texts[0];
    const int64_t steps = step.steps_between(times[0], times.back()).value();
    EXPECT_EQ(step.after(times[0], steps), times.back()) << texts[0];
    EXPECT_EQ(step.time_text(step.after(times[0], steps + 1)), next) << texts[0];
  }
}

TEST(TimeSteps, NumbersHaveNoCalendar) {
  const TimeStep step = find_step({{1990, 1991, 1993}, {5}}, false).value();
  EXPECT_EQ(step.text(), "1");
  EXPECT_EQ(step.num_calendar_features(), 0);
  EXPECT_EQ(step.usual_season(), 1);
  EXPECT_EQ(step.time_text(1994), "1994");
  EXPECT_EQ(step.steps_between(1990, 1993), 3);
  EXPECT_EQ(step.steps_between(1990, 1990.5), std::nullopt);
  EXPECT_EQ(find_step({{1}, {2}, {}}, false), std::nullopt);
}

TEST(TimeSteps, AMonthHasItsDay) {
  const TimeStep first{.unit = StepUnit::kMonths};
  EXPECT_EQ(first.steps_between(at("2024-01-15"), at("2025-03-15")), 14);
  EXPECT_EQ(first.steps_between(at("2024-01-15"), at("2024-02-14")), std::nullopt);
  const TimeStep quarter{.unit = StepUnit::kMonths, .length = 3};
  EXPECT_EQ(quarter.steps_between(at("2024-01-15"), at("2024-03-15")), std::nullopt);
  EXPECT_EQ(quarter.after(at("2024-01-15"), -1), at("2023-10-15"));
}

TEST(TimeSteps, CalendarFeaturesRepeatWithTheirPeriods) {
  const TimeStep hour{.unit = StepUnit::kSeconds, .length = 3600};
  std::vector<float> a(6), b(6), c(6);
  hour.calendar_features(at("2024-01-01 06:00"), a);  // a Monday
  hour.calendar_features(at("2024-01-08 06:00"), b);
  hour.calendar_features(at("2024-01-08 18:00"), c);
  EXPECT_NEAR(a[0], 1, 1e-6);  // a quarter of the day
  EXPECT_NEAR(c[0], -1, 1e-6);
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(a[i], b[i], 1e-5) << i;
  EXPECT_GT(std::abs(a[4] - b[4]) + std::abs(a[5] - b[5]), 0.05);  // another day of the year
}

// --- tables ---

std::string day(int64_t i) {
  const TimeStep step{.unit = StepUnit::kSeconds, .length = 86400};
  return step.time_text(at("2024-01-01") + double(i) * 86400);
}

struct SeriesFiles : DataFiles {
  Series options(const std::string& text, int64_t past = 3, int64_t horizon = 2) const {
    Series out;
    out.path = {write("sales.csv", text)};
    out.time = "date";
    out.target = "sales";
    out.past = past;
    out.horizon = horizon;
    out.calendar = false;
    return out;
  }
  // Rows "date,sales" of f(i) for i below n.
  static std::string rows(int64_t n, const std::function<std::string(int64_t)>& f) {
    std::string out = "date,sales\n";
    for (int64_t i = 0; i < n; ++i) out += concat_to_string(day(i), ",", f(i), "\n");
    return out;
  }
};

const SeriesDataset& set_of(const DatasetPtr& set) {
  return dynamic_cast<const SeriesDataset&>(*set);
}
std::vector<float> inputs_of(const DatasetPtr& set, int64_t row) {
  return set->get(tensor({row})).inputs.to_floats();
}

// Values 0, 1, 2, ... show which steps a window has.
TEST_F(SeriesFiles, WindowsArePastAndNextValuesInTheScaleOfTheSeries) {
  const Series o = options(rows(40, [](int64_t i) { return concat_to_string(i); }));
  const Splits all = o.load(0);
  EXPECT_EQ(all.task, Task::kRegression);
  EXPECT_EQ(all.input_shape, (Shape{3}));
  EXPECT_EQ(all.outputs, 2);
  // 40 steps: 28 to train, 4 for the validation, 8 for the test.
  EXPECT_EQ(all.train->size(), 28 - 4);
  EXPECT_EQ(all.validation->size(), 3);
  EXPECT_EQ(all.test->size(), 7);
  const SeriesScale& scale = all.series->scales.at(0);
  EXPECT_NEAR(scale.mean, 13.5, 1e-12);  // of 0 to 27
  EXPECT_NEAR(scale.std, std::sqrt((28 * 28 - 1) / 12.0), 1e-12);
  EXPECT_EQ(scale.naive, 7);  // the season of days is 7
  const auto scaled = [&](double y) { return float((y - scale.mean) / scale.std); };
  const Batch first = all.test->get(tensor({0, 6}));
  EXPECT_EQ(first.inputs.to_floats(), (std::vector<float>{scaled(29), scaled(30), scaled(31),
                                                          scaled(35), scaled(36), scaled(37)}));
  EXPECT_EQ(first.targets.to_floats(),
            (std::vector<float>{scaled(32), scaled(33), scaled(38), scaled(39)}));
  EXPECT_EQ(first.others.at(0).to_vector<double>(),
            (std::vector<double>{scale.mean, scale.std, 7, scale.mean, scale.std, 7}));
  EXPECT_TRUE(all.train->get(tensor({0})).others.empty());
  // No target of the training part is in another part.
  const auto targets = all.train->get(tensor({23})).targets.to_floats();
  EXPECT_EQ(targets, (std::vector<float>{scaled(26), scaled(27)}));
}

TEST_F(SeriesFiles, BaselinesAreTheLastValueAndTheOneAWeekAgo) {
  // The value of a weekday, and one more each week.
  const Series o =
      options(rows(70, [](int64_t i) { return concat_to_string(i % 7 * 10 + i / 7); }));
  const Splits all = o.load(0);
  const std::vector<Baseline> found = baselines_of(*all.test);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].name, "last value");
  EXPECT_EQ(found[1].name, "one season ago");
  EXPECT_NEAR(found[1].errors[0].second, 1, 1e-9);  // mae
  EXPECT_NEAR(found[1].errors[2].second, 1, 1e-9);  // mase: as in training
  double sum = 0;
  int64_t count = 0;
  for (const Window& w : set_of(all.test).windows()) {
    for (int64_t h = 0; h < 2; ++h, ++count) {
      const auto y = [](int64_t i) { return double(i % 7 * 10 + i / 7); };
      sum += std::abs(y(w.first + 3 + h) - y(w.first + 2));
    }
  }
  EXPECT_NEAR(found[0].errors[0].second, sum / double(count), 1e-9);
  EXPECT_TRUE(baselines_of(TensorDataset({ones({2, 2}), ones({2})})).empty());
}

TEST_F(SeriesFiles, MissingStepsAreSeenButNotPredicted) {
  const auto value = [](int64_t i) { return i == 11 ? std::string() : concat_to_string(i); };
  std::string text = "date,sales\n";
  for (int64_t i = 0; i < 40; ++i) {
    if (i == 9 || i == 10) continue;
    text += concat_to_string(day(i), ",", value(i), "\n");
  }
  Series o = options(text);
  const Splits all = o.load(0);
  EXPECT_NE(all.report.find("gaps: 3 missing steps in 1 place, filled but not predicted; the "
                            "first: 3 steps from 2024-01-10"),
            std::string::npos)
      << all.report;
  // The training windows with the targets 9 to 11 are left out.
  EXPECT_EQ(all.train->size(), 24 - 4);
  const SeriesScale& scale = all.series->scales.at(0);
  bool sees = false;
  for (int64_t row = 0; row < all.train->size(); ++row) {
    if (set_of(all.train).windows()[size_t(row)].first != 10) continue;
    sees = true;
    EXPECT_NEAR(double(inputs_of(all.train, row)[0]) * scale.std + scale.mean, 10, 1e-4);
  }
  EXPECT_TRUE(sees);
  o.gaps = Gaps::kRefuse;
  const std::string error = refusal_of<InputError>([&] { (void)o.load(0); });
  EXPECT_EQ(error, o.path[0] +
                       ":11: column 'sales': 3 steps of 1 day have no value; `gaps: fill` "
                       "fills them");
  o.gaps = Gaps::kIgnore;
  const Splits ignored = o.load(0);
  EXPECT_EQ(ignored.series->step.text(), "1 row");
}

TEST_F(SeriesFiles, SeveralSeriesHaveTheirOwnScales) {
  std::string text = "store,date,sales\n";
  for (int64_t i = 29; i >= 0; --i) {  // not in the order of time
    text += concat_to_string("b,", day(i), ",", 1000 * i, "\na,", day(i), ",", i, "\n");
  }
  text += "short," + day(0) + ",1\n";
  Series o = options(text);
  o.series = {"store"};
  const Splits all = o.load(0);
  ASSERT_EQ(all.series->scales.size(), 3u);
  EXPECT_EQ(all.series->scales[0].name, "b");
  EXPECT_NEAR(all.series->scales[0].std, 1000 * all.series->scales[1].std, 1e-6);
  EXPECT_NE(all.report.find("left out: too short for past + horizon (3 + 2): short (1 steps)"),
            std::string::npos)
      << all.report;
  EXPECT_NE(all.report.find("rows were not in the order of time"), std::string::npos);
  // Equal shapes have equal samples.
  const int64_t half = all.train->size() / 2;
  EXPECT_TRUE(test::close(all.train->get(tensor({int64_t(0)})).inputs,
                          all.train->get(tensor({half})).inputs, 1e-6));
}

TEST_F(SeriesFiles, KnownColumnsAreNumbersAndWords) {
  std::string text = "date,sales,promo,kind\n";
  for (int64_t i = 0; i < 42; ++i) {
    const bool is_future = i >= 40;
    text += concat_to_string(day(i), ",", is_future ? "" : concat_to_string(i), ",", i % 4, ",",
                             i == 20 ? ""
                             : i % 2 ? "odd"
                                     : "even",
                             "\n");
  }
  Series o = options(text);
  o.known = {"promo", "kind"};
  const Splits all = o.load(0);
  EXPECT_EQ(all.series->known.at(1).words, (std::vector<std::string>{"even", "odd"}));
  EXPECT_EQ(all.input_shape, (Shape{3 + 5 * 3}));
  EXPECT_NE(all.report.find("1 missing cells got the value before them"), std::string::npos);
  const KnownColumn& promo = all.series->known[0];
  const std::vector<float> x = inputs_of(all.train, 0);
  for (size_t step = 0; step < 5; ++step) {
    EXPECT_NEAR(x[3 + 3 * step], (double(step % 4) - promo.mean) / promo.std, 1e-5) << step;
    EXPECT_EQ(x[4 + 3 * step], step % 2 == 0) << step;
    EXPECT_EQ(x[5 + 3 * step], step % 2 == 1) << step;
  }
  // The rows without a target are the future.
  const std::vector<Forecast> next = forecasts_of(*all.series, {o.path[0]});
  ASSERT_EQ(next.size(), 1u);
  EXPECT_EQ(next[0].times, (std::vector<std::string>{day(40), day(41)}));
  EXPECT_NEAR(next[0].features[3 + 3 * 3], (0 - promo.mean) / promo.std, 1e-5);  // of step 40
}

TEST_F(SeriesFiles, ForecastsBeginAfterTheLastValue) {
  Series o = options(rows(40, [](int64_t i) { return concat_to_string(i); }));
  const Splits all = o.load(0);
  const std::string newer =
      write("newer.csv", rows(50, [](int64_t i) { return concat_to_string(2 * i); }));
  const std::vector<Forecast> next = forecasts_of(*all.series, {newer});
  EXPECT_EQ(next.at(0).times, (std::vector<std::string>{day(50), day(51)}));
  const SeriesScale& scale = all.series->scales.at(0);
  EXPECT_NEAR(double(next[0].features[2]) * scale.std + scale.mean, 98, 1e-4);
  const DatasetPtr windows = o.more(all, newer);
  EXPECT_EQ(windows->size(), 50 - 4);
}

// A new series is scaled by what comes before all of its targets.
TEST_F(SeriesFiles, AnUnknownSeriesHasTheScaleOfItsFirstValues) {
  std::string text = "store,date,sales\n", other = text;
  for (int64_t i = 0; i < 40; ++i) {
    text += concat_to_string("a,", day(i), ",", i, "\n");
    other += concat_to_string("new,", day(i), ",", i < 3 ? 10 * i : 5000, "\n");
  }
  Series o = options(text);
  o.series = {"store"};
  const Splits all = o.load(0);
  const Batch batch = o.more(all, write("other.csv", other))->get(tensor({30}));
  EXPECT_NEAR(batch.others.at(0).to_vector<double>()[0], 10, 1e-9);
}

struct RefusedRow {
  const char* rule;
  std::string text;
  std::function<void(Series&)> change;
  std::string message;
};

// Trading days are a common case. No window of a week is without a gap.
TEST_F(SeriesFiles, GapsAreNamedIfNoWindowIsWithoutThem) {
  std::string text = "date,sales\n";
  for (int64_t i = 0; i < 140; ++i) {
    if (i % 7 < 5) text += concat_to_string(day(i), ",", i, "\n");
  }
  const Series o = options(text, 12, 7);
  const std::string refusal = refusal_of<OptionError>([&] { (void)o.load(0); });
  EXPECT_NE(refusal.find("sales.csv: 0 windows to train and 0 to test; both must be at least 1; 27 "
                         "% of the steps of 1 day are missing; if rows follow each other without "
                         "regard to the time, as trading days do, set data.gaps=ignore"),
            std::string::npos)
      << refusal;
  Series ignoring = o;
  ignoring.gaps = Gaps::kIgnore;
  EXPECT_GT(ignoring.load(0).train->size(), 0);
}

TEST_F(SeriesFiles, RefusesWhatIsNoSeries) {
  const auto number = [](int64_t i) { return concat_to_string(i); };
  const std::string good = rows(40, number);
  const auto none = [](Series&) {};
  const RefusedRow rows_of_table[] = {
      {"a time twice", good + day(3) + ",5\n", none,
       ":42: column 'date': '2024-01-04' occurs twice, first in "},
      {"between two steps", good + "2024-03-01 12:00,5\n", none,
       ":42: column 'date': '2024-03-01 12:00:00' is no whole number of steps of 1 day"},
      {"a word as value", rows(40, [](int64_t i) { return i == 7 ? "many" : "1"; }), none,
       ":9: column 'sales': expected a number, got 'many'"},
      {"a decimal comma", rows(40, [](int64_t) { return "\"1,5\""; }), none,
       "write decimals with a point: 1.5, or set read: {decimal: \",\"}"},
      {"a word as time", good + "soon,5\n", none, ":42: column 'date': expected a date"},
      {"no time", good + ",5\n", none, ":42: column 'date': the time is missing"},
      {"an endless gap", good + "9999-12-31,5\n", none, ":42: column 'date': most steps of 1 day"},
      {"one row", rows(1, number), none, "no series has two times"},
      {"too few steps", rows(8, number), none, "are left to train, fewer than past + horizon"},
      {"no values", rows(40, [](int64_t) { return ""; }), none, "column 'sales' has no value"},
      {"no such target", good, [](Series& o) { o.target = "sale"; }, "no column 'sale'"},
      {"no such time", good, [](Series& o) { o.time = "day"; }, "no column 'day'"},
      {"no such series", good, [](Series& o) { o.series = {"shop"}; }, "no column 'shop'"},
      {"no such known", good, [](Series& o) { o.known = {"promo"}; }, "no column 'promo'"},
      {"two roles", good, [](Series& o) { o.known = {"sales"}; },
       "column 'sales' is given as target and as known"},
      {"a time per series", good, [](Series& o) { o.series = {"sales"}; },
       "column 'sales' is given as target and as series"},
      {"too large a test", good, [](Series& o) { o.split.test = 39; }, "are left to train"},
      {"no file", good, [](Series& o) { o.path = {"none.csv"}; }, "none.csv"},
      {"an empty file", "", none, "sales.csv"},
      {"only a header", "date,sales\n", none, "sales.csv"},
  };
  for (const auto& [rule, text, change, message] : rows_of_table) {
    Series o = options(text);
    change(o);
    const std::string error = refusal_of<Error>([&] { (void)o.load(0); });
    EXPECT_NE(error.find(message), std::string::npos) << rule << ": " << error;
    EXPECT_EQ(error.find('\n'), std::string::npos) << rule << ": " << error;
  }
}

TEST_F(SeriesFiles, AForecastNeedsTheFutureOfKnownColumns) {
  std::string text = "date,sales,promo\n";
  for (int64_t i = 0; i < 41; ++i) {
    text += concat_to_string(day(i), ",", i < 40 ? concat_to_string(i) : "", ",", i % 2, "\n");
  }
  Series o = options(text);
  o.known = {"promo"};
  const Splits all = o.load(0);
  const std::string error =
      refusal_of<InputError>([&] { (void)forecasts_of(*all.series, {o.path[0]}); });
  EXPECT_EQ(error, o.path[0] +
                       ": the series has 1 rows after its last sales, of the 2 that a forecast "
                       "needs for the known column 'promo': add rows with the times from "
                       "2024-02-11 on, an empty sales and these columns");
  const std::string short_file = write("short.csv", "date,sales,promo\n2024-01-01,1,0\n");
  EXPECT_NE(refusal_of<InputError>([&] {
              (void)forecasts_of(*all.series, {short_file});
            }).find("no series has the 3 steps"),
            std::string::npos);
}

TEST_F(SeriesFiles, AConstantSeriesIsScaledByOne) {
  const Splits all = options(rows(40, [](int64_t) { return "5"; })).load(0);
  EXPECT_EQ(all.series->scales.at(0).std, 1);
  EXPECT_EQ(all.series->scales[0].naive, 1);
  for (const float x : inputs_of(all.test, 0)) EXPECT_EQ(x, 0);
}

}  // namespace
}  // namespace taper::v0::data
