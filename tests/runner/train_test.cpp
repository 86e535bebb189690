// The training loop, as its files and messages show it.
#include "apps/runner/train/train.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <functional>
#include <memory>
#include <numbers>
#include <regex>
#include <sstream>
#include <thread>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <pty.h>
#include <sys/ioctl.h>

#include "apps/runner/base/errors.h"
#include "apps/runner/passes/bad_tensor.h"
#include "apps/runner/run/checkpoint.h"
#include "autograd/engine.h"
#include "autograd/ops/nn/loss_ops.h"
#include "framework/factory/factories.h"
#include "framework/io/safetensors.h"
#include "modules/layers/containers.h"
#include "modules/layers/linear.h"
#include "modules/layers/norm_layers.h"
#include "modules/layers/stateless.h"
#include "tests/runner/run_process.h"
#include "tests/text.h"

namespace taper::v0::runner {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Words = std::vector<std::string>;

// 100 training images are four batches of 25. The 25 test images are batches of 13 and 12.
constexpr const char* kDigits =
    "device: cpu\n"
    "threads: 1\n"
    "data: {type: digits, train_size: 100, test_size: 25}\n"
    "model: {type: mlp, hidden: [16]}\n"
    "optimizer: {type: sgd, lr: 0.1}\n"
    "train: {epochs: 2, batch_size: 25, eval_batch_size: 13}\n";

// A table with y = 2 a + 1, in which one row may have a value whose float32 products overflow.
std::string rows_with(const std::string& extreme) {
  std::string rows = "a,y\n";
  for (int i = 0; i < 40; ++i)
    rows += concat_to_string(i == 30 ? extreme : concat_to_string(i % 5), ",", i % 5 * 2 + 1, "\n");
  return rows;
}
constexpr const char* kRows =
    "device: cpu\n"
    "threads: 1\n"
    "data: {type: csv, path: rows.csv, task: regression, standardize: false}\n"
    "model: {type: sequential, layers: [linear: 4, relu, linear: 1]}\n"
    "optimizer: {type: sgd, lr: 0.01}\n"
    "train: {epochs: 3, batch_size: 8, shuffle: false}\n";

class Train : public ::testing::Test {
 protected:
  Train() {
    write_bytes(at_ / "digits.yaml", kDigits);
    write_bytes(at_ / "rows.yaml", kRows);
    write_bytes(at_ / "rows.csv", rows_with("1"));
  }

  RunDirectory::Outcome train(const std::string& name, const std::string& out,
                              const Words& more = {}) const {
    Words words{"train", name + ".yaml", "--out", out};
    words.insert(words.end(), more.begin(), more.end());
    return at_.taper(words);
  }
  void expect_trains(const std::string& name, const std::string& out,
                     const Words& more = {}) const {
    const RunDirectory::Outcome end = train(name, out, more);
    ASSERT_EQ(end.code, 0) << end.err;
  }
  std::string text(const std::string& file) const { return read_bytes(at_ / file); }
  Json json(const std::string& file) const { return Json::parse(text(file)); }

  // Returns the value `key` of all lines of a kind.
  std::vector<double> values(const std::string& run, const std::string& kind,
                             const std::string& key) const {
    std::vector<double> out;
    std::istringstream in(text(run + "/metrics.jsonl"));
    for (std::string line; std::getline(in, line);) {
      const Json row = Json::parse(line);
      if (row["kind"] != kind) continue;
      out.push_back(row.at(key).is_null() ? NAN : row.at(key).get<double>());
    }
    return out;
  }
  std::vector<float> weights(const std::string& file) const {
    std::vector<float> out;
    for (const NamedTensor& t : load_safetensors(at_ / file).tensors) {
      const std::vector<float> x = t.tensor.to_floats();
      out.insert(out.end(), x.begin(), x.end());
    }
    return out;
  }

  RunDirectory at_;
};

void expect_close(const std::vector<double>& a, const std::vector<double>& b, double tolerance) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], tolerance * std::abs(b[i])) << i;
}
bool all_finite(const std::vector<float>& x) {
  return !x.empty() && std::ranges::all_of(x, [](float v) { return std::isfinite(v); });
}
// --- steps ---

