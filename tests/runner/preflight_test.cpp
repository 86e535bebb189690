// Checks that refuse a run before it begins, and sizes that a run chooses itself.
#include "apps/runner/passes/preflight.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "apps/runner/base/files.h"
#include "apps/runner/components/components.h"
#include "apps/runner/memory/batch_size.h"
#include "tests/runner/run_process.h"
#include "tests/text.h"

namespace taper::v0::runner {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

// A key that a row of a test replaces is alone on its line.
constexpr const char* kRun =
    "device: cpu\n"
    "threads: 1\n"
    "data: {type: digits, train_size: 33, test_size: 9}\n"
    "model: {type: sequential, layers: [flatten, linear: 8, batch_norm1d, relu, linear: 10]}\n"
    "optimizer: {type: adam, lr: 1e-3}\n"
    "train: {epochs: 2, batch_size: 8}\n";

class Preflight : public ::testing::Test {
 protected:
  Preflight() {
    write_bytes(at_ / "run.yaml", kRun);
    std::string text;
    for (int i = 0; i < 60; ++i) text += "the quick brown fox. ";
    write_bytes(at_ / "text.txt", text);
  }

  RunDirectory::Outcome train(Words settings) const {
    settings.insert(settings.begin(), {"train", "run.yaml"});
    return at_.taper(settings);
  }
  std::string text(const std::string& file) const { return read_bytes(at_ / file); }

