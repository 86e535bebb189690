// Losses of runs against PyTorch's values, and the advice for targets that they do not take.
#include <cstdio>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "apps/runner/base/errors.h"
#include "apps/runner/components/components.h"
#include "apps/runner/settings/run_config.h"
#include "autograd/ops/unary_ops.h"
#include "framework/factory/factories.h"
#include "tests/runner/run_process.h"
#include "tests/testing.h"
#include "tests/text.h"

namespace taper::v0::runner {
namespace {

const LossSite kClasses = {.task = Task::kClassification};
const LossSite kLabels = {.task = Task::kClassification, .is_multi_label = true};
const LossSite kValues = {.task = Task::kRegression};

struct Setting {
  std::string key, value;
};

// Returns a loss of the table with some options set.
Component component(const std::string& name, const std::vector<Setting>& settings) {
  Component loss = losses().component(name);
  Schema schema = loss.schema();
  for (const Setting& setting : settings) {
    for (const Field& field : schema.fields) {
      if (field.name == setting.key) read_word(field, setting.value);
    }
  }
  return loss;
}

Tensor scores() { return tensor({{1.0, -1.0, 0.5}, {0.0, 2.0, -0.5}}); }
Tensor labels() { return tensor({{1.0, 0.0, 0.0}, {0.0, 0.0, 1.0}}); }

struct Case {
  const char* name;
  std::vector<Setting> options;
  LossSite site;
  Tensor x, y;
  double mean;  // PyTorch's value
};

std::vector<Case> cases() {
  const Tensor classes = tensor({0, 2});
  const Tensor outputs = tensor({{3.0}, {0.0}}), counts = tensor({4.0, 1.0});
  LossSite weighted = kClasses;
  weighted.class_weights = {1, 2, 3};
  return {
      {"multi_margin", {}, kClasses, scores(), classes, 0.9166666269302368},
      {"multi_margin",
       {{"p", "2"}, {"margin", "0.5"}},
       kClasses,
       scores(),
       classes,
       1.6666666269302368},
      {"multi_margin", {}, weighted, scores(), classes, 2.5833332538604736},
      {"soft_margin", {}, kClasses, scores(), classes, 0.8991255164146423},
      {"soft_margin", {}, kLabels, scores(), labels(), 0.8991255164146423},
      {"multilabel_soft_margin", {}, kLabels, scores(), labels(), 0.8991255164146423},
      {"multilabel_margin", {}, kLabels, scores(), labels(), 0.9166666269302368},
      {"poisson_nll", {}, kValues, outputs, counts, 4.542768478393555},
      {"poisson_nll", {{"full", "true"}}, kValues, outputs, counts, 6.121399879455566},
      {"poisson_nll",
       {{"log_input", "false"}, {"eps", "0.1"}},
       kValues,
       outputs,
       counts,
       0.3884885311126709},
  };
}

TEST(RunLosses, HaveTheValuesOfPyTorch) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(concat_to_string(c.name, " with ", c.options.size(), " options, ", c.mean));
    const Loss loss = losses().make(component(c.name, c.options), c.site);
    ASSERT_TRUE(loss.value);
    for (const Device device : test::all_devices()) {
      LossSite site = c.site;
      site.device = device;
      const Loss there = losses().make(component(c.name, c.options), site);
      const Tensor mean = there(c.x.to(device), c.y.to(device), Reduction::kMean);
      EXPECT_NEAR(mean.item<double>(), c.mean, 1e-6);
    }
    // run_mean_loss() weights the loss of each sample, and needs one value or one row for each.
    EXPECT_EQ(loss(c.x, c.y, Reduction::kNone).size(0), 2);
  }
}

TEST(RunLosses, TurnOutputsIntoProbabilitiesAndCounts) {
  const auto prediction = [](const char* name, const std::vector<Setting>& options,
                             const LossSite& site) {
    return losses().make(component(name, options), site).prediction(scores());
  };
  EXPECT_TRUE(test::same_bits(prediction("poisson_nll", {}, kValues), exp(scores())));
  EXPECT_TRUE(
      test::same_bits(prediction("poisson_nll", {{"log_input", "false"}}, kValues), scores()));
  EXPECT_TRUE(test::same_bits(prediction("multilabel_margin", {}, kLabels), sigmoid(scores())));
  const Tensor classes = prediction("multi_margin", {}, kClasses);
  EXPECT_NEAR(classes.sum().item<double>(), 2, 1e-6);
}

