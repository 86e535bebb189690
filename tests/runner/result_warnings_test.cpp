// Warnings of a run about results that may be misleading.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/runner/run_process.h"
#include "tests/text.h"

namespace taper::v0::runner {
namespace {

using Words = std::vector<std::string>;

constexpr const char* kTable =
    "device: cpu\n"
    "threads: 1\n"
    "data: {type: csv, path: a.csv, test_path: b.csv, label: y}\n"
    "model: {type: mlp, hidden: [8]}\n"
    "optimizer: {type: sgd, lr: 0.1}\n"
    "train: {epochs: 20, batch_size: 8}\n";

class ResultWarnings : public ::testing::Test {
 protected:
  ResultWarnings() {
    write_bytes(at_ / "run.yaml", kTable);
    std::string a = "x,y\n", b = a, rare = a, values = a, other_values = a;
    for (int i = 0; i < 40; ++i) {
      a += concat_to_string(i, ",", i < 20 ? "low" : "high", "\n");
      b += concat_to_string(i + 0.5, ",", i < 20 ? "low" : "high", "\n");
      rare += concat_to_string(i * 7 % 11, ",", i % 13 == 0 ? "odd" : "usual", "\n");
      values += concat_to_string(i, ",", 1000 + i, "\n");
      other_values += concat_to_string(i + 0.5, ",", 1000.5 + i, "\n");
    }
    write_bytes(at_ / "a.csv", a);
    write_bytes(at_ / "b.csv", b);
    write_bytes(at_ / "copy.csv", a);
    write_bytes(at_ / "rare.csv", rare);
    write_bytes(at_ / "more_rare.csv", rare + "3,usual\n");
    write_bytes(at_ / "values.csv", values);
    write_bytes(at_ / "other_values.csv", other_values);
  }

  RunDirectory at_;
};

TEST_F(ResultWarnings, StandInTheSummaryTheRunsFilesAndTheReport) {
  struct Row {
    Words settings;
    std::string says;  // empty: no warning
  };
  const Row rows[] = {
      {{}, ""},
      {{"optimizer.lr=100", "train.epochs=3"}, "in the first step: the run has diverged"},
      {{"data.test_path=copy.csv"},
       "data.test_path ('copy.csv') has the same content as data.path ('a.csv')"},
      {{"data.path=rare.csv", "data.test_path=more_rare.csv", "train.epochs=3"},
       "the model predicts the class 'usual' for all 41 test samples"},
      {{"data.path=values.csv", "data.test_path=other_values.csv", "data.task=regression",
        "optimizer.lr=1e-9", "train.epochs=1"},
       "below 0: the mean of the targets would predict better"},
  };
  for (const auto& [settings, says] : rows) {
    SCOPED_TRACE(says);
    Words words = {"train", "run.yaml", "--out", "r"};
    words.insert(words.end(), settings.begin(), settings.end());
    const RunDirectory::Outcome end = at_.taper(words);
    ASSERT_EQ(end.code, 0) << end.err;
    const auto exit = nlohmann::json::parse(read_bytes(at_ / "r/exit.json"));
    if (says.empty()) {
      EXPECT_FALSE(contains(end.out, "warning:")) << end.out;
      EXPECT_FALSE(exit.contains("warnings")) << exit;
      continue;
    }
    EXPECT_TRUE(contains(end.out, "warning:         ") && contains(end.out, says)) << end.out;
    EXPECT_TRUE(contains(end.err, says)) << end.err;
    EXPECT_TRUE(contains(exit["warnings"].dump(), says)) << exit;
    ASSERT_EQ(at_.taper({"report", "r"}).code, 0);
    EXPECT_TRUE(contains(read_bytes(at_ / "report.html"), "\"warnings\":[\""));
  }
}

TEST_F(ResultWarnings, AnEvaluationSaysThemToo) {
  ASSERT_EQ(at_.taper({"train", "run.yaml", "data.path=rare.csv", "data.test_path=more_rare.csv",
                       "train.epochs=3", "--out", "r"})
                .code,
            0);
  const RunDirectory::Outcome end = at_.taper({"eval", "r"});
  EXPECT_TRUE(contains(end.out, "warning:         the model predicts the class 'usual'"))
      << end.out;
}

}  // namespace
}  // namespace taper::v0::runner
