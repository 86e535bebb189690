// The details of an evaluation, compared with their definitions and with the metrics of the run.
#include "apps/runner/evaluation/class_details.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "autograd/ops/binary_ops.h"
#include "autograd/ops/reduce_ops.h"
#include "autograd/ops/shape_ops.h"
#include "autograd/ops/unary_ops.h"
#include "data/images/image_files.h"
#include "framework/factory/factories.h"
#include "framework/factory/generator.h"
#include "tests/runner/run_process.h"
#include "tests/testing.h"
#include "tests/text.h"

namespace taper::v0::runner {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Words = std::vector<std::string>;

DataInfo classes_of(int64_t n) {
  DataInfo info;
  info.outputs = n;
  return info;
}

Json details_of(const DataInfo& info, const Tensor& probabilities, const Tensor& targets,
                const Tensor& weights = {}) {
  const ClassDetails details(info);
  return Json::parse(details.to_json(details.sums_of(probabilities, targets, weights)));
}

TEST(ClassDetails, TwoClassesAgainstTheirDefinition) {
  // Sorted by the probability of class 1, the targets are 0 0 1 0 1 1: of nine pairs, eight are in
  // the right order.
  const Tensor p1 = tensor({0.1, 0.2, 0.3, 0.4, 0.8, 0.9});
  const Tensor p = stack({1 - p1, p1}, 1);
  const Tensor y = tensor({0, 0, 1, 0, 1, 1}).to(kInt64);
  const Json out = details_of(classes_of(2), p, y);
  EXPECT_EQ(out["samples"], 6);
  EXPECT_EQ(out["confusion"]["rows"], Json({{3, 0}, {1, 2}}));
  EXPECT_EQ(out["confusion"]["classes"], Json({{3, 4, 3}, {3, 2, 2}}));
  ASSERT_EQ(out["roc"].size(), 1u) << "the curve of class 0 is the same one";
  EXPECT_EQ(out["roc"][0]["class"], 1);
  EXPECT_NEAR(out["roc"][0]["auc"], 8 / 9., 1e-5);
  EXPECT_EQ(out["roc"][0]["points"].front(), Json({0, 0}));
  EXPECT_EQ(out["roc"][0]["points"].back(), Json({1, 1}));
  // Each confidence has a bin of its own except 0.9, which occurs twice.
  double error = 0;
  for (const auto& [confidence, hit] : std::vector<std::pair<double, double>>{
           {0.9, 1}, {0.8, 1}, {0.7, 0}, {0.6, 1}, {0.8, 1}, {0.9, 1}}) {
    error += std::abs(confidence - hit) / 6;
  }
  EXPECT_NEAR(out["calibration"]["error"], error, 1e-5);
  EXPECT_EQ(out["calibration"]["bins"].size(), 4u);
}

TEST(ClassDetails, AThresholdDecidesAndLeavesTheCurves) {
  DataInfo info = classes_of(2);
  const Tensor p1 = tensor({0.1, 0.2, 0.3, 0.4, 0.8, 0.9});
  const Tensor p = stack({1 - p1, p1}, 1), y = tensor({0, 0, 1, 0, 1, 1}).to(kInt64);
  const Json plain = details_of(info, p, y);
  info.thresholds = {0.3};
  const Json decided = details_of(info, p, y);
  EXPECT_EQ(decided["confusion"]["rows"], Json({{2, 1}, {0, 3}}));
  EXPECT_EQ(decided["roc"], plain["roc"]);
  EXPECT_EQ(decided["calibration"], plain["calibration"]);
}

TEST(ClassDetails, LabelsAreCountedOneByOne) {
  DataInfo info = classes_of(2);
  info.labels = {{"a", {"no", "yes"}}, {"b", {"no", "yes"}}};
  const Tensor p = tensor({{0.9F, 0.2F}, {0.6F, 0.7F}, {0.1F, 0.4F}});
  const Tensor y = tensor({{1.F, 0.F}, {0.F, 1.F}, {0.F, 1.F}});
  const Json out = details_of(info, p, y);
  EXPECT_EQ(out["confusion"], Json({{"classes", {{1, 2, 1}, {2, 1, 1}}}}));
  ASSERT_EQ(out["roc"].size(), 2u);
  EXPECT_NEAR(out["roc"][0]["auc"], 1, 1e-6);
  EXPECT_NEAR(out["roc"][1]["auc"], 1, 1e-6);
}

TEST(ClassDetails, WeightsCountInCurvesAndBatchesAddUp) {
  Generator generator(3);
  constexpr int64_t kRows = 400, kClasses = 5;
  const DataInfo info = classes_of(kClasses);
  const Tensor p = softmax(randn({kRows, kClasses}, {}, &generator) * 2, 1);
  const Tensor y = randint(0, kClasses, {kRows}, {.dtype = kInt64}, &generator);
  const Tensor w = tensor({2.F}).expand({kRows});
  const ClassDetails details(info);
  std::vector<double> whole = details.sums_of(p, y, {});
  std::vector<double> parts(whole.size());
  for (int64_t first = 0; first < kRows; first += 150) {
    const int64_t n = std::min<int64_t>(150, kRows - first);
    const auto part = details.sums_of(p.narrow(0, first, n), y.narrow(0, first, n), {});
    for (size_t i = 0; i < part.size(); ++i) parts[i] += part[i];
  }
  const Json expected = Json::parse(details.to_json(whole));
  EXPECT_EQ(Json::parse(details.to_json(parts)), expected);
  EXPECT_EQ(details_of(info, p, y, w), expected) << "equal weights change nothing";
  // A weight of 0 removes a sample from the curves.
  Tensor some = full({kRows}, 1);
  some.narrow(0, 200, 200).fill_(0);
  const Json weighted = details_of(info, p, y, some);
  const Json half = details_of(info, p.narrow(0, 0, 200), y.narrow(0, 0, 200));
  EXPECT_EQ(weighted["roc"], half["roc"]);
  EXPECT_EQ(weighted["calibration"], half["calibration"]);
}

TEST(ClassDetails, TheSizeIsBounded) {
  struct Row {
    int64_t classes;
    bool has_rows, has_pairs, has_roc;
  };
  Generator generator(4);
  for (const Row& row :
       {Row{50, true, false, true}, Row{100, true, false, false}, Row{101, false, true, false},
        Row{201, false, false, false}, Row{1000, false, false, false}}) {
    SCOPED_TRACE(row.classes);
    const Tensor p = softmax(randn({500, row.classes}, {}, &generator), 1);
    const Tensor y = randint(0, row.classes, {500}, {.dtype = kInt64}, &generator);
    const Json out = details_of(classes_of(row.classes), p, y);
    EXPECT_EQ(out["confusion"].contains("rows"), row.has_rows);
    EXPECT_EQ(out["confusion"].contains("pairs"), row.has_pairs);
    EXPECT_EQ(out.contains("roc"), row.has_roc);
    EXPECT_EQ(out["confusion"]["classes"].size(), size_t(row.classes));
    EXPECT_LT(out.dump().size(), 150'000u);
  }
  EXPECT_FALSE(ClassDetails::fits(classes_of(1001)));
  DataInfo values = classes_of(1);
  values.task = Task::kRegression;
  EXPECT_FALSE(ClassDetails::fits(values));
}

TEST(ClassDetails, ExtremeProbabilitiesAreCounted) {
  const float nan = std::nanf("");
  const Tensor p = tensor({{1.F, 0.F}, {0.F, 1.F}, {nan, nan}, {1e-38F, 1.F}});
  const Json out = details_of(classes_of(2), p, tensor({0, 1, 0, 1}).to(kInt64));
  EXPECT_EQ(out["samples"], 4);
  EXPECT_NEAR(out["roc"][0]["auc"], 1, 1e-6);
  const Json one = details_of(classes_of(2), p.narrow(0, 0, 1), tensor({0}).to(kInt64));
  EXPECT_EQ(one["roc"], Json::array()) << "a class without samples has no curve";
}

// --- whole runs ---

class EvaluationOfRun : public ::testing::Test {
 protected:
  EvaluationOfRun() {
    write_bytes(at_ / "digits.yaml",
                "device: cpu\nthreads: 1\n"
                "data: {type: digits, train_size: 400, test_size: 150}\n"
                "model: {type: mlp, hidden: [32]}\noptimizer: {type: adamw, lr: 5e-3}\n"
                "train: {epochs: 2, batch_size: 50}\n"
                "metrics: [accuracy, auc, calibration_error, confusion]\n");
    std::string rows = "a,b,kind,price\n";
    for (int i = 0; i < 200; ++i) {
      rows += concat_to_string(i % 7, ",", i * 37 % 11, ",", i % 7 + i * 37 % 11 > 7 ? "yes" : "no",
                               ",", i * 37 % 101 * 100 + 5, "\n");
    }
    write_bytes(at_ / "rows.csv", rows);
    std::string texts;
    for (int i = 0; i < 120; ++i) {
      texts += concat_to_string(i % 2 ? "a good <b>film</b> " : "a bad film ", i, "\t",
                                i % 2 ? "good" : "bad", "\n");
    }
    write_bytes(at_ / "texts.tsv", "text\tlabel\n" + texts);
  }
  Json trained(const Words& words) const {
    Words all = {"train"};
    all.insert(all.end(), words.begin(), words.end());
    all.insert(all.end(), {"--out", "r"});
    fs::remove_all(at_ / "r");
    const RunDirectory::Outcome end = at_.taper(all);
    EXPECT_EQ(end.code, 0) << end.err;
    return Json::parse(read_bytes(at_ / "r/evaluation.json"));
  }
  // Returns the last line of an evaluation on that part.
  Json last_metrics(const std::string& split) const {
    Json out;
    std::istringstream in(read_bytes(at_ / "r/metrics.jsonl"));
    for (std::string line; std::getline(in, line);) {
      const Json row = Json::parse(line);
      if (row.value("split", "") == split) out = row;
    }
    return out;
  }

  RunDirectory at_;
};

TEST_F(EvaluationOfRun, DetailsAreThoseOfTheMetrics) {
  struct Row {
    const char* name;
    Words settings;
    int64_t step;
  };
  // Evaluations are of the saved weights, whether these are the last ones or not.
  const Row rows[] = {
      {"last weights", {}, 16},
      {"averaged weights", {"train.ema={decay: 0.9}"}, 16},
      {"stopped", {"--stop-after-steps", "5"}, 5},
      {"best weights", {"train.best={metric: loss}", "train.eval_every=4", "optimizer.lr=0.3"}, -1},
      {"random batches", {"train.eval_batches=1", "train.eval_batch_size=50"}, 16}};
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    Words words = {"digits.yaml"};
    words.insert(words.end(), row.settings.begin(), row.settings.end());
    const Json out = trained(words);
    const Json exit = Json::parse(read_bytes(at_ / "r/exit.json"));
    EXPECT_EQ(out["split"], "test");
    EXPECT_EQ(out["step"], exit["model_step"]);
    if (row.step >= 0) {
      EXPECT_EQ(out["step"], row.step);
    }
    if (row.name == std::string("random batches")) continue;
    Json metrics;
    std::istringstream in(read_bytes(at_ / "r/metrics.jsonl"));
    for (std::string line; std::getline(in, line);) {
      const Json each = Json::parse(line);
      if (each["kind"] == "eval" && each["step"] == out["step"]) metrics = each;
    }
    EXPECT_EQ(out["samples"], 150);
    EXPECT_EQ(out["confusion"]["rows"], metrics["confusion"]);
    EXPECT_NEAR(out["calibration"]["error"], metrics["calibration_error"].get<double>(), 1e-5);
    double auc = 0;
    for (const Json& curve : out["roc"]) auc += curve["auc"].get<double>() / 10;
    EXPECT_NEAR(auc, metrics["auc"].get<double>(), 1e-3);
  }
}

TEST_F(EvaluationOfRun, PicturesShowTheErrorsFirst) {
  const Json out = trained({"digits.yaml"})["predictions"];
  EXPECT_EQ(out["samples"], 150);
  EXPECT_EQ(out["picture"],
            Json({{"width", 28}, {"height", 28}, {"channels", 1}, {"is_stretched", false}}));
  ASSERT_EQ(out["examples"].size(), 16u);
  bool was_hit = false;
  double confidence = 1;
  for (const Json& example : out["examples"]) {
    const bool is_hit = example["true"] == example["predicted"];
    EXPECT_EQ(example["is_hit"], is_hit);
    EXPECT_TRUE(is_hit || !was_hit) << "errors come first";
    was_hit = is_hit;
    EXPECT_EQ(example["pixels"].get<std::string>().size(), (28 * 28 + 2) / 3 * 4u);
    EXPECT_EQ(example["probabilities"].size(), 3u);
    EXPECT_EQ(example["probabilities"][0][0], example["predicted"]);
    if (is_hit) continue;
    EXPECT_LE(example["probabilities"][0][1], confidence);
    confidence = example["probabilities"][0][1];
  }
}

TEST_F(EvaluationOfRun, TablesHaveCurvesOrPoints) {
  const Json classes = trained(
      {"rows.csv", "target=kind", "train.epochs=3", "device=cpu", "columns={price: ignore}"});
  EXPECT_EQ(classes["split"], "test");
  EXPECT_EQ(classes["roc"].size(), 1u);
  EXPECT_FALSE(classes["predictions"]["examples"].empty());
  EXPECT_EQ(classes["step"], Json::parse(read_bytes(at_ / "r/exit.json"))["model_step"]);
  EXPECT_EQ(classes["samples"], classes["predictions"]["samples"]);
  const Json values = trained({"rows.csv", "target=price", "task=regression", "train.epochs=30",
                               "device=cpu", "metrics=[mae]"});
  EXPECT_FALSE(values.contains("roc"));
  const Json& points = values["predictions"]["values"][0]["points"];
  double error = 0;
  for (const Json& point : points) {
    EXPECT_EQ(int64_t(std::llround(point[0].get<double>())) % 100, 5) << "in the unit of the data";
    error += std::abs(point[0].get<double>() - point[1].get<double>()) / double(points.size());
  }
  EXPECT_NEAR(error, last_metrics("test")["mae"].get<double>(), 1e-2 + error * 1e-3);
}

TEST_F(EvaluationOfRun, TextsAreShownAsTexts) {
  const Json out = trained(
      {"texts.tsv", "text=text", "target=label", "train.epochs=2", "device=cpu"})["predictions"];
  ASSERT_FALSE(out["examples"].empty());
  for (const Json& example : out["examples"]) {
    EXPECT_TRUE(contains(example["text"].get<std::string>(), "film")) << example;
    EXPECT_FALSE(contains(example["text"].get<std::string>(), "<pad>")) << example;
  }
}

TEST_F(EvaluationOfRun, ARunThatGoesOnReplacesIt) {
  EXPECT_EQ(trained({"digits.yaml", "--stop-after-steps", "3"})["step"], 3);
  ASSERT_EQ(at_.taper({"verify", "r"}).code, 0);
  const std::string listed = read_bytes(at_ / "r/CRC32");
  EXPECT_TRUE(contains(listed, "evaluation.json")) << listed;
  ASSERT_EQ(at_.taper({"train", "digits.yaml", "--out", "r", "--resume", "auto"}).code, 0);
  EXPECT_EQ(Json::parse(read_bytes(at_ / "r/evaluation.json"))["step"], 16);
  write_bytes(at_ / "r/evaluation.json", "{}");
  EXPECT_NE(at_.taper({"report", "r"}).code, 0) << "a file that was changed is named";
}

}  // namespace
}  // namespace taper::v0::runner