TEST_F(Train, ARunDirectoryHasItsFiles) {
  expect_trains("digits", "r");
  for (const char* file : {"config.yaml", "data.json", "env.json", "metrics.jsonl", "timing.jsonl",
                           "log.txt", "exit.json", "model.safetensors", "checkpoints/best"}) {
    EXPECT_TRUE(fs::exists(at_ / concat_to_string("r/", file))) << file;
  }
  EXPECT_EQ(
      json("r/exit.json"),
      (Json{
          {"code", 0}, {"reason", "finished"}, {"step", 8}, {"model_step", 8}, {"best_step", 8}}));
  EXPECT_TRUE(contains(text("r/log.txt"), "epoch=2 step=8")) << text("r/log.txt");
  EXPECT_EQ(values("r", "eval", "step"), (std::vector<double>{4, 8}));
}

TEST_F(Train, AccumulatedBatchesGiveTheStepsOfOneBigBatch) {
  // Each step has the same 40, 40 or 20 samples in both runs, in one batch or in batches of 10.
  expect_trains("digits", "big", {"train.batch_size=40", "train.clip_norm=100"});
  expect_trains("digits", "small",
                {"train.batch_size=10", "train.accumulate=4", "train.clip_norm=100"});
  EXPECT_EQ(values("small", "train", "step").size(), 6u);
  for (const char* key : {"loss", "grad_norm"}) {
    expect_close(values("small", "train", key), values("big", "train", key), 1e-5);
  }
  // The last batch of an epoch is smaller and has less weight: 100 = (15 15 15) (15 15 15) (10).
  expect_trains("digits", "odd", {"train.batch_size=45"});
  expect_trains("digits", "odd_small", {"train.batch_size=15", "train.accumulate=3"});
  expect_close(values("odd_small", "train", "loss"), values("odd", "train", "loss"), 1e-5);
}

TEST_F(Train, AccumulatedLinesCountByTheirTokens) {
  std::string lines;
  for (int i = 0; i < 60; ++i)
    lines += std::string(size_t(1 + i * i % 13), char('a' + i % 7)) + "\n";
  write_bytes(at_ / "lines.txt", lines);
  write_bytes(at_ / "lines.yaml",
              "device: cpu\n"
              "data: {type: text, path: lines.txt, lines: true, block_size: 16}\n"
              "model: {type: gpt, n_layer: 1, n_head: 2, n_embd: 16, dropout: 0}\n"
              "optimizer: {type: sgd, lr: 0.1}\n"
              "train: {epochs: 2, batch_size: 24, clip_norm: 100}\n");
  expect_trains("lines", "big");
  expect_trains("lines", "small", {"train.batch_size=6", "train.accumulate=4"});
  for (const char* key : {"loss", "grad_norm"}) {
    expect_close(values("small", "train", key), values("big", "train", key), 1e-5);
  }
}

TEST_F(Train, StepsEndARunInTheMiddleOfAnEpoch) {
  expect_trains("digits", "r", {"train.epochs=null", "train.steps=6", "train.eval_every=4"});
  EXPECT_EQ(values("r", "train", "step").size(), 6u);
  EXPECT_EQ(values("r", "eval", "step"), (std::vector<double>{4, 6}));
}

TEST_F(Train, ClippingBoundsTheStep) {
  // Without momentum, a step moves the weights by lr * norm.
  const Words one = {"train.epochs=null", "train.steps=1", "train.on_nan=rollback",
                     "checkpoint.keep=3"};
  const auto moved = [&](const std::string& run, const std::string& setting) {
    Words words = one;
    words.push_back(setting);
    expect_trains("digits", run, words);
    const auto before = weights(run + "/checkpoints/step-00000000/model.safetensors");
    const auto after = weights(run + "/model.safetensors");
    double sum = 0, most = 0;
    for (size_t i = 0; i < before.size(); ++i) {
      const double d = std::abs(double(after[i]) - before[i]);
      sum += d * d;
      most = std::max(most, d);
    }
    return std::pair(std::sqrt(sum), most);
  };
  EXPECT_NEAR(moved("norm", "train.clip_norm=0.01").first, 0.1 * 0.01, 1e-6);
  // the logged norm is that before clipping
  EXPECT_GT(values("norm", "train", "grad_norm")[0], 0.1);
  EXPECT_NEAR(moved("value", "train.clip_value=0.001").second, 0.1 * 0.001, 1e-7);
}

