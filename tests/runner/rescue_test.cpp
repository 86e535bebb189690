// Whatever stops a run, a checkpoint of the last complete step is saved. A run that continues from
// it gives the bytes of one that was never stopped.
#include <chrono>
#include <csignal>
#include <thread>

#include <gtest/gtest.h>

#include "apps/runner/base/errors.h"
#include "apps/runner/passes/buffer_snapshot.h"
#include "apps/runner/run/checkpoint.h"
#include "apps/runner/run/ranks.h"
#include "apps/runner/run/run_directory.h"
#include "apps/runner/train/train.h"
#include "framework/factory/factories.h"
#include "modules/layers/norm_layers.h"
#include "tests/runner/run_process.h"
#include "tests/testing.h"
#include "tests/text.h"

namespace taper::v0::runner {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

// Covers every kind of state: running statistics, dropout, a loss scale, averages, a schedule,
// accumulated batches. 200 images are ten batches of 20, and a step uses three of them. An epoch
// therefore has 4 steps and 10 forward passes. An evaluation has two batches.
constexpr const char* kConfig =
    "seed: 3\n"
    "device: cpu\n"
    "threads: 1\n"
    "data: {type: digits, train_size: 200, test_size: 40}\n"
    "model:\n"
    "  type: sequential\n"
    "  layers:\n"
    "    - flatten\n"
    "    - linear: 16\n"
    "    - batch_norm1d\n"
    "    - dropout: 0.2\n"
    "    - failing: {in: training, call: 0}\n"
    "    - linear: 10\n"
    "optimizer: {type: adamw, lr: 0.01}\n"
    "schedule: {type: cosine, warmup: 3}\n"
    "train: {epochs: 4, batch_size: 20, accumulate: 3, precision: fp16, clip_norm: 1,\n"
    "        ema: {decay: 0.9}, eval_batch_size: 20, eval_every: 3,\n"
    "        early_stopping: {patience: 100}}\n"
    "checkpoint: {every: 1000}\n"
    "callbacks: [fail: {on: step, step: 1000}]\n";

class Rescue : public ::testing::Test {
 protected:
  Rescue() {
    at_.program = TAPER_OWN_PARTS;
    write_bytes(at_ / "run.yaml", kConfig);
  }
  RunDirectory::Outcome train(const std::string& out, const Words& more) const {
    Words words{"train", "run.yaml", "--out", out, "--resume", "auto"};
    words.insert(words.end(), more.begin(), more.end());
    return at_.taper(words);
  }
  // Expects that the run continues when the cause is gone, and ends like one that was never
  // stopped.
  void expect_goes_on(const std::string& run, const Words& settings) const {
    const RunDirectory::Outcome whole = train("whole", settings);
    ASSERT_EQ(whole.code, 0) << whole.err;
    const RunDirectory::Outcome end = train(run, settings);
    ASSERT_EQ(end.code, 0) << end.err;
    EXPECT_TRUE(contains(end.err, "resumed from")) << end.err;
    for (const std::string file : {"metrics.jsonl", "model.safetensors"}) {
      const std::string bytes = read_bytes(at_ / ("whole/" + file));
      EXPECT_NE(bytes, "");
      EXPECT_TRUE(bytes == read_bytes(at_ / concat_to_string(run, "/", file))) << file;
    }
    EXPECT_NO_THROW(verify(at_ / run));
  }
  void remove_runs() const {
    for (const char* run : {"r", "whole"}) fs::remove_all(at_ / run);
  }