  RunDirectory at_;
};

struct Refused {
  Words settings;
  std::vector<std::string> says;
};

TEST_F(Preflight, WhatARunWouldFailWithLaterIsRefusedWithTheConfigsLine) {
  const std::string resnet = "model={type: resnet18, width: 4}",
                    pooled =
                        "model={type: sequential, layers: [conv2d: {out_channels: 4, "
                        "kernel_size: 3}, adaptive_avg_pool2d: 1, batch_norm2d, flatten, "
                        "linear: 10]}",
                    words = "data={type: text, path: text.txt, block_size: 16}";
  const Refused rows[] = {
      {{},
       {"run.yaml:6:32: train.batch_size: the last batch of an epoch has 1 sample (33 in batches "
        "of "
        "8)",
        "Expected more than 1 value per channel when training, got input size [1, 8] (in module 2)",
        "train.drop_last: true"}},
      {{"data.train_size=9", "train.batch_size=4", resnet},
       {"the last batch of an epoch has 1 sample (9 in batches of 4)",
        "got input size [1, 32, 1, 1]", "train.drop_last: true"}},
      {{"data.train_size=9", "train.batch_size=4", pooled},
       {"got input size [1, 4, 1, 1] (in module 2)", "train.drop_last: true"}},
      {{"train.batch_size=1"}, {"a batch has 1 sample", "choose another batch_size"}},
      {{"train.shards=8", "data.train_size=32"},
       {"a batch has 8 samples, and one of its 8 parts (train.shards) has 1", "fewer parts"}},
      {{"train.shards=4", "data.train_size=36"},
       {"the last batch of an epoch has 4 samples (36 in batches of 8), and one of its 4 parts "
        "(train.shards) has 1",
        "train.drop_last: true"}},
      {{"data.train_size=4", "train.drop_last=true"},
       {"train.drop_last: leaves no batch, because the 4 training samples are fewer"}},
      {{"model={type: mlp, hidden: [8]}", "loss={type: bce}"},
       {"command line: loss={type: bce}: loss 'bce': all elements of input should be between 0 and "
        "1: bce takes probabilities; end the model with a sigmoid layer or use bce_with_logits"}},
      {{"model={type: mlp}", "loss={type: bce}", "train.precision=bf16"},
       {"loss 'bce'", "unsafe to autocast", "bce_with_logits"}},
      {{words,
        "model={type: sequential, layers: [embedding: {embedding_dim: 4, num_embeddings: 3}, "
        "linear: 17]}"},
       {"layer 'embedding'", "(in module 0)"}},
  };
  for (const auto& [settings, says] : rows) {
    SCOPED_TRACE(nlohmann::json(settings).dump());
    for (const char* way : {"--validate", "--out=r"}) {
      Words all = settings;
      all.push_back(way);
      const RunDirectory::Outcome end = train(all);
      EXPECT_EQ(end.code, 2) << way << "\n" << end.err;
      for (const std::string& part : says) {
        EXPECT_TRUE(contains(end.err, part)) << part << " is not in:\n" << way << "\n" << end.err;
      }
      EXPECT_FALSE(fs::exists(at_ / "r"));
    }
  }
}

TEST_F(Preflight, SizesThatAModelTakesAreNotRefused) {
  const std::vector<Words> rows = {
      {"train.drop_last=true"},
      {"data.train_size=34"},
      {"model={type: sequential, layers: [conv2d: {out_channels: 4, kernel_size: 3}, batch_norm2d, "
       "flatten, linear: 10]}"},
      {"model={type: sequential, layers: [flatten, linear: 10, sigmoid]}", "loss={type: bce}"},
      {"train.drop_last=true", "train.shards=4", "data.train_size=36", "train.batch_size=16"},
  };
  for (const Words& settings : rows) {
    SCOPED_TRACE(nlohmann::json(settings).dump());
    Words all = settings;
    all.push_back("--validate");
    EXPECT_EQ(train(all).code, 0) << train(all).err;
  }
}

TEST_F(Preflight, ItChangesNoNumberOfTheRun) {
  // The model has a dropout, which draws random numbers, and a batch norm, which keeps statistics.
  const std::string model =
      "model={type: sequential, layers: [flatten, linear: 8, batch_norm1d, dropout, linear: 10]}";
  const Words first = {model, "train.drop_last=true", "--out", "a"},
              other = {model, "train.drop_last=true", "train.eval_batch_size=4", "--out", "b"};
  ASSERT_EQ(train(first).code, 0);
  ASSERT_EQ(train(other).code, 0);
  EXPECT_EQ(text("a/model.safetensors"), text("b/model.safetensors"));
}

TEST_F(Preflight, DropLastLeavesOutTheLastBatch) {
  ASSERT_EQ(train({"train.drop_last=true", "--out", "r"}).code, 0);
  EXPECT_EQ(nlohmann::json::parse(text("r/exit.json"))["step"], 8);  // 4 of 8 samples, twice
  EXPECT_TRUE(contains(text("r/config.yaml"), "drop_last: true"));
  EXPECT_EQ(at_.taper({"reproduce", "r"}).code, 0);
}

TEST_F(Preflight, CallsAreThoseOfWholeAndLastBatchesAndTheirParts) {
  struct Row {
    Words settings;
    int64_t samples, ranks;
    std::vector<int64_t> rows;
  };
  const Row table[] = {
      {{}, 33, 1, {8, 1}},
      {{}, 32, 1, {8}},
      {{}, 5, 1, {5}},
      {{}, 33, 4, {2, 1}},
      {{"train.shards=2"}, 37, 1, {4, 2, 3}},
      {{"train.shards=2"}, 37, 2, {4, 2, 3}},
      {{"distributed.sync_batch_norm=true"}, 37, 2, {8, 5}},
  };
  for (const auto& [settings, samples, ranks, rows] : table) {
    const RunConfig config = load_config(at_ / "run.yaml", settings);
    std::vector<int64_t> got;
    for (const CallSize& call :
         training_calls(config, {.train_samples = samples, .eval_samples = 1, .ranks = ranks})) {
      got.push_back(call.samples);
    }
    EXPECT_EQ(got, rows) << samples << " on " << ranks;
  }
}

// --- the batch size of evaluations ---

TEST_F(Preflight, TheBatchSizeOfEvaluationsIsChosenAndKept) {
  const std::string model = "model={type: mlp, hidden: [8]}";
  ASSERT_EQ(train({model, "--out", "numbers"}).code, 0);
  EXPECT_TRUE(contains(text("numbers/config.yaml"), "eval_batch_size: 1024\n"));
  const Words gpt = {"data={type: text, path: text.txt, block_size: 16}",
                     "model={type: gpt, n_layer: 1, n_head: 2, n_embd: 16}",
                     "train={steps: 4, batch_size: 6}", "--out", "text"};
  ASSERT_EQ(train(gpt).code, 0);
  EXPECT_TRUE(contains(text("text/config.yaml"), "eval_batch_size: 6\n"));
  // A recorded batch size does not change when the run continues.
  ASSERT_EQ(train({model, "train.eval_batch_size=4", "train.epochs=1", "--out", "r"}).code, 0);
  const RunDirectory::Outcome resumed =
      train({model, "train.epochs=2", "--out", "r", "--resume", "auto"});
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_TRUE(contains(text("r/config.yaml"), "eval_batch_size: 4\n"));
  EXPECT_EQ(at_.taper({"reproduce", "r"}).code, 0);
  ASSERT_EQ(at_.taper({"record", "r", "--to", "golden.json"}).code, 0);
  EXPECT_EQ(at_.taper({"check", "r", "--against", "golden.json"}).code, 0);
}

TEST_F(Preflight, ARunOfAVersionWithoutAKeyGoesOnWithItsDefault) {
  const std::string model = "model={type: mlp, hidden: [8]}";
  ASSERT_EQ(train({model, "train.epochs=1", "--out", "r"}).code, 0);
  for (const auto& entry : fs::directory_iterator(at_ / "r/checkpoints")) {
    if (entry.is_symlink()) continue;
    std::string config = read_bytes(entry.path() / "config.yaml");
    const size_t at = config.find("  drop_last: false\n");
    ASSERT_NE(at, std::string::npos) << config;
    write_bytes(entry.path() / "config.yaml", config.erase(at, 19));
    std::vector<std::string> names;
    for (const auto& file : fs::directory_iterator(entry.path())) {
      if (file.path().filename() != kChecksums) names.push_back(file.path().filename());
    }
    write_bytes(entry.path() / kChecksums, sums_of(entry.path(), names));
  }
  const RunDirectory::Outcome resumed = train({model, "--out", "r", "--resume", "auto"});
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_FALSE(contains(resumed.err, "anew")) << resumed.err;
}

TEST_F(Preflight, TheBatchSizeOfEvaluationsFitsTheMemory) {
  // 1.2 MiB of activations per sample.
  const RunConfig config = load_config(
      at_ / "run.yaml", {"model={type: sequential, layers: [upsample: {scale_factor: 20}, "
                         "adaptive_avg_pool2d: 1, flatten, linear: 10]}"});
  DataInfo info{.input_shape = {1, 28, 28}, .outputs = 10};
  const auto model = build_model(config.model, info, DeviceType::kCpu);
  const auto fits_in = [&](int64_t mib) {
    return fitting_eval_batch_size(config, info, *model, false, [mib] { return mib << 20; });
  };
  EXPECT_EQ(fits_in(1 << 20), 1024);
  EXPECT_EQ(fits_in(1024), 256);
  EXPECT_EQ(fits_in(512), 128);
  EXPECT_EQ(fits_in(1), 1);
  // For a small model, the available memory is not queried.
  const RunConfig small = load_config(at_ / "run.yaml", {"model={type: mlp, hidden: [8]}"});
  const auto mlp = build_model(small.model, info, DeviceType::kCpu);
  EXPECT_EQ(
      fitting_eval_batch_size(small, info, *mlp, false, []() -> int64_t { throw Error("asked"); }),
      1024);
}

}  // namespace
}  // namespace taper::v0::runner