TEST_F(Train, AveragesAreEvaluatedAndSaved) {
  expect_trains("digits", "plain");
  expect_trains("digits", "last", {"train.ema={decay: 0}"});
  expect_trains("digits", "slow", {"train.ema={decay: 0.99}"});
  EXPECT_EQ(values("plain", "train", "loss"), values("slow", "train", "loss"));
  EXPECT_EQ(values("plain", "eval", "loss"), values("last", "eval", "loss"));
  EXPECT_EQ(weights("plain/model.safetensors"), weights("last/model.safetensors"));
  EXPECT_NE(values("plain", "eval", "loss"), values("slow", "eval", "loss"));
  EXPECT_NE(weights("plain/model.safetensors"), weights("slow/model.safetensors"));
}

TEST_F(Train, EveryPrecisionLearnsTheSame) {
  expect_trains("digits", "fp32");
  const std::vector<double> losses = values("fp32", "train", "loss");
  for (const char* precision : {"tf32", "bf16", "fp16"}) {
    SCOPED_TRACE(precision);
    expect_trains("digits", precision, {concat_to_string("train.precision=", precision)});
    expect_close(values(precision, "train", "loss"), losses, 0.02);
    if (precision != std::string("tf32")) {
      EXPECT_NE(values(precision, "train", "loss"), losses);
    }
  }
}

TEST_F(Train, MemoryIsWhatValidateForetells) {
  write_bytes(at_ / "text.txt", std::string(400, 'a') + "bcde\nfgh" + std::string(4000, 'i'));
  const std::string gpt =
      "device: cpu\n"
      "data: {type: text, path: text.txt, block_size: 32}\n"
      "model: {type: gpt, n_layer: 2, n_head: 2, n_embd: 32, dropout: 0.1}\n"
      "optimizer: {type: adamw, lr: 0.01}\n"
      "train: {steps: 4, batch_size: 8, eval_batch_size: 8}\n";
  write_bytes(at_ / "text.yaml", gpt);
  const std::vector<Words> cases = {
      {"digits"},
      {"digits", "optimizer.type=adam", "train.ema={decay: 0.9}", "train.accumulate=2"},
      {"digits", "model={type: cnn}", "optimizer.momentum=0.9", "train.batch_size=50"},
      {"digits", "model={type: cnn}", "train.precision=bf16"},
      {"rows", "model={type: mlp, hidden: [400, 400]}"},
      {"rows", "model={type: mlp, hidden: [400, 400]}", "optimizer=adam",
       "checkpoint={every: 2, background: on}"},
      {"rows", "model={type: mlp, hidden: [400, 400]}", "train.ema={decay: 0.9}",
       "checkpoint={every: 2, background: on}"},
      {"text"},
      {"text", "train.precision=bf16", "train.batch_size=16"},
      {"text", "train.recompute=block", "model.n_layer=6", "train.batch_size=16"},
  };
  for (const Words& c : cases) {
    expect_trains(c[0], "r", {c.begin() + 1, c.end()});
    std::istringstream in(this->text("r/timing.jsonl"));
    double ratio = 0;
    for (std::string line; std::getline(in, line);) {
      const Json row = Json::parse(line);
      if (row["kind"] == "memory") ratio = row["ratio"];
    }
    EXPECT_NEAR(ratio, 1, 0.15) << Json(c);
  }
}

TEST_F(Train, ARunThatWasCutShortRollsBackToWhereTheWholeOneDoes) {
  write_bytes(at_ / "rows.csv", rows_with("3e38"));
  const Words settings = {"train.on_nan=rollback", "checkpoint.every=100"};
  Words cut = settings, resumed = settings;
  cut.push_back("train.time_limit=0.000001");  // ends after one step
  resumed.insert(resumed.end(), {"--resume", "auto"});
  const RunDirectory::Outcome whole = train("rows", "whole", settings);
  EXPECT_EQ(train("rows", "parts", cut).code, 0);
  EXPECT_EQ(train("rows", "parts", resumed).code, whole.code);
  EXPECT_TRUE(contains(text("parts/log.txt"), "rolled back to step 0")) << text("parts/log.txt");
  EXPECT_EQ(text("whole/metrics.jsonl"), text("parts/metrics.jsonl"));
}

