// `train.batch_size: auto`: the run chooses the size by the memory of its device, and writes it to
// its config.yaml.
#include "apps/runner/memory/batch_size.h"

#include <cstdlib>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "apps/runner/memory/memory_estimate.h"
#include "apps/runner/memory/run_devices.h"
#include "apps/runner/run/ranks.h"
#include "tests/runner/run_process.h"
#include "tests/text.h"

namespace taper::v0::runner {
namespace {

using Words = std::vector<std::string>;

constexpr const char* kRun =
    "device: cpu\n"
    "threads: 1\n"
    "data: {type: digits, train_size: 700, test_size: 50}\n"
    "model: {type: mlp, hidden: [32]}\n"
    "optimizer: {type: adam, lr: 1e-3}\n"
    "train: {epochs: 1, batch_size: auto}\n";

// 1.2 MiB of activations for each sample.
constexpr const char* kLargeActivations =
    "model={type: sequential, layers: [upsample: {scale_factor: 20}, adaptive_avg_pool2d: 1, "
    "flatten, linear: 10]}";

class AutoBatchSize : public ::testing::Test {
 protected:
  AutoBatchSize() { write_bytes(at_ / "run.yaml", kRun); }

  RunConfig config(const Words& settings = {}) const {
    return load_config(at_ / "run.yaml", settings);
  }
  static BatchSizeChoice choose(const RunConfig& config, int64_t mib, int64_t ranks = 1) {
    const auto data = source_of(config.data)->load(0);
    return choose_batch_size(config, data, Device(), ranks, [=](Device) { return mib << 20; });
  }
  std::string text(const std::string& file) const { return read_bytes(at_ / file); }

