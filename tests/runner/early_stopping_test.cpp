// Early stopping on one or several metrics, and its counter in checkpoints.
#include <csignal>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "apps/runner/settings/run_config.h"
#include "apps/runner/train/state.h"
#include "tests/runner/run_process.h"
#include "tests/text.h"

namespace taper::v0::runner {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(EarlyStopping, StopsWhenNoMetricImproves) {
  struct Row {
    const char* what;
    EarlyStoppingConfig config;
    std::vector<std::pair<double, double>> evaluations;  // loss, accuracy
    size_t stops_after;                                  // 0: it does not
  };
  const auto config = [](std::vector<std::string> also, int64_t patience, int64_t start_after) {
    EarlyStoppingConfig out;
    out.also = std::move(also);
    out.patience = patience;
    out.start_after = start_after;
    return out;
  };
  const Row rows[] = {
      {"one metric", config({}, 2, 0), {{3, .5}, {2, .5}, {2, .6}, {2, .7}}, 4},
      {"the other metric improves",
       config({"accuracy"}, 2, 0),
       {{3, .5}, {3, .6}, {4, .7}, {4, .8}},
       0},
      {"neither improves", config({"accuracy"}, 2, 0), {{3, .5}, {3, .6}, {4, .6}, {4, .5}}, 4},
      {"an improvement resets the counter",
       config({"accuracy"}, 2, 0),
       {{3, .5}, {4, .4}, {2, .4}, {4, .4}, {4, .4}},
       5},
      {"NaN does not improve", config({"accuracy"}, 1, 0), {{3, .5}, {kNan, kNan}}, 2},
      {"evaluations that do not count",
       config({}, 2, 4),
       {{1, 0}, {2, 0}, {3, 0}, {4, 0}, {5, 0}, {6, 0}},
       6},
      {"the best value counts from the start", config({}, 1, 2), {{1, 0}, {5, 0}, {2, 0}}, 3},
      {"patience of one", config({}, 1, 0), {{1, 0}, {1, 0}}, 2},
  };
  for (const Row& row : rows) {
    RunState state;
    size_t stopped = 0;
    for (size_t i = 0; i < row.evaluations.size() && stopped == 0; ++i) {
      state.step = int64_t(i) + 1;
      state.metrics.values = {{"loss", row.evaluations[i].first},
                              {"accuracy", row.evaluations[i].second}};
      if (state.update_stopping(row.config)) stopped = i + 1;
      // The counter survives a checkpoint after any evaluation.
      state.metrics.values.clear();
      state = state_from_json(to_json(state), 100);
    }
    EXPECT_EQ(stopped, row.stops_after) << row.what;
  }
}

TEST(EarlyStopping, ReadsTheStateOfOlderVersions) {
  RunState state;
  state.step = 3;
  state.stopping = {{.value = 0.5, .step = 2, .misses = 1}};
  std::string text = to_json(state);
  for (const std::string line : {"  \"early_stopping_also\": [],\n", "  \"evaluations\": 0,\n"}) {
    ASSERT_TRUE(contains(text, line)) << text;
    text.erase(text.find(line), line.size());
  }
  const RunState read = state_from_json(text, 100);
  ASSERT_EQ(read.stopping.size(), 1u);
  EXPECT_EQ(read.stopping[0].misses, 1);
}

TEST(EarlyStopping, NamesMetricsThatAreNotMeasured) {
  const std::string head = "data: {type: digits}\nmetrics: [accuracy]\n";
  const auto load = [&](const std::string& also) {
    return load_config_text(head + "train: {epochs: 2, early_stopping: {also: " + also + "}}");
  };
  EXPECT_EQ(load("[accuracy, loss]").train.early_stopping->also.size(), 2u);
  EXPECT_EQ(load("accuracy").train.early_stopping->also.size(), 1u);
  for (const char* also : {"top5", "[accuracy, top5]"}) {
    try {
      load(also);
      ADD_FAILURE() << also;
    } catch (const ConfigError& error) {
      EXPECT_TRUE(contains(error.what(), "train.early_stopping.also: is not measured"))
          << error.what();
    }
  }
}

}  // namespace
}  // namespace taper::v0::runner