// --- learning rates ---

TEST_F(Train, TheRateFollowsItsSchedule) {
  expect_trains("digits", "r", {"schedule={type: cosine, warmup: 3}"});
  std::vector<double> expected;
  for (int i = 0; i < 8; ++i) {
    expected.push_back(i < 3 ? 0.1 * (i + 1) / 4
                             : 0.05 * (1 + std::cos(std::numbers::pi * (i - 3) / 5)));
  }
  expect_close(values("r", "train", "lr"), expected, 1e-12);
  expect_trains("digits", "e", {"schedule={type: exponential, gamma: 0.5, per: epoch}"});
  expect_close(values("e", "train", "lr"), {.1, .1, .1, .1, .05, .05, .05, .05}, 1e-12);
}

TEST_F(Train, AWarmUpLongerThanTheRunIsNamed) {
  const auto err = [&](const std::string& warmup, const Words& more) {
    Words words{"train", "digits.yaml",          "--out",
                "r",     "schedule.type=cosine", "schedule.warmup=" + warmup};
    words.insert(words.end(), more.begin(), more.end());
    const RunDirectory::Outcome end = at_.taper(words);
    EXPECT_EQ(end.code, 0) << end.err;
    return end.err;
  };
  const std::string says = "schedule.warmup is 8 steps, but the run has only 8";
  EXPECT_TRUE(contains(err("8", {}), says));
  EXPECT_TRUE(contains(err("8", {"--validate"}), says));
  EXPECT_FALSE(contains(err("7", {}), "schedule.warmup"));
}

TEST_F(Train, APlateauLowersTheRate) {
  expect_trains(
      "digits", "r",
      {"schedule={type: plateau, patience: 0, factor: 0.5, threshold: 0.5}", "train.epochs=3"});
  const std::vector<double> lr = values("r", "train", "lr");
  // The first evaluation is the reference; none has half of its loss.
  EXPECT_EQ(lr[4], 0.1);
  EXPECT_EQ(lr[8], 0.05);
}

// --- ends of runs ---

TEST_F(Train, EarlyStoppingKeepsTheBestWeights) {
  // The learning rate is so high that the loss increases.
  expect_trains("digits", "r",
                {"train.epochs=50", "optimizer.lr=3", "checkpoint.keep=1",
                 "train.early_stopping={metric: loss, patience: 3}"});
  const std::vector<double> losses = values("r", "eval", "loss");
  const size_t best = size_t(std::ranges::min_element(losses) - losses.begin());
  EXPECT_EQ(losses.size(), best + 4);
  EXPECT_EQ(json("r/exit.json")["reason"], "early stopping");
  EXPECT_EQ(step_of(best_checkpoint(at_ / "r")), int64_t(best + 1) * 4);
  EXPECT_EQ(weights("r/model.safetensors"), weights("r/checkpoints/best/model.safetensors"));
  // A run that has stopped early does not continue.
  const std::string before = text("r/metrics.jsonl");
  const RunDirectory::Outcome again =
      train("digits", "r",
            {"train.epochs=50", "optimizer.lr=3", "checkpoint.keep=1", "--resume", "auto",
             "train.early_stopping={metric: loss, patience: 3}"});
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(text("r/metrics.jsonl"), before);
}

TEST_F(Train, TheBestByAMetricIsMarked) {
  expect_trains("digits", "r", {"train.epochs=6", "train.best={metric: accuracy}"});
  const std::vector<double> accuracy = values("r", "eval", "accuracy");
  const int64_t best = std::ranges::max_element(accuracy) - accuracy.begin();
  EXPECT_EQ(step_of(best_checkpoint(at_ / "r")), (best + 1) * 4);
}

std::vector<int64_t> saved_steps(const fs::path& run) {
  std::vector<int64_t> steps;
  for (const fs::path& checkpoint : list_checkpoints(run)) steps.push_back(step_of(checkpoint));
  return steps;
}