TEST(RunLosses, FitTheirTasks) {
  const auto fits_tasks = [](const char* name) {
    const Component c = losses().component(name);
    return std::vector<bool>{fits(c, Task::kClassification), fits(c, Task::kClassification, true),
                             fits(c, Task::kRegression), fits(c, Task::kLanguage)};
  };
  using Fits = std::vector<bool>;
  EXPECT_EQ(fits_tasks("multi_margin"), (Fits{true, false, false, false}));
  EXPECT_EQ(fits_tasks("soft_margin"), (Fits{true, true, false, false}));
  EXPECT_EQ(fits_tasks("multilabel_margin"), (Fits{false, true, false, false}));
  EXPECT_EQ(fits_tasks("multilabel_soft_margin"), (Fits{false, true, false, false}));
  EXPECT_EQ(fits_tasks("poisson_nll"), (Fits{false, false, true, false}));
}

// The evaluations of a table report counts in the unit of the data, and the predictions are counts.
TEST(RunLosses, TrainOnCountsOfATable) {
  const RunDirectory at;
  std::string text = "x,count\n";
  for (int i = 0; i < 200; ++i) text += concat_to_string(i % 10, ",", i % 10 < 5 ? 2 : 7, "\n");
  write_bytes(at / "t.csv", text);
  const auto train = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"train",           "t.csv",           "target=count",
                                      "task=regression", "train.epochs=30", "metrics=[mae]",
                                      "loss=poisson_nll"};
    words.insert(words.end(), more.begin(), more.end());
    return at.taper(words);
  };
  const auto scaled = train({"--out", "scaled"});
  EXPECT_EQ(scaled.code, 2) << scaled.err;
  EXPECT_TRUE(contains(scaled.err, "the targets are scaled; set data.scale_target: false"))
      << scaled.err;
  const auto trained = train({"scale_target=false", "--out", "r"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  write_bytes(at / "new.csv", "x\n1\n8\n");
  const auto predicted = at.taper({"predict", "r", "new.csv"});
  EXPECT_EQ(predicted.code, 0) << predicted.err;
  double low = 0, high = 0;
  ASSERT_EQ(std::sscanf(predicted.out.c_str(), "prediction\n%lf\n%lf", &low, &high), 2)
      << predicted.out;
  EXPECT_NEAR(low, 2, 1);
  EXPECT_NEAR(high, 7, 1.5);
}

TEST(RunLosses, OfSeveralLabelsAreNotForOneTarget) {
  RunConfig config = load_config_text(
      "{data: {type: digits}, model: {type: mlp}, loss: multilabel_margin, train: {steps: 1}}");
  DataInfo data;
  data.outputs = 2;
  EXPECT_THROW(require_fit(config, data), ConfigError);
  data.labels = {{"a", {"no", "yes"}}, {"b", {"no", "yes"}}};
  EXPECT_NO_THROW(require_fit(config, data));
  config.loss = losses().component("multi_margin");
  EXPECT_THROW(require_fit(config, data), ConfigError);
  data.labels.clear();
  data.class_weights = {1, 2};
  EXPECT_NO_THROW(require_fit(config, data));
}

TEST(RunLosses, RefuseTargetsThatAreNoCounts) {
  const Component config = component("poisson_nll", {});
  const Loss loss = losses().make(config, kValues);
  EXPECT_TRUE(test::refuses<ConfigError>(
      [&] { return run_loss(loss, config, tensor({{1.0}}), tensor({-0.5}), Reduction::kMean); },
      "loss 'poisson_nll': poisson_nll takes counts, which are at least 0, but a target is -0.5"));
}

}  // namespace
}  // namespace taper::v0::runner
