// Metrics compared with their formulas in double precision.
#include "apps/runner/run/evaluate.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

#include "apps/runner/base/errors.h"
#include "apps/runner/base/string_utils.h"
#include "apps/runner/components/components.h"
#include "apps/runner/train/train.h"
#include "autograd/ops/binary_ops.h"
#include "autograd/ops/index/index_ops.h"
#include "autograd/ops/unary_ops.h"
#include "framework/factory/factories.h"
#include "framework/factory/generator.h"
#include "modules/layers/linear.h"
#include "modules/models/gpt.h"
#include "tests/data_files.h"
#include "tests/testing.h"

namespace taper::v0::runner {
namespace {

RunConfig config_with(const std::string& loss, std::vector<std::string> metrics) {
  RunConfig config;
  config.loss = losses().component(loss);
  config.metrics = std::move(metrics);
  return config;
}

// Returns the metrics of batches of three rows.
Metrics measured(const RunConfig& config, const DataInfo& info, const Tensor& outputs,
                 const Tensor& targets, Device device) {
  Evaluator evaluator(config, info, device);
  for (int64_t first = 0; first < outputs.size(0); first += 3) {
    const int64_t count = std::min<int64_t>(3, outputs.size(0) - first);
    evaluator.add(outputs.narrow(0, first, count).to(device),
                  targets.narrow(0, first, count).to(device));
  }
  return evaluator.read();
}

double negative_log_softmax(const std::vector<float>& x, size_t row, size_t C, size_t target) {
  double sum = 0;
  for (size_t c = 0; c < C; ++c) sum += std::exp(double(x[row * C + c]));
  return std::log(sum) - double(x[row * C + target]);
}

TEST(Evaluate, ClassesAgainstTheirDefinition) {
  constexpr int64_t kRows = 11, kClasses = 7;
  DataInfo info;
  info.outputs = kClasses;
  Generator generator(5);
  const Tensor outputs = randn({kRows, kClasses}, {}, &generator);
  const Tensor targets = randint(0, kClasses, {kRows}, {.dtype = kInt64}, &generator);
  const std::vector<float> x = outputs.to_floats();
  double loss = 0, right = 0, top5 = 0;
  std::vector<std::vector<int64_t>> confusion(kClasses, std::vector<int64_t>(kClasses));
  for (size_t i = 0; i < kRows; ++i) {
    const size_t y = size_t(targets[int64_t(i)].item<int64_t>());
    const float* row = &x[i * kClasses];
    loss += negative_log_softmax(x, i, kClasses, y);
    const auto best = size_t(std::max_element(row, row + kClasses) - row);
    right += best == y;
    top5 += std::count_if(row, row + kClasses, [&](float v) { return v > row[y]; }) < 5;
    ++confusion[y][best];
  }
  RunConfig smoothed = config_with("cross_entropy", {"top5", "accuracy", "confusion"});
  read_word(smoothed.loss.schema().fields.at(0), "0.3");  // sets label_smoothing
  for (const Device device : test::all_devices()) {
    const Metrics m = measured(smoothed, info, outputs, targets, device);
    ASSERT_EQ(m.values.size(), 3u);
    EXPECT_EQ(m.values[0].first, "loss");
    EXPECT_EQ(m.values[1].first, "top5");
    EXPECT_NEAR(m["loss"], loss / kRows, 1e-6);
    EXPECT_EQ(m["accuracy"], right / kRows);
    EXPECT_EQ(m["top5"], top5 / kRows);
    EXPECT_EQ(m.confusion, confusion);
    EXPECT_THROW((void)m["mae"], ConfigError);
  }
}

// A metric that keeps a row for each sample, among others, in batches of different sizes. On
// several ranks the batches are filled up with rows that do not count.
TEST(Evaluate, MetricsThatKeepEverySampleAreExact) {
  DataInfo info;
  info.outputs = 2;
  Generator generator(6);
  const Tensor outputs = randn({11, 2}, {}, &generator);
  const Tensor targets = randint(0, 2, {11}, {.dtype = kInt64}, &generator);
  const RunConfig config =
      config_with("cross_entropy", {"pr_auc", "accuracy", "auc", "confusion", "log_loss"});
  data::Meter roc(data::auc()), ap(data::average_precision()), loss(data::log_loss());
  for (data::Meter* each : {&roc, &ap, &loss}) each->update(outputs, targets);
  for (const Device device : test::all_devices()) {
    const Metrics m = measured(config, info, outputs, targets, device);
    EXPECT_EQ(m["auc"], roc.value());
    EXPECT_EQ(m["pr_auc"], ap.value());
    EXPECT_NEAR(m["log_loss"], loss.value(), 1e-9);
    EXPECT_EQ(m.confusion.size(), 2u);
    Evaluator filled(config, info, device), one(config, info, device);
    const Tensor x = outputs.to(device), y = targets.to(device);
    filled.add(filled.sums_of(x.narrow(0, 0, 8), y.narrow(0, 0, 8), 8));
    filled.add(filled.sums_of(x.narrow(0, 8, 3), y.narrow(0, 8, 3), 8));
    EXPECT_EQ(filled.read()["auc"], roc.value());
    EXPECT_EQ(filled.sums_of(x.narrow(0, 0, 8), y.narrow(0, 0, 8), 8).numel(),
              filled.sums_of(x.narrow(0, 8, 3), y.narrow(0, 8, 3), 8).numel());
  }
}

TEST(Evaluate, AConfusionMatrixIsShownWithTheScoresOfEachClass) {
  DataInfo info;
  info.class_names = {"cat", "dog"};
  const std::string text = to_text({{}, {{3, 1}, {2, 4}}}, "test", info);
  EXPECT_NE(text.find("class      precision  recall      f1    samples\n"
                      "cat           60.0 %  75.0 %  66.7 %          4\n"
                      "dog           80.0 %  66.7 %  72.7 %          6\n"),
            std::string::npos)
      << text;
}

TEST(Evaluate, ValuesInTheirOwnUnit) {
  DataInfo info;
  info.task = Task::kRegression;
  info.outputs = 1;
  info.target_mean = 1000;
  info.target_std = 50;
  const std::vector<double> given = {0.5, -1, 2, 0.25, 1}, wanted = {1, -1, 1, -0.25, 0.5};
  double abs = 0, square = 0, mean = 0, spread = 0, mape = 0;
  for (size_t i = 0; i < 5; ++i) {
    abs += std::abs(given[i] - wanted[i]) * 50 / 5;
    square += std::pow((given[i] - wanted[i]) * 50, 2) / 5;
    mape += std::abs((given[i] - wanted[i]) * 50 / (1000 + wanted[i] * 50)) / 5;
    mean += wanted[i] / 5;
  }
  for (const double y : wanted) spread += std::pow((y - mean) * 50, 2) / 5;
  RunConfig config = config_with("l1", {"mae", "rmse", "r2", "mape"});
  for (const Device device : test::all_devices()) {
    const Metrics m = measured(config, info, tensor(given).to(kFloat32).unsqueeze(1),
                               tensor(wanted).to(kFloat32), device);
    EXPECT_NEAR(m["loss"], abs / 50, 1e-6);  // on the scale of the model's outputs
    EXPECT_NEAR(m["mae"], abs, 1e-4);
    EXPECT_NEAR(m["rmse"], std::sqrt(square), 1e-4);
    EXPECT_NEAR(m["r2"], 1 - square / spread, 1e-6);
    EXPECT_NEAR(m["mape"], mape, 1e-6);
    const Tensor same = full({4}, 2.0);
    EXPECT_EQ(measured(config, info, same.unsqueeze(1), same, device)["r2"], 0);
  }
}

// Perplexity counts tokens, and bits per character count characters: a byte within a UTF-8
// character is a token but no further character. Ignored targets do not count.
TEST(Evaluate, TokensThatCountAndTheirCharacters) {
  DataInfo info;
  info.task = Task::kLanguage;
  info.tokenizer = std::make_shared<const data::Tokenizer>(data::Tokenizer::bytes());
  info.outputs = 256;
  Generator generator(2);
  const Tensor outputs = randn({4, 3, 256}, {}, &generator);
  // "a", a continuation byte, the first byte of a two-byte character, ...
  std::vector<int64_t> targets = {97, 0xA4, 0xC3, 98, data::kIgnoredTarget, 99, 97,
                                  97, 0xA4, 97,   97, data::kIgnoredTarget};
  const std::vector<float> x = outputs.to_floats();
  double loss = 0, n = 0, characters = 0;
  for (size_t i = 0; i < targets.size(); ++i) {
    if (targets[i] < 0) continue;
    loss += negative_log_softmax(x, i, 256, size_t(targets[i]));
    characters += targets[i] != 0xA4;
    ++n;
  }
  const Tensor y = tensor_of(targets.data(), {4, 3});
  for (const Device device : test::all_devices()) {
    const Metrics m =
        measured(config_with("auto", {"perplexity", "bpc", "accuracy"}), info, outputs, y, device);
    EXPECT_NEAR(m["loss"], loss / n, 1e-5);
    EXPECT_NEAR(m["perplexity"] / std::exp(loss / n), 1, 1e-5);
    EXPECT_NEAR(m["bpc"], loss / std::log(2.0) / characters, 1e-5);
  }
}

// Many logits are not stored: the loss comes in blocks, and bpc needs only the targets.
TEST(Evaluate, ALossInBlocksHasTheMetricsOfTheOutputs) {
  DataInfo info;
  info.task = Task::kLanguage;
  info.tokenizer = std::make_shared<const data::Tokenizer>(data::Tokenizer::bytes());
  info.outputs = 256;
  const RunConfig config = config_with("auto", {"perplexity", "bpc"});
  constexpr int64_t kMany = kLossBlockBytes / 2 / 256 + 1;
  for (const Device device : test::all_devices()) {
    GPT model({.vocab_size = 256, .block_size = 8, .n_layer = 1, .n_head = 1, .n_embd = 8});
    model.to(device);
    Generator generator(3);
    const Tensor tokens = randint(0, 256, {5, 8}, {}, &generator).to(device);
    const Tensor targets = randint(-1, 256, {5, 8}, {}, &generator).to(device);
    const Tensor ignored =
        where(lt(targets, zeros_like(targets)), full_like(targets, data::kIgnoredTarget), targets);
    Evaluator whole(config, info, device), in_blocks(config, info, device);
    EXPECT_TRUE(in_blocks.can_use_blocks(model, kMany));
    EXPECT_FALSE(in_blocks.can_use_blocks(model, kMany - 1));
    EXPECT_FALSE(in_blocks.can_use_blocks(Linear(8, 256), kMany));
    EXPECT_FALSE(
        Evaluator(config_with("auto", {"accuracy"}), info, device).can_use_blocks(model, kMany));
    whole.add(model(tokens), ignored);
    in_blocks.add(in_blocks.sums_by_blocks(model, {}, tokens, ignored));
    const Metrics want = whole.read(), got = in_blocks.read();
    for (const auto& [name, value] : want.values) EXPECT_NEAR(got[name], value, 1e-4) << name;
    const auto hook = model.lm_head->register_forward_hook(
        [](Module&, const Tensor&, const Tensor& y) { return y; });
    EXPECT_FALSE(in_blocks.can_use_blocks(model, kMany));
  }
}

TEST(Evaluate, EveryLossIsTheMeanOverSamples) {
  DataInfo info;
  info.outputs = 3;
  const Tensor x = tensor({{1.0, -1.0, 0.5}, {0.0, 2.0, -0.5}}).to(kFloat32);
  const Tensor y = tensor(std::vector<int64_t>{0, 2});
  double bce = 0;
  for (int64_t i = 0; i < 6; ++i) {
    const double v = x.to_floats()[size_t(i)], wanted = i == 0 || i == 5 ? 1 : 0;
    bce += std::log1p(std::exp(v)) - v * wanted;
  }
  EXPECT_NEAR(measured(config_with("bce_with_logits", {}), info, x, y, "cpu")["loss"], bce / 6,
              1e-6);
  info.task = Task::kRegression;
  const Tensor given = tensor({{3.0}, {0.0}}).to(kFloat32), wanted = zeros({2});
  const auto loss = [&](const RunConfig& c) {
    return measured(c, info, given, wanted, "cpu")["loss"];
  };
  EXPECT_NEAR(loss(config_with("auto", {"mae"})), 4.5, 1e-6);
  EXPECT_NEAR(loss(config_with("l1", {"mae"})), 1.5, 1e-6);
  RunConfig huber = config_with("huber", {"mae"});
  read_word(huber.loss.schema().fields.at(0), "2");  // sets delta
  EXPECT_NEAR(loss(huber), 2 * (3 - 1.0) / 2, 1e-6);
}

// A sample of weight 2 counts as two, except in the confusion matrix.
TEST(Evaluate, WeightsAreNumbersOfSamples) {
  Generator generator(8);
  const std::vector<int64_t> weights = {1, 2, 0, 3, 1};
  std::vector<int64_t> repeated;
  for (size_t i = 0; i < weights.size(); ++i) {
    repeated.insert(repeated.end(), size_t(weights[i]), int64_t(i));
  }
  const Tensor rows = tensor_of(repeated.data(), {std::ssize(repeated)});
  const auto same = [&](const RunConfig& config, const DataInfo& info, const Tensor& x,
                        const Tensor& y) {
    Evaluator weighted(config, info, "cpu"), plain(config, info, "cpu");
    const Tensor w = tensor_of(weights.data(), {5}).to(kFloat32);
    weighted.add(x.narrow(0, 0, 2), y.narrow(0, 0, 2), w.narrow(0, 0, 2));
    weighted.add(x.narrow(0, 2, 3), y.narrow(0, 2, 3), w.narrow(0, 2, 3));
    plain.add(embedding(x, rows), index_select(y, 0, rows));
    const Metrics a = weighted.read(), b = plain.read();
    for (size_t i = 0; i < a.values.size(); ++i) {
      EXPECT_NEAR(a.values[i].second, b.values[i].second, 1e-6) << a.values[i].first;
    }
    return a;
  };
  DataInfo classes;
  classes.outputs = 3;
  const Tensor x = randn({5, 3}, {}, &generator), y = tensor(std::vector<int64_t>{0, 2, 1, 1, 0});
  const std::vector<std::string> all = {"accuracy", "f1",       "recall_weighted",   "auc",
                                        "pr_auc",   "log_loss", "calibration_error", "top3",
                                        "confusion"};
  const Metrics found = same(config_with("cross_entropy", all), classes, x, y);
  EXPECT_EQ(std::accumulate(found.predicted.begin(), found.predicted.end(), 0), 5);
  int64_t counted = 0;
  for (const auto& row : found.confusion) counted += std::accumulate(row.begin(), row.end(), 0);
  EXPECT_EQ(counted, 5);
  (void)same(config_with("bce_with_logits", {"accuracy"}), classes, x, y);
  DataInfo values;
  values.task = Task::kRegression;
  values.outputs = 1;
  const std::vector<std::string> of_values = {"mae", "rmse", "r2", "mape", "smape"};
  for (const char* loss : {"mse", "l1", "huber"}) {
    (void)same(config_with(loss, of_values), values, x.narrow(1, 0, 1), x.select(1, 2));
  }
}

TEST(Evaluate, LabelsHaveTheirOwnMetricsAndTheirMeans) {
  DataInfo info;
  info.outputs = 2;
  info.class_names = {"a", "b"};
  info.labels = {{"a", {"no", "yes"}}, {"b", {"0", "1"}}};
  // a: TP, FP, TN, FN; b: TP, TP, TN, TN.
  const Tensor x = tensor({{2.0, 1.0}, {0.5, 3.0}, {-1.0, -2.0}, {-0.5, -0.1}}).to(kFloat32);
  const Tensor y = tensor({{1.0, 1.0}, {0.0, 1.0}, {0.0, 0.0}, {1.0, 0.0}}).to(kFloat32);
  RunConfig config = config_with("auto", {"accuracy", "f1", "auc"});
  const Metrics m = measured(config, info, x, y, "cpu");
  const std::vector<std::string> names = {"loss", "accuracy", "f1",         "auc",  "a.accuracy",
                                          "a.f1", "a.auc",    "b.accuracy", "b.f1", "b.auc"};
  for (size_t i = 0; i < names.size(); ++i) EXPECT_EQ(m.values.at(i).first, names[i]);
  EXPECT_EQ(Evaluator(config, info, "cpu").names(), names);
  EXPECT_EQ(m["a.accuracy"], 0.5);
  EXPECT_EQ(m["b.accuracy"], 1);
  EXPECT_EQ(m["a.f1"], 0.5);  // of the samples that have the label
  EXPECT_EQ(m["f1"], 0.75);
  EXPECT_EQ(m["a.auc"], 0.75);
  EXPECT_TRUE(m.predicted.empty());
  double loss = 0;
  for (int64_t i = 0; i < 8; ++i) {
    const double v = x.to_floats()[size_t(i)], wanted = y.to_floats()[size_t(i)];
    loss += std::log1p(std::exp(v)) - v * wanted;
  }
  EXPECT_NEAR(m["loss"], loss / 8, 1e-6);
  info.thresholds = {0.3, 0.5};  // a: the last sample, with a probability of 0.38, is found, too
  EXPECT_EQ(measured(config, info, x, y, "cpu")["a.f1"], 0.8);
  EXPECT_EQ(measured(config, info, x, y, "cpu")["a.auc"], 0.75);
  config.loss = losses().component("bce");
  EXPECT_NEAR(measured(config, info, sigmoid(x), y, "cpu")["a.f1"], 0.8, 1e-9);
}

TEST(Evaluate, AnEnormousConfusionMatrixIsRefused) {
  DataInfo info;
  info.outputs = 50000;
  EXPECT_THROW(Evaluator(config_with("auto", {"confusion"}), info, "cpu"), ConfigError);
}

// --- a metric that the test registers ---

// The fraction of values whose error is below one standard deviation of the training targets.
Metric within_unit(const DataInfo&, Device) {
  return {.tasks = {Task::kRegression},
          .sums = [](const MetricBatch& b) { return b.total(abs(b.outputs - b.targets) < 1); },
          .value = [](const MetricSums& all) { return all.sums[0] / all.count; },
          .higher_is_better = true,
          .is_percentage = true};
}

using OwnMetric = DataFiles;

TEST_F(OwnMetric, IsNamedInConfigsAndAimedAt) {
  register_metric("within_unit_test", within_unit);
  EXPECT_THROW(register_metric("within_unit_test", within_unit), ValueError);
  EXPECT_THROW(register_metric("accuracy", within_unit), ValueError);
  std::string rows = "a,y\n";
  for (int i = 0; i < 60; ++i) rows += concat_to_string(i % 7, ",", i % 7 * 3 - 2, "\n");
  const std::string text =
      concat_to_string("device: cpu\ndata: {type: csv, path: ", write("rows.csv", rows),
                       ", task: regression, scale_target: true}\nmodel: {type: mlp, hidden: []}\n"
                       "optimizer: {type: sgd, lr: 0.1}\n"
                       "train: {epochs: 4, batch_size: 8, best: {metric: within_unit_test},\n"
                       "        early_stopping: {metric: within_unit_test, patience: 9}}\n");
  const auto load = [&](const std::string& metrics) {
    return load_config(write("run.yaml", text + metrics), {});
  };
  EXPECT_NE(refusal_of<ConfigError>([&] {
              load("metrics: [mae]\n");
            }).find("train.best.metric: is not measured"),
            std::string::npos);
  const RunConfig config = load("metrics: [mae, within_unit_test]\n");
  EXPECT_TRUE(config.train.best->is_max());
  const TrainResult result = train(config, directory_ / "run");
  ASSERT_EQ(result.metrics.values.size(), 3u);
  EXPECT_EQ(result.metrics.values[2].first, "within_unit_test");
  EXPECT_EQ(result.best, 1) << "the data are on a line, which can be learned exactly";
  EXPECT_NE(to_text(result.metrics, "test", {}).find("test within_unit_test: 100.00 %\n"),
            std::string::npos);
  EXPECT_NE(read_file(directory_ / "run/metrics.jsonl", "").find("\"within_unit_test\":1"),
            std::string::npos);
}

TEST_F(OwnMetric, IsRefusedForDataThatHaveNone) {
  if (std::ranges::count(metric_types().names(), "within_unit_test") == 0) {
    register_metric("within_unit_test", within_unit);
  }
  const std::string run = write("run.yaml",
                                "data: {type: digits}\nmodel: {type: mlp}\noptimizer: {type: sgd}\n"
                                "train: {epochs: 1}\nmetrics: within_unit_test\n");
  EXPECT_NE(refusal_of<ConfigError>([&] { load_config(run, {}); }).find("not all fit the data"),
            std::string::npos);
}

}  // namespace
}  // namespace taper::v0::runner