TEST_F(Train, CheckpointsComeByTheClockOrBySteps) {
  struct Row {
    const char* name;
    Words settings;
    std::vector<int64_t> saved;
  };
  // With mode max the first evaluation stays the best, because its loss is the highest.
  const Row rows[] = {
      {"the best and the end", {}, {12, 4}},
      {"each epoch", {"checkpoint.every=0"}, {12, 8, 4}},
      {"steps", {"checkpoint.every=5"}, {12, 10, 5, 4}},
      {"the clock", {"checkpoint.interval=0.000001"}, {12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1}},
      {"back in a reproducible way",
       {"train.on_nan=rollback", "checkpoint.interval=0.000001"},
       {12, 8, 4, 0}},
  };
  for (const Row& row : rows) {
    Words settings = row.settings;
    settings.insert(settings.end(),
                    {"train.epochs=3", "checkpoint.keep=100", "train.best.mode=max"});
    expect_trains("digits", row.name, settings);
    EXPECT_EQ(saved_steps(at_ / row.name), row.saved) << row.name;
  }
}

TEST_F(Train, ATimeLimitSavesAndEndsWell) {
  const Words limited = {"train.epochs=100000", "train.time_limit=0.3"};
  expect_trains("digits", "r", limited);
  const Json end = json("r/exit.json");
  EXPECT_EQ(end["code"], 0);
  EXPECT_EQ(end["reason"], "time limit");
  EXPECT_EQ(step_of(newest_checkpoint(at_ / "r").value()), end["step"]);
  expect_trains("digits", "r", {limited[0], limited[1], "--resume", "auto"});
  EXPECT_GT(json("r/exit.json")["step"], end["step"]);
}

// --- non-finite numbers ---

TEST_F(Train, ABadStepStopsTheRunAndNamesTheTensor) {
  struct Row {
    const char* extreme;
    Words settings;
    Words says;
  };
  const Row rows[] = {
      {"3e38",
       {"model.layers=[linear: 64, relu, linear: 64, relu, linear: 1]"},
       {"the loss became", "the output of '4' (Linear)"}},
      {"1e30", {}, {"the loss became inf", "of epoch 1", "the first bad tensor is the loss"}},
      {"1e18", {}, {"the gradient's norm became inf", "is the gradient of '", ".weight'"}},
      {"1", {"optimizer.lr=1e38", "train.clip_norm=1e30"}, {"became", "step 2", "the weight"}},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.extreme);
    write_bytes(at_ / "rows.csv", rows_with(row.extreme));
    const RunDirectory::Outcome end = train("rows", "r", row.settings);
    EXPECT_EQ(end.code, 65) << end.err;
    for (const std::string& part : row.says) EXPECT_TRUE(contains(end.err, part)) << end.err;
    EXPECT_EQ(json("r/exit.json")["code"], 65);
    EXPECT_FALSE(fs::exists(at_ / "r/model.safetensors"));
    EXPECT_FALSE(contains(text("r/metrics.jsonl"), "null"));
  }
}

TEST_F(Train, ASkippedStepChangesNothing) {
  write_bytes(at_ / "rows.csv", rows_with("3e38"));
  const RunDirectory::Outcome end =
      train("rows", "r",
            {"train.on_nan=skip", "data.test_fraction=0.1",
             "model.layers=[linear: 4, batch_norm1d, relu, linear: 1]", "train.epochs=4"});
  EXPECT_EQ(end.code, 0) << end.err;
  EXPECT_TRUE(contains(end.err, "step skipped (1 skipped so far)")) << end.err;
  EXPECT_TRUE(all_finite(weights("r/model.safetensors")));
  const std::vector<double> losses = values("r", "train", "loss");
  EXPECT_TRUE(std::ranges::any_of(losses, [](double x) { return std::isnan(x); }));
}