  RunDirectory at_;
};

TEST_F(AutoBatchSize, TheWholeEstimateFitsHalfOfTheMemoryAndTwiceTheSizeDoesNot) {
  const RunConfig large = config({kLargeActivations});
  const auto data = source_of(large.data)->load(0);
  const auto estimate = [&](int64_t samples) {
    RunConfig copy = large;
    copy.train.batch_size = samples;
    copy.train.is_batch_size_auto = false;
    copy.train.eval_batch_size = 1;
    return estimate_memory(copy, data, true, Communicator::alone(Device()));
  };
  for (const int64_t mib : {64, 256, 1024}) {
    const int64_t size = choose(large, mib).samples;
    EXPECT_EQ(size & (size - 1), 0) << size;
    EXPECT_LE(estimate(size), (mib << 20) / 2) << size;
    EXPECT_GT(estimate(2 * size), (mib << 20) / 2) << size;
  }
}

TEST_F(AutoBatchSize, DataThatAGpuDoesNotHoldTakesNoneOfItsMemory) {
  const auto choose_on_gpu = [&](const std::string& on_device, int64_t kib) {
    const RunConfig c = config({"data.on_device=" + on_device, "data.train_size=2000"});
    const auto data = source_of(c.data)->load(0);  // 1.5 MiB
    return choose_batch_size(c, data, Device(DeviceType::kCuda, 0), 1,
                             [=](Device) { return kib << 10; })
        .samples;
  };
  EXPECT_GE(choose_on_gpu("auto", 2000), 8);
  EXPECT_EQ(choose_on_gpu("auto", 2000), choose_on_gpu("never", 2000));
  EXPECT_THROW((void)choose_on_gpu("always", 2000), ConfigError);
  EXPECT_EQ(choose_on_gpu("always", 1 << 20), 1024);
}

TEST_F(AutoBatchSize, ItIsNotLargerThanTheTrainingSetAndLeavesNoLastBatchOfOneSample) {
  struct Row {
    int64_t samples, size;
  };
  for (const auto [samples, size] :
       {Row{1, 1}, {3, 2}, {33, 24}, {512, 512}, {513, 384}, {700, 512}, {1000, 512}}) {
    const RunConfig few = config({concat_to_string("data.train_size=", samples)});
    EXPECT_EQ(choose(few, 1 << 14).samples, size) << samples;
  }
  EXPECT_EQ(choose(config({"data.train_size=513", "train.drop_last=true"}), 1 << 14).samples, 512);
}

TEST_F(AutoBatchSize, ItIsAMultipleOfTheShardsAndOfTheRanks) {
  EXPECT_EQ(choose(config({"train.shards=8", "data.train_size=20"}), 1 << 14).samples, 16);
  EXPECT_EQ(choose(config({"data.train_size=700"}), 1 << 14, 3).samples, 384);
}

TEST_F(AutoBatchSize, RunsThatShareADeviceShareItsMemory) {
  const RunConfig large = config({kLargeActivations});
  const int64_t alone = choose(large, 1024).samples;
  ASSERT_EQ(::setenv(kSharingRuns, "4", 1), 0);
  const int64_t shared = choose(large, 1024).samples;
  ASSERT_EQ(::unsetenv(kSharingRuns), 0);
  EXPECT_EQ(shared, choose(large, 256).samples);
  EXPECT_LT(shared, alone);
}

TEST_F(AutoBatchSize, TooLittleMemoryIsRefusedWithTheConfigsLine) {
  try {
    (void)choose(config({kLargeActivations}), 1);
    FAIL();
  } catch (const ConfigError& error) {
    for (const char* part : {"run.yaml:6:32: train.batch_size: auto finds no size: even a batch of "
                             "1 needs about ",
                             "of which a run may take 0.5 MiB on cpu; use a smaller model"}) {
      EXPECT_TRUE(contains(error.what(), part)) << error.what();
    }
  }
}

TEST_F(AutoBatchSize, TheRunWritesTheNumberAndSaysWhy) {
  const RunDirectory::Outcome run = at_.taper({"train", "run.yaml", "--out", "r"});
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_TRUE(contains(run.err, "train.batch_size: auto is 512: the run needs about ")) << run.err;
  EXPECT_TRUE(contains(run.err, "the training set has no more for a larger one")) << run.err;
  EXPECT_TRUE(contains(text("r/config.yaml"), "  batch_size: 512\n")) << text("r/config.yaml");
  EXPECT_TRUE(contains(text("r/log.txt"), "train.batch_size: auto is 512"));
  const RunDirectory::Outcome given =
      at_.taper({"train", "run.yaml", "train.batch_size=512", "--out", "s"});
  ASSERT_EQ(given.code, 0) << given.err;
  EXPECT_TRUE(text("r/metrics.jsonl") == text("s/metrics.jsonl"));
  EXPECT_EQ(at_.taper({"verify", "r"}).code, 0);
}

TEST_F(AutoBatchSize, AResumedRunKeepsTheNumberThatItHas) {
  ASSERT_EQ(at_.taper({"train", "run.yaml", "train.batch_size=100", "train.epochs=2", "--out", "r",
                       "--stop-after-epochs", "1"})
                .code,
            0);
  const RunDirectory::Outcome resumed =
      at_.taper({"train", "run.yaml", "train.epochs=2", "--out", "r", "--resume", "auto"});
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_FALSE(contains(resumed.err, "auto is")) << resumed.err;
  EXPECT_TRUE(contains(text("r/config.yaml"), "  batch_size: 100\n"));
  EXPECT_TRUE(contains(resumed.out, "steps:           14\n")) << resumed.out;
}

TEST_F(AutoBatchSize, ValidateAndADryRunPrintTheNumberAndPrintConfigSaysThatItIsOpen) {
  const RunDirectory::Outcome valid = at_.taper({"train", "run.yaml", "--validate"});
  EXPECT_TRUE(contains(valid.out, "train.batch_size: auto is 512: ")) << valid.out << valid.err;
  EXPECT_TRUE(contains(valid.out, "steps: 2, 2 per epoch")) << valid.out;
  const RunDirectory::Outcome dry = at_.taper({"train", "run.yaml", "--dry-run"});
  EXPECT_TRUE(contains(dry.out, "train.batch_size: auto is 512: ")) << dry.out << dry.err;
  const RunDirectory::Outcome printed = at_.taper({"train", "run.yaml", "--print-config"});
  EXPECT_TRUE(contains(printed.out,
                       "  batch_size: auto  # run.yaml:6:32; the run chooses the number, and "
                       "--validate prints it\n"))
      << printed.out;
#ifndef TAPER_WITH_CUDA
  const RunDirectory::Outcome gpu = at_.taper({"train", "run.yaml", "device=cuda", "--validate"});
  EXPECT_TRUE(contains(gpu.out, "train.batch_size: auto depends on the memory of the GPU"))
      << gpu.out << gpu.err;
#endif
}

TEST_F(AutoBatchSize, MembersOfASetHaveTheNumberTheyShareTheMemoryFor) {
  const RunDirectory::Outcome set =
      at_.taper({"train", "run.yaml", "--seeds", "2", "--jobs", "2", "--out", "set"});
  ASSERT_EQ(set.code, 0) << set.err;
  EXPECT_TRUE(contains(text("set/set.json"), "\"sharing_runs\": 2")) << text("set/set.json");
  for (const char* member : {"seed-0", "seed-1"}) {
    const std::string yaml = text(concat_to_string("set/", member, "/config.yaml"));
    EXPECT_TRUE(contains(yaml, "  batch_size: 512\n")) << yaml;
  }
  const RunDirectory::Outcome more = at_.taper(
      {"train", "run.yaml", "--seeds", "2", "--jobs", "1", "--out", "set", "--resume", "auto"});
  EXPECT_EQ(more.code, 0) << more.err;
  EXPECT_TRUE(contains(text("set/set.json"), "\"sharing_runs\": 2"));
}

TEST(GpuExists, NotWhereTheEnvironmentHidesEveryGpu) {
  for (const char* hides : {"", "-1", "-1,0", "NoDevFiles", ",0"}) {
    EXPECT_TRUE(hides_every_gpu(hides)) << hides;
  }
  for (const char* shows : {"0", "1,0", "0,-1", "GPU-8932f937", "MIG-8932f937"}) {
    EXPECT_FALSE(hides_every_gpu(shows)) << shows;
  }
}

TEST_F(AutoBatchSize, OtherWordsAreRefused) {
  try {
    (void)config({"train.batch_size=large"});
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_TRUE(contains(error.what(),
                         "train.batch_size: expected an integer, at least 1 and at most 10000000, "
                         "or auto, got 'large'"))
        << error.what();
  }
}

TEST_F(AutoBatchSize, TheMemoryOfAContainerIsItsLimit) {
  EXPECT_GT(total_memory(Device()), int64_t(1) << 20);
  EXPECT_EQ(distinct_memories({Device(), Device("cpu:1")}).size(), 1u);
}

}  // namespace
}  // namespace taper::v0::runner
