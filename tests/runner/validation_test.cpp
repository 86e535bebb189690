// Runs whose data have a validation part: it chooses the weights to save, and the test part is
// measured once, with these weights.
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "apps/runner/base/string_utils.h"
#include "apps/runner/commands/commands.h"
#include "apps/runner/components/tables.h"
#include "apps/runner/gate/gate.h"
#include "apps/runner/train/train.h"
#include "apps/runner/train/validate.h"
#include "data/images/digits.h"
#include "data/split.h"
#include "tests/runner/run_process.h"
#include "tests/text.h"

namespace taper::v0::runner {
namespace {

using Json = nlohmann::json;

// The generated digits in three parts.
struct ThreeParts {
  int64_t validation_size = 50;
  template <class V> void describe(V& v) {
    v("validation_size", validation_size, kCount, "number of validation images");
  }
  data::Splits load(uint64_t seed) const {
    data::Splits out = data::Digits{.train_size = 150, .test_size = 40}.load(seed);
    const double rest = double(out.train->size() - validation_size);
    const auto parts = data::random_split(out.train, {rest, double(validation_size)}, seed);
    out.train = parts[0];
    out.validation = parts[1];
    return out;
  }
};

struct Evaluations : Observer {
  void on_eval(int64_t step, const std::string& split, const Metrics&) override {
    seen.push_back(concat_to_string(split, " ", step));
  }
  std::vector<std::string> seen;
};

class ValidationPart : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { register_data<ThreeParts>("three_parts_of_digits"); }

  // The learning rate is so large at the end that the last weights are not the best.
  RunConfig config(std::vector<std::string> more = {}) const {
    write_bytes(at_ / "parts.yaml",
                "device: cpu\n"
                "threads: 1\n"
                "data: {type: three_parts_of_digits}\n"
                "model: {type: mlp, hidden: [16]}\n"
                "optimizer: {type: sgd, lr: 0.1}\n"
                "schedule: {type: step, per: epoch, step_size: 3, gamma: 100}\n"
                "train: {epochs: 4, batch_size: 50, eval_batch_size: 16}\n");
    return load_config(at_ / "parts.yaml", more);
  }
  std::vector<Json> evaluations(const std::string& run) const {
    std::vector<Json> out;
    for (const std::string& line : lines_of(read_bytes(at_ / run / "metrics.jsonl"))) {
      Json row = Json::parse(line);
      if (row["kind"] == "eval") out.push_back(std::move(row));
    }
    return out;
  }

  RunDirectory at_;
};

TEST_F(ValidationPart, ChoosesTheWeightsAndTheTestPartIsMeasuredOnce) {
  Evaluations observer;
  const TrainResult result = train(config(), at_ / "r", {.observer = &observer});
  EXPECT_EQ(result.steps, 8);
  EXPECT_EQ(result.evaluated_on, "validation");
  EXPECT_EQ(result.saved_step, result.best_step);
  EXPECT_LT(result.saved_step, result.steps) << "the last weights are the best";
  EXPECT_EQ(observer.seen, (std::vector<std::string>{
                               "validation 2", "validation 4", "validation 6", "validation 8",
                               concat_to_string("test ", result.saved_step)}));
  const std::vector<Json> rows = evaluations("r");
  ASSERT_EQ(rows.size(), 5u);
  EXPECT_EQ(rows[3]["split"], "validation");
  EXPECT_EQ(rows[4]["split"], "test");
  EXPECT_EQ(rows[4]["step"], result.saved_step);
  EXPECT_EQ(rows[4]["loss"].get<double>(), result.test_metrics["loss"]);
  EXPECT_NE(result.test_metrics["loss"], result.saved_metrics["loss"]);
}

TEST_F(ValidationPart, TheTestIsThatOfTheSavedWeights) {
  const TrainResult result = train(config(), at_ / "r");
  const std::string text = evaluate_run(open_run(at_ / "r", {}), "");
  EXPECT_TRUE(contains(text, to_text(result.test_metrics, "test", {}))) << text;
  EXPECT_TRUE(contains(text, "samples:         40\n")) << text;
}

TEST_F(ValidationPart, AResumedRunHasTheSameNumbers) {
  train(config(), at_ / "whole");
  train(config(), at_ / "parts", {.stop_at = 4});
  EXPECT_EQ(evaluations("parts").back()["split"], "test");
  train(config(), at_ / "parts", {.resume = "auto"});
  EXPECT_EQ(read_bytes(at_ / "parts/metrics.jsonl"), read_bytes(at_ / "whole/metrics.jsonl"));
  EXPECT_EQ(read_bytes(at_ / "parts/model.safetensors"),
            read_bytes(at_ / "whole/model.safetensors"));
}

TEST_F(ValidationPart, MayBeTheGoalOfEarlyStopping) {
  const TrainResult result =
      train(config({"train.epochs=40", "train.early_stopping={patience: 1}"}), at_ / "r");
  EXPECT_EQ(result.reason, "early stopping");
  EXPECT_EQ(result.saved_step, result.best_step);
  EXPECT_FALSE(result.test_metrics.values.empty());
}

TEST_F(ValidationPart, ItsMetricsHaveTolerances) {
  EXPECT_EQ(parse_tolerances({"validation.loss=1e-3"}).at("validation.loss"), 1e-3);
}

// Each part has a last batch of its own, and memory for all parts is counted.
TEST_F(ValidationPart, IsPartOfWhatTheValidationOfAConfigReports) {
  const std::string text = validate(config());
  EXPECT_TRUE(contains(text, "of 100 training, 50 validation and 40 test samples")) << text;
}

}  // namespace
}  // namespace taper::v0::runner