TEST_F(Train, ARollbackHalvesTheRateUntilItHolds) {
  expect_trains("rows", "r",
                {"train.on_nan=rollback", "optimizer.lr=0.4", "train.epochs=20",
                 "model.layers=[linear: 1]", "train.eval_every=1000"});
  EXPECT_TRUE(contains(text("r/log.txt"), "with half the learning rate")) << text("r/log.txt");
  const std::vector<double> lr = values("r", "train", "lr"), steps = values("r", "train", "step");
  EXPECT_EQ(lr.back(), 0.1);
  EXPECT_TRUE(all_finite(weights("r/model.safetensors")));
  // The lines of steps that were rolled back are removed.
  for (size_t i = 0; i < steps.size(); ++i) EXPECT_EQ(steps[i], double(i + 1));
}

TEST_F(Train, ARunThatSkippedEveryStepFails) {
  std::string rows = "a,y\n";
  for (int i = 0; i < 40; ++i) rows += concat_to_string("3e38,", i % 5, "\n");
  write_bytes(at_ / "rows.csv", rows);
  const RunDirectory::Outcome end = train("rows", "r", {"train.on_nan=skip"});
  EXPECT_EQ(end.code, 65) << end.err;
  EXPECT_TRUE(contains(end.err, "all 12 steps were skipped")) << end.err;
  EXPECT_EQ(json("r/exit.json")["code"], 65);
  EXPECT_FALSE(fs::exists(at_ / "r/model.safetensors"));
}

TEST_F(Train, RollbacksEndAfterFive) {
  write_bytes(at_ / "rows.csv", rows_with("3e38"));
  const RunDirectory::Outcome end = train("rows", "r", {"train.on_nan=rollback"});
  EXPECT_EQ(end.code, 65);
  EXPECT_TRUE(contains(end.err, "(rollback 5 of at most 5)")) << end.err;
  EXPECT_TRUE(contains(end.err, "after 5 rollbacks")) << end.err;
}

TEST(FirstBadTensor, IsNamedByItsPath) {
  Sequential net;
  net.add(std::make_unique<Linear>(2, 3));
  net.add(std::make_unique<BatchNorm1d>(3));
  net.add(std::make_unique<Linear>(3, 1));
  Tensor x = ones({4, 2});
  const auto step = [&] {
    const Tensor loss = mse_loss(net(x), zeros({4, 1}));
    loss.backward();
    return loss;
  };
  const auto mean = net.named_buffers()[0].tensor;
  const std::vector<float> before = mean.to_floats();
  EXPECT_EQ(first_bad_tensor(net, step), "");
  EXPECT_EQ(mean.to_floats(), before);
  x = full({4, 2}, INFINITY);
  EXPECT_EQ(first_bad_tensor(net, step), "the inputs of the batch");
  x = full({4, 2}, 3e38);
  const NoGradGuard no_grad;
  net.parameters()[0].fill_(1);
  {
    const AutoGradMode on(true);
    EXPECT_EQ(first_bad_tensor(net, step), "the output of '0' (Linear)");
  }
  net.parameters()[5].fill_(NAN);
  EXPECT_EQ(first_bad_tensor(net, step), "the weight '2.bias'");
}

// --- observers ---

struct Watcher : Observer {
  void on_start(Module& m) override { model = &m; }
  bool on_step(int64_t step, double loss, double norm) override {
    steps.push_back(double(step));
    EXPECT_TRUE(std::isfinite(loss) && norm > 0);
    return step < last;
  }
  void on_eval(int64_t, const std::string&, const Metrics& m) override {
    accuracy.push_back(m["accuracy"]);
  }
  Module* model = nullptr;
  int64_t last = 1000;
  std::vector<double> steps, accuracy;
};