  RunDirectory at_;
};

struct Cause {
  const char* name;
  Words settings;
  int code;
  int64_t step;  // the step that is saved
};
// Forward passes 1 to 3, 4 to 6, 7 to 9, and 10 of an epoch belong to one step each. Evaluations
// follow the steps 3, 6, ..., 15 and 16.
const Cause kCauses[] = {
    {"a layer in the first batch of a step", {"model.layers.4.failing={call: 14}"}, kExitBug, 5},
    {"a layer in the last batch of a step", {"model.layers.4.failing={call: 16}"}, kExitBug, 5},
    {"a layer in the first step of an epoch", {"model.layers.4.failing={call: 12}"}, kExitBug, 4},
    {"a layer in the last step of all", {"model.layers.4.failing={call: 40}"}, kExitBug, 15},
    {"memory in a step", {"model.layers.4.failing={call: 16, kind: memory}"}, kExitMemory, 5},
    {"a foreign exception", {"model.layers.4.failing={call: 14, kind: foreign}"}, kExitBug, 5},
    {"memory in the first batch of an evaluation",
     {"model.layers.4.failing={in: evaluation, call: 3, kind: memory}"},
     kExitMemory,
     6},
    {"a layer in the last batch of an evaluation",
     {"model.layers.4.failing={in: evaluation, call: 4}"},
     kExitBug,
     6},
    {"the last evaluation", {"model.layers.4.failing={in: evaluation, call: 12}"}, kExitBug, 16},
    {"a callback after a step", {"callbacks=[fail: {on: step, step: 5}]"}, kExitBug, 5},
    {"a callback after a step with an evaluation",
     {"callbacks=[fail: {on: step, step: 6}]"},
     kExitBug,
     6},
    {"a callback after an evaluation",
     {"callbacks=[fail: {on: eval, step: 6, kind: foreign}]"},
     kExitBug,
     6},
    {"a plateau",
     {"schedule={type: plateau, warmup: 2, patience: 0}", "callbacks=[fail: {on: eval, step: 9}]"},
     kExitBug,
     9},
    {"a callback while a checkpoint is written",
     {"checkpoint={every: 5, background: on}", "callbacks=[fail: {on: step, step: 6}]"},
     kExitBug,
     6},
    {"memory in the step after a checkpoint",
     {"checkpoint={every: 5, background: on}", "model.layers.4.failing={call: 14, kind: memory}"},
     kExitMemory,
     5},
    {"several parts of a batch",
     {"train.accumulate=1", "train.shards=4", "model.layers.4.failing={call: 30}"},
     kExitBug,
     7},
    {"steps that may be skipped",
     {"train.on_nan=skip", "model.layers.4.failing={call: 15}"},
     kExitBug,
     5},
};

TEST_F(Rescue, WhateverStopsARunItsLastWholeStepIsSaved) {
  for (const Cause& cause : kCauses) {
    SCOPED_TRACE(cause.name);
    remove_runs();
    write_bytes(at_ / "fault", "");
    const RunDirectory::Outcome end = train("r", cause.settings);
    fs::remove(at_ / "fault");
    EXPECT_EQ(end.code, cause.code) << end.err;
    const fs::path saved = checkpoint_of_step("r", cause.step);
    EXPECT_TRUE(
        contains(end.err, concat_to_string("step ", cause.step, " is saved in ", saved.string())))
        << end.err;
    EXPECT_EQ(newest_checkpoint(at_ / "r"), std::optional(at_ / saved.string()));
    EXPECT_TRUE(
        contains(read_bytes(at_ / "r/exit.json"), concat_to_string("\"step\": ", cause.step)));
    expect_goes_on("r", cause.settings);
    if (HasFailure()) return;
  }
}

TEST_F(Rescue, AnExceptionOfNoKnownTypeSavesToo) {
  write_bytes(at_ / "fault", "");
  const Words settings{"model.layers.4.failing={call: 14, kind: unknown}"};
  EXPECT_EQ(train("r", settings).code, 128 + SIGABRT) << "the exception is not caught";
  fs::remove(at_ / "fault");
  expect_goes_on("r", settings);
}

TEST_F(Rescue, WhereSavingFailsTooBothAreSaid) {
  write_bytes(at_ / "fault", "");
  for (const char* setting : {"checkpoint.every=1000", "checkpoint={every: 5, background: on}"}) {
    fs::remove_all(at_ / "r");
    const RunDirectory::Outcome end =
        at_.taper({"train", "run.yaml", "--out", "r", "train.eval_every=1000",
                   "model.layers.4.failing={call: 14}", setting},
                  "trap '' XFSZ; ulimit -f 8;");
    EXPECT_EQ(end.code, kExitBug) << end.err;
    const size_t cause = end.err.find("the run failed after step 5"),
                 failure = end.err.find("that step is not saved: cannot save the checkpoint");
    EXPECT_NE(cause, std::string::npos) << end.err;
    EXPECT_NE(failure, std::string::npos) << end.err;
    EXPECT_TRUE(contains(end.err.substr(cause, failure - cause), "no such rows")) << end.err;
    EXPECT_TRUE(contains(end.err, "there is no checkpoint")) << end.err;
  }
}

// The optimizer may have changed only some of the weights.
TEST_F(Rescue, AFailureWithinAnUpdateIsNotSaved) {
  write_bytes(at_ / "fault", "");
  const Words settings{"optimizer={type: failing_sgd, lr: 0.01, call: 7}", "checkpoint.every=4",
                       "train.precision=fp32"};
  const RunDirectory::Outcome end = train("r", settings);
  fs::remove(at_ / "fault");
  EXPECT_EQ(end.code, kExitBug);
  for (const char* part : {"the run failed after step 6: ", "no such rows; that step is not saved",
                           "that step is not saved: the step that failed has changed weights",
                           "the newest checkpoint is r/checkpoints/step-00000004"}) {
    EXPECT_TRUE(contains(end.err, part)) << part << "\nis not in:\n" << end.err;
  }
  expect_goes_on("r", settings);
}

// The first rank has everything that a checkpoint needs. If another rank fails, no rank hangs.
TEST_F(Rescue, TheFirstRankAloneSavesForAll) {
  if (const std::string why = Communicator::unavailable_reason(); !why.empty()) {
    GTEST_SKIP() << "needs MPI: " << why;
  }
  for (const int rank : {0, 1}) {
    SCOPED_TRACE(rank);
    remove_runs();
    write_bytes(at_ / "fault", "");
    const Words settings{
        "train.accumulate=1", "--ranks", "2",
        concat_to_string("callbacks=[fail: {on: step, step: 5, rank: ", rank, "}]")};
    const RunDirectory::Outcome end = train("r", settings);
    fs::remove(at_ / "fault");
    EXPECT_EQ(end.code, kExitBug) << end.err;
    EXPECT_TRUE(contains(end.err, concat_to_string("rank ", rank, " ("))) << end.err;
    EXPECT_TRUE(contains(end.err, "no such rows")) << end.err;
    const bool is_saved = contains(end.err, "step 5 is saved in r/checkpoints/step-00000005");
    EXPECT_EQ(is_saved, rank == 0) << end.err;
    expect_goes_on("r", settings);
  }
}

// --- the end ---

TEST_F(Rescue, ACallbackThatThrowsAtTheEndLeavesTheRunFinished) {
  write_bytes(at_ / "fault", "");
  const RunDirectory::Outcome end = train("r", {"callbacks=[fail: {on: end, kind: foreign}]"});
  EXPECT_EQ(end.code, kExitBug);
  EXPECT_TRUE(contains(end.err, "no such row")) << end.err;
  EXPECT_TRUE(contains(read_bytes(at_ / "r/exit.json"), "\"reason\": \"finished\""));
  EXPECT_NO_THROW(verify(at_ / "r"));
  EXPECT_EQ(at_.taper({"eval", "r"}).code, 0);
}

// --- buffers ---

TEST(BufferSnapshots, UndoAForwardPassOnceItIsKnownWhichBuffersChange) {
  for (const Device& device : test::all_devices()) {
    BatchNorm1d norm(3);
    norm.to(device);
    BufferSnapshot snapshot(norm);
    const Tensor x = arange(12).to(device, kFloat32).reshape({4, 3});
    const auto values = [&] {
      std::vector<float> out;
      for (const NamedTensor& b : norm.named_buffers()) {
        const std::vector<float> v = b.tensor.to(kFloat32).cpu().to_floats();
        out.insert(out.end(), v.begin(), v.end());
      }
      return out;
    };
    const auto step = [&] {
      snapshot.begin();
      snapshot.take();
      norm(x);
    };
    step();
    EXPECT_FALSE(snapshot.restore()) << "the first forward pass reveals which buffers change";
    const std::vector<float> before = values();
    step();
    EXPECT_NE(values(), before);
    EXPECT_TRUE(snapshot.restore());
    EXPECT_EQ(values(), before);
    // A step that failed before its forward pass, for example for lack of data.
    snapshot.begin();
    EXPECT_TRUE(snapshot.restore());
    EXPECT_EQ(values(), before);
    // An evaluation that changes the buffers.
    snapshot.begin();
    norm(x);
    EXPECT_FALSE(snapshot.restore());
  }
}

}  // namespace
}  // namespace taper::v0::runner
