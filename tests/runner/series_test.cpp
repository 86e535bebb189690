// Runs on series, from the table to the forecast.
#include "data/series/series.h"

#include <cmath>
#include <numbers>

#include <gtest/gtest.h>

#include "apps/runner/base/errors.h"
#include "apps/runner/run/data_info.h"
#include "apps/runner/run/evaluate.h"
#include "apps/runner/settings/run_config.h"
#include "apps/runner/train/train.h"
#include "framework/factory/factories.h"
#include "framework/factory/generator.h"
#include "tests/runner/run_process.h"

namespace taper::v0::runner {
namespace {

namespace fs = std::filesystem;

constexpr const char* kStores[] = {"Kiel", "Ulm"};

// Sales of two stores: a week, a trend, promotions and noise. `days` after the last one are the
// future: their sales are empty.
std::string sales(int64_t days, int64_t future = 0) {
  Generator generator(11);
  const Tensor noise = randn({2 * (days + future)}, {}, &generator);
  std::string out = "date,store,promo,sales\n";
  for (int64_t i = 0; i < days + future; ++i) {
    for (int64_t s = 0; s < 2; ++s) {
      const bool promo = (i * 7 + s * 3) % 11 < 2;
      const double wave = 30 * std::sin(2 * std::numbers::pi * double(i) / 7) + 0.1 * double(i);
      const double y =
          double(s + 1) * (100 + wave + 40 * promo) + 4 * double(noise.data<float>()[2 * i + s]);
      const data::TimeStep day{.unit = data::StepUnit::kSeconds, .length = 86400};
      out += concat_to_string(day.time_text(double(19'700 + i) * 86400), ",", kStores[s], ",",
                              int(promo), ",", i < days ? concat_to_string(float(y)) : "", "\n");
    }
  }
  return out;
}

constexpr const char* kYaml =
    "device: cpu\nthreads: 1\n"
    "data: {path: sales.csv, time: date, series: store, target: sales, past: 21, horizon: 7, "
    "known: [promo]}\n"
    "train: {epochs: 12}\n";

class SeriesRuns : public ::testing::Test {
 protected:
  SeriesRuns() { write_bytes(at_ / "sales.csv", sales(400)); }
  RunDirectory::Outcome run(const std::vector<std::string>& words) const {
    return at_.taper(words);
  }
  // Returns the numbers of the line "test NAME:  1.5  (last value 2.5, one season ago 3.5)".
  static std::vector<double> numbers_of(const std::string& text, const std::string& name) {
    const std::string key = "\ntest " + name + ":";
    const size_t begin = text.find(key);
    if (begin == text.npos) return {};
    std::string line = text.substr(begin + key.size());
    line = line.substr(0, line.find('\n'));
    std::vector<double> out;
    for (size_t i = 0; i < line.size();) {
      if (std::isdigit(static_cast<unsigned char>(line[i])) == 0) {
        ++i;
        continue;
      }
      size_t length = 0;
      out.push_back(std::stod(line.substr(i), &length));
      i += length;
    }
    return out;
  }
  static bool has(const std::string& text, const std::string& part) {
    return text.find(part) != text.npos;
  }

  RunDirectory at_;
};

TEST_F(SeriesRuns, TheModelBeatsBothBaselines) {
  write_bytes(at_ / "sales.yaml", kYaml);
  const auto trained = run({"train", "sales.yaml", "--out", "run"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_TRUE(has(trained.err, "sales.csv: 800 rows, 2 series, 400 steps of 1 day from"))
      << trained.err;
  EXPECT_TRUE(has(trained.err, "season 7"));
  for (const std::string name : {"mae", "smape", "mase"}) {
    const std::vector<double> found = numbers_of(trained.out, name);
    ASSERT_EQ(found.size(), 3u) << trained.out;
    EXPECT_LT(found[0], 0.7 * found[1]) << name << ": the last value";
    EXPECT_LT(found[0], 0.7 * found[2]) << name << ": one season ago";
  }
  EXPECT_TRUE(has(trained.out, "(last value ") && has(trained.out, ", one season ago "));
  // The noise has a mean absolute value of 3.2, below which no model can be.
  EXPECT_GT(numbers_of(trained.out, "mae")[0], 3);
  const auto evaluated = run({"eval", "run"});
  ASSERT_EQ(evaluated.code, 0) << evaluated.err;
  for (const std::string name : {"mae", "smape", "mase"}) {
    EXPECT_EQ(numbers_of(evaluated.out, name), numbers_of(trained.out, name)) << name;
  }
  // The same numbers, computed here from the same data.
  write_bytes(at_ / "newer.csv", sales(440));
  const auto other = run({"eval", "run", "--data", "newer.csv"});
  ASSERT_EQ(other.code, 0) << other.err;
  EXPECT_EQ(numbers_of(other.out, "mae").size(), 3u);
  EXPECT_TRUE(has(other.out, "samples:         826")) << other.out;  // 2 * (440 - 27)
}

TEST_F(SeriesRuns, PredictGivesTheNextValuesOfEachSeries) {
  write_bytes(at_ / "sales.yaml", kYaml);
  ASSERT_EQ(run({"train", "sales.yaml", "--out", "run"}).code, 0);
  write_bytes(at_ / "next.csv", sales(400, 7));
  const auto forecast = run({"predict", "run", "next.csv"});
  ASSERT_EQ(forecast.code, 0) << forecast.err;
  const std::vector<std::string> lines = [&] {
    std::vector<std::string> out;
    for (size_t i = 0; i < forecast.out.size();) {
      const size_t end = forecast.out.find('\n', i);
      out.push_back(forecast.out.substr(i, end - i));
      i = end + 1;
    }
    return out;
  }();
  ASSERT_EQ(lines.size(), 15u) << forecast.out;
  EXPECT_EQ(lines[0], "store,date,prediction");
  for (int64_t s = 0; s < 2; ++s) {
    for (int64_t h = 0; h < 7; ++h) {
      const int64_t i = 400 + h;
      const data::TimeStep day{.unit = data::StepUnit::kSeconds, .length = 86400};
      const std::string start =
          concat_to_string(kStores[s], ",", day.time_text(double(19'700 + i) * 86400), ",");
      const std::string& line = lines[size_t(1 + 7 * s + h)];
      ASSERT_TRUE(line.starts_with(start)) << line;
      const bool promo = (i * 7 + s * 3) % 11 < 2;
      const double wanted =
          double(s + 1) * (100 + 30 * std::sin(2 * std::numbers::pi * double(i) / 7) +
                           0.1 * double(i) + 40 * promo);
      EXPECT_NEAR(std::stod(line.substr(start.size())), wanted, 25 * double(s + 1)) << line;
    }
  }
  // Without the future of the known column, the message says what is missing.
  const auto refused = run({"predict", "run"});
  EXPECT_EQ(refused.code, kExitInput);
  EXPECT_TRUE(has(refused.err, "sales.csv: series 'Kiel' has 0 rows after its last sales"))
      << refused.err;
}

TEST_F(SeriesRuns, OneLineIsEnough) {
  write_bytes(at_ / "one.csv", "day,y\n2024-01-01,1\n");
  const auto refused =
      run({"train", "one.csv", "time=day", "target=y", "horizon=2", "--out", "run"});
  EXPECT_EQ(refused.code, kExitInput) << refused.err;
  std::string text = "day,y\n";
  const data::TimeStep day{.unit = data::StepUnit::kSeconds, .length = 86400};
  for (int i = 0; i < 120; ++i) {
    text += concat_to_string(day.time_text((19'700.0 + i) * 86400), ",", i % 7, "\n");
  }
  write_bytes(at_ / "one.csv", text);
  const auto trained = run({"train", "one.csv", "time=day", "target=y", "horizon=2",
                            "train.epochs=1", "device=cpu", "--out", "run"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  const std::string yaml = read_bytes(at_ / "run/config.yaml");
  EXPECT_TRUE(has(yaml, "type: series") && has(yaml, "type: forecaster") &&
              has(yaml, "type: huber"))
      << yaml;
  const auto forecast = run({"predict", "run"});
  EXPECT_EQ(forecast.code, 0) << forecast.err;
  EXPECT_TRUE(forecast.out.starts_with("day,prediction\n2024-04-07,")) << forecast.out;
  fs::create_directories(at_ / "empty");
  write_bytes(at_ / "zero.csv", "");
  write_bytes(at_ / "header.csv", "day,y\n");
  write_bytes(at_ / "days.csv", "day\n2024-01-01\n");
  write_bytes(at_ / "short.csv", "day,y\n2024-01-01,1\n");
  write_bytes(at_ / "twice.csv", text + "2024-01-05,3\n");
  const std::pair<const char*, const char*> careless[] = {
      {"empty", "empty: "},
      {"none.csv", "none.csv: "},
      {"zero.csv", "zero.csv: expected rows"},
      {"header.csv", "header.csv:2: expected rows"},
      {"days.csv", "days.csv: no column 'y'"},
      {"short.csv", "short.csv: no series has the "},
      {"twice.csv", "twice.csv:122: column 'day': '2024-01-05' occurs twice"},
  };
  for (const auto& [file, message] : careless) {
    const auto got = run({"predict", "run", file});
    EXPECT_EQ(got.code, kExitInput) << file << got.err;
    EXPECT_TRUE(has(got.err, message)) << got.err;
    EXPECT_EQ(got.out, "") << file;
  }
}

TEST_F(SeriesRuns, OtherModelsAndMetricsFit) {
  for (const std::string model : {"mlp", "{type: mlp, hidden: [16]}",
                                  "{type: sequential, layers: [linear: 8, relu, linear: 7]}"}) {
    write_bytes(at_ / "sales.yaml",
                concat_to_string(kYaml, "model: ", model, "\nmetrics: [mae, rmse, r2, mape]\n"));
    const auto trained = run({"train", "sales.yaml", "train.epochs=1", "--out", "run"});
    EXPECT_EQ(trained.code, 0) << model << trained.err;
    fs::remove_all(at_ / "run");
  }
  write_bytes(at_ / "table.csv", "x,y\n5,2.5\n2,3.5\n9,4.5\n4,1.5\n7,9.5\n");
  const auto refused = run({"train", "table.csv", "target=y", "task=regression", "metrics=[mase]"});
  EXPECT_EQ(refused.code, kExitConfig);
  EXPECT_TRUE(has(refused.err, "mase is for series")) << refused.err;
}

TEST_F(SeriesRuns, ResumeGivesTheSameBits) {
  write_bytes(at_ / "sales.yaml", kYaml);
  const std::vector<std::string> words = {"train", "sales.yaml", "train.epochs=2"};
  auto whole = words, part = words, rest = words;
  whole.insert(whole.end(), {"--out", "whole", "checkpoint.every=3"});
  ASSERT_EQ(run(whole).code, 0);
  fs::path middle;
  for (const auto& entry : fs::directory_iterator(at_ / "whole/checkpoints")) {
    if (!fs::is_symlink(entry.path()) && (middle.empty() || entry.path() < middle))
      middle = entry.path();
  }
  rest.insert(rest.end(), {"--out", "rest", "--resume", middle.string(), "checkpoint.every=3"});
  const auto resumed = run(rest);
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  for (const char* file : {"model.safetensors", "metrics.jsonl"}) {
    EXPECT_TRUE(read_bytes(at_ / "whole" / file) == read_bytes(at_ / "rest" / file)) << file;
  }
}

TEST_F(SeriesRuns, TheEncodingSurvivesJson) {
  data::Series o;
  o.path = {(at_ / "sales.csv").string()};
  o.time = "date";
  o.target = "sales";
  o.series = {"store"};
  o.known = {"promo"};
  o.horizon = 3;
  const data::Splits all = o.load(0);
  const std::string json = to_json(all);
  const DataInfo again = data_info_from_json(json, "data.json");
  EXPECT_EQ(to_json(again), json);
  EXPECT_TRUE(are_same_data(all, again));
  // Damage is an InputError, whatever it is.
  for (size_t i = 0; i < json.size(); i += 7) {
    for (const char c : {'x', '9', '"', '}'}) {
      std::string damaged = json;
      damaged[i] = c;
      try {
        (void)data_info_from_json(damaged, "data.json");
      } catch (const InputError&) {
      }
    }
  }
}

}  // namespace
}  // namespace taper::v0::runner