TEST_F(Train, AnObserverSeesEveryStepAndChangesNothing) {
  const RunConfig config = load_config(at_ / "digits.yaml", {});
  Watcher all, some;
  const TrainResult result = runner::train(config, at_ / "seen", {.observer = &all});
  EXPECT_EQ(result.steps, 8);
  EXPECT_EQ(all.steps, (std::vector<double>{1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(all.accuracy.back(), result.metrics["accuracy"]);
  expect_trains("digits", "unseen");
  EXPECT_EQ(text("seen/metrics.jsonl"), text("unseen/metrics.jsonl"));
  some.last = 3;
  EXPECT_EQ(runner::train(config, at_ / "ended", {.observer = &some}).steps, 3);
  EXPECT_EQ(values("ended", "eval", "step").size(), 0u);
  // The trained state is saved, so that a later run can continue.
  expect_trains("digits", "ended", {"--resume", "auto"});
  EXPECT_TRUE(contains(text("ended/log.txt"), "checkpoints/step-00000003"))
      << text("ended/log.txt");
  EXPECT_EQ(text("ended/metrics.jsonl"), text("unseen/metrics.jsonl"));
}

TEST_F(Train, RatesAreThoseOfTrainingAlone) {
  struct Slow : Observer {
    void on_eval(int64_t, const std::string&, const Metrics&) override {
      std::this_thread::sleep_for(std::chrono::seconds(1));
    }
  } slow;
  const RunConfig config =
      load_config(at_ / "digits.yaml", {"train.epochs=1", "train.eval_every=1"});
  runner::train(config, at_ / "r", {.observer = &slow});
  std::istringstream in(text("r/timing.jsonl"));
  std::string line;
  std::getline(in, line);
  const Json epoch = Json::parse(line);
  EXPECT_LT(epoch["seconds"], 3);  // the first three evaluations are within the epoch
  EXPECT_GT(epoch["samples_per_second"], 100 / 3.);
}

TEST_F(Train, APartOfAnEpochHasItsTimeAndItsRate) {
  struct Row {
    const char* name;
    Words settings;
    std::vector<std::pair<int, int>> expected;  // epoch and last step of each line
  };
  const Row rows[] = {
      {"shorter than an epoch", {"train.epochs=null", "train.steps=2"}, {{1, 2}}},
      {"ends in the second epoch", {"train.epochs=null", "train.steps=6"}, {{1, 4}, {2, 6}}},
      {"whole epochs", {}, {{1, 4}, {2, 8}}},
      {"stopped after a step", {"--stop-after-steps", "3"}, {{1, 3}}},
      {"and resumed", {"--resume", "auto"}, {{1, 3}, {1, 4}, {2, 8}}},
      {"nothing is left", {"--resume", "auto"}, {{1, 3}, {1, 4}, {2, 8}}},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    const bool is_of_one = row.settings.size() == 2 && row.settings[0].starts_with("--");
    const std::string out = is_of_one ? "resumed" : row.name;
    EXPECT_EQ(train("digits", out, row.settings).code, 0);
    std::vector<std::pair<int, int>> found;
    std::istringstream in(text(out + "/timing.jsonl"));
    for (std::string line; std::getline(in, line);) {
      const Json json = Json::parse(line);
      if (json["kind"] != "epoch") continue;
      found.emplace_back(json["epoch"], json["step"]);
      EXPECT_GT(json["seconds"], 0);
      EXPECT_NEAR(json["samples_per_second"].get<double>() * json["seconds"].get<double>(),
                  25 * (found.back().second - (found.size() > 1 ? found.end()[-2].second : 0)),
                  1e-6);
    }
    EXPECT_EQ(found, row.expected);
  }
}

TEST_F(Train, ADryRunLeavesNothingBehind) {
  fs::create_directories(at_ / "tmp");
  ::setenv("TMPDIR", (at_ / "tmp").c_str(), 1);
  const RunDirectory::Outcome end =
      at_.taper({"train", "digits.yaml", "--dry-run", "train.batch_size=100", "train.ema={}",
                 "train.precision=fp16", "schedule={type: plateau}"});
  ::unsetenv("TMPDIR");
  EXPECT_EQ(end.code, 0) << end.err;
  for (const char* part : {"OK  two steps", "OK  evaluation: loss=", "OK  checkpoint saved",
                           "OK  reloaded with the same bits"}) {
    EXPECT_TRUE(contains(end.out, part)) << end.out;
  }
  EXPECT_TRUE(fs::is_empty(at_ / "tmp"));
  EXPECT_FALSE(fs::exists(at_ / "runs"));
}

// Returns what a terminal would show. `look` is called with the output so far.
std::string on_terminal(
    const RunDirectory& at, const Words& words, const std::string& before, winsize size = {},
    const std::function<void(int terminal, const std::string& shown)>& look = {}) {
  int terminal = -1;
  const pid_t outer = ::forkpty(&terminal, nullptr, nullptr, &size);
  if (outer == 0) {
    const pid_t child = at.start(words, before + " exec 2>/dev/tty;");
    ::_exit(at.wait(child).code);
  }
  std::string shown;
  char part[4096];
  for (ssize_t n; (n = ::read(terminal, part, sizeof part)) > 0;) {
    shown.append(part, size_t(n));
    if (look) look(terminal, shown);
  }
  ::close(terminal);
  int status = 0;
  ::waitpid(outer, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0) << shown;
  return shown;
}

TEST_F(Train, ATerminalShowsABarAndAPipeLines) {
  const Words words = {"train",
                       "digits.yaml",
                       "--out",
                       "r",
                       "train.epochs=2000",
                       "train.time_limit=0.5",
                       "train.eval_every=100000"};
  const std::string colors = on_terminal(at_, words, "unset NO_COLOR; export TERM=xterm;");
  EXPECT_TRUE(contains(colors, "samples/s") && contains(colors, "left")) << colors;
  EXPECT_TRUE(contains(colors, "\033[32m"));
  const std::string plain = on_terminal(at_, words, "export NO_COLOR=1 TERM=xterm;");
  EXPECT_TRUE(contains(plain, "samples/s"));
  EXPECT_FALSE(contains(plain, "\033[32m"));
  const std::string dumb = on_terminal(at_, words, "export TERM=dumb;");
  EXPECT_FALSE(contains(dumb, "\033")) << dumb;
  const RunDirectory::Outcome pipe = at_.taper(words);
  EXPECT_FALSE(contains(pipe.err, "\033")) << pipe.err;
  EXPECT_TRUE(contains(pipe.err, "test_loss=")) << pipe.err;
}

// Returns every bar that was drawn, without colors: the text between one erase sequence and the
// next.
std::vector<std::string> bars_of(const std::string& shown) {
  static const std::regex kBar("\r\033\\[K((?:[^\r\n\033]|\033\\[[0-9]*m)+)(?=\r\033)"),
      kColor("\033\\[[0-9]*m");
  std::vector<std::string> bars;
  for (std::sregex_iterator at(shown.begin(), shown.end(), kBar), end; at != end; ++at) {
    bars.push_back(std::regex_replace((*at)[1].str(), kColor, ""));
  }
  return bars;
}

// Returns the bars that count the steps. The other lines say that the run starts or reads its data.
std::vector<std::string> step_bars_of(const std::string& shown) {
  std::vector<std::string> bars = bars_of(shown);
  std::erase_if(bars, [](const std::string& bar) { return !contains(bar, "/"); });
  return bars;
}

TEST_F(Train, TheBarFitsItsTerminalAlsoWhenThatIsResized) {
  const Words words = {"train",
                       "digits.yaml",
                       "--out",
                       "r",
                       "train.epochs=100000",
                       "train.time_limit=0.7",
                       "train.eval_every=1000000"};
  for (const unsigned short columns : {200, 80, 40, 12}) {
    SCOPED_TRACE(columns);
    const std::string shown = on_terminal(at_, words, "export TERM=xterm;", {24, columns, 0, 0});
    for (const std::string& line : bars_of(shown)) EXPECT_LT(line.size(), columns) << line;
    const std::vector<std::string> bars = step_bars_of(shown);
    EXPECT_GE(bars.size(), 2u);
    EXPECT_FALSE(contains(bars.at(0), "loss 0.0000")) << bars[0];
  }
  bool is_resized = false;
  const std::string shown = on_terminal(at_, words, "export TERM=xterm;", {24, 120, 0, 0},
                                        [&](int terminal, const std::string& so) {
                                          const winsize narrow{24, 30, 0, 0};
                                          if (!is_resized && !step_bars_of(so).empty())
                                            ::ioctl(terminal, TIOCSWINSZ, &narrow);
                                          is_resized = !step_bars_of(so).empty();
                                        });
  const std::vector<std::string> bars = step_bars_of(shown);
  ASSERT_GE(bars.size(), 2u);
  EXPECT_GT(bars[0].size(), 30u);
  EXPECT_LT(bars.back().size(), 30u);
}

}  // namespace
}  // namespace taper::v0::runner
