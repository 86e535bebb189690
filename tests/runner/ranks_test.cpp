// Runs on several ranks. With shards in the config, any number of ranks gives the same bytes. When
// a rank is lost, every other rank reports it. Ranks are processes started by mpirun.
#include <chrono>
#include <csignal>
#include <iostream>
#include <map>
#include <random>
#include <thread>

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "apps/runner/base/errors.h"
#include "apps/runner/run/checkpoint.h"
#include "autograd/ops/binary_ops.h"
#include "autograd/ops/reduce_ops.h"
#include "autograd/ops/unary_ops.h"
#include "framework/distributed/communicator.h"
#include "framework/io/safetensors.h"
#include "tests/runner/run_process.h"

namespace taper::v0::runner {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

// Covers dropout, batch norm, averages, a loss scale, clipping, and a last batch of 20.
constexpr const char* kDigitsConfig =
    "device: cpu\n"
    "threads: 1\n"
    "data: {type: digits, train_size: 500, test_size: 50}\n"
    "model: {type: sequential, layers: [conv2d: {out_channels: 4, kernel_size: 3}, batch_norm2d,\n"
    "        relu, flatten, dropout: 0.2, linear: 10]}\n"
    "optimizer: {type: adamw, lr: 0.003}\n"
    "schedule: {type: cosine, warmup: 5}\n"
    "train: {epochs: 3, batch_size: 32, clip_norm: 1, precision: fp16, ema: {decay: 0.9},\n"
    "        eval_every: 7, eval_batch_size: 8}\n"
    "checkpoint: {every: 3, keep: 2}\n"
    "metrics: [accuracy, confusion]\n";
// Lines are weighted by their tokens.
constexpr const char* kNames =
    "device: cpu\n"
    "threads: 1\n"
    "data: {type: text, path: names.txt, lines: true, block_size: 8}\n"
    "model: {type: gpt, n_layer: 1, n_head: 2, n_embd: 16, dropout: 0.1}\n"
    "optimizer: {type: sgd, lr: 0.1, momentum: 0.9}\n"
    "train: {epochs: 2, batch_size: 8, eval_batch_size: 4}\n";

#define SKIP_WITHOUT_MPI()                                                                        \
  if (!Communicator::unavailable_reason().empty() || std::system("command -v mpirun >/dev/null")) \
  GTEST_SKIP() << "needs MPI: " << Communicator::unavailable_reason()

using distributed::Communicator;

class Ranks : public testing::Test {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_MPI();
    // mpirun waits this long after every failure
    setenv("OMPI_MCA_odls_base_sigkill_timeout", "1", 1);
    write_bytes(dir_ / "digits.yaml", kDigitsConfig);
    write_bytes(dir_ / "names.yaml", kNames);
    std::string names;
    for (int i = 0; i < 37; ++i) names += std::string(size_t(1 + i % 6), char('a' + i % 7)) + "\n";
    write_bytes(dir_ / "names.txt", names);
  }

  // Returns the bytes that must be equal: metrics, weights and details of the evaluation.
  std::string bytes_of(const std::string& run) const {
    return read_bytes(dir_ / run / "metrics.jsonl") + read_bytes(dir_ / run / "model.safetensors") +
           read_bytes(dir_ / run / "evaluation.json");
  }
  RunDirectory::Outcome train(Words words) const {
    words.insert(words.begin(), "train");
    return dir_.taper(words);
  }
  // Waits until the run has `count` ranks, and returns their processes by rank.
  std::map<size_t, pid_t> wait_for_ranks(size_t count) const {
    std::map<size_t, pid_t> found;
    for (int i = 0; i < 3000 && found.size() < count; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      found.clear();
      for (const auto& entry : fs::directory_iterator("/proc")) {
        const std::string name = entry.path().filename();
        if (name.find_first_not_of("0123456789") != std::string::npos) continue;
        const std::string environment = read_bytes(entry.path() / "environ");
        std::error_code gone;
        const std::string variable = "OMPI_COMM_WORLD_RANK=";
        const size_t at = environment.find(variable);
        if (at == std::string::npos) continue;
        if (fs::read_symlink(entry.path() / "cwd", gone) != fs::canonical(dir_ / ".")) continue;
        found[std::stoul(environment.substr(at + variable.size()))] = std::stoi(name);
      }
    }
    return found;
  }
  void wait_for_line(const std::string& run, const std::string& part) const {
    for (int i = 0; i < 6000; ++i) {
      if (read_bytes(dir_ / run / "metrics.jsonl").find(part) != std::string::npos) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    ADD_FAILURE() << "no " << part << " in " << run;
  }

  RunDirectory dir_;
};

TEST_F(Ranks, AnyNumberWritesTheSameBytesWithShards) {
  for (const char* config : {"digits", "names"}) {
    const auto run = [&](const std::string& ranks) {
      const std::string name = std::string(config) + ranks;
      const auto done = train({concat_to_string(config, ".yaml"), "train.shards=4", "--ranks",
                               ranks, "distributed.bucket_mb=1", "--out", name});
      EXPECT_EQ(done.code, 0) << done.err;
      return bytes_of(name);
    };
    const auto alone =
        train({concat_to_string(config, ".yaml"), "train.shards=4", "--out", "alone"});
    ASSERT_EQ(alone.code, 0) << alone.err;
    const std::string one = bytes_of("alone");
    EXPECT_TRUE(run("2") == one) << config;
    EXPECT_TRUE(run("4") == one) << config;
    fs::remove_all(dir_ / "alone");
  }
}

TEST_F(Ranks, ShardedStateChangesNothingButMemory) {
  ASSERT_EQ(train({"digits.yaml", "--ranks", "2", "--out", "whole"}).code, 0);
  const auto done = train(
      {"digits.yaml", "--ranks", "2", "distributed.shard_optimizer=true", "--out", "sharded"});
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_TRUE(bytes_of("whole") == bytes_of("sharded"));
  ASSERT_EQ(train({"digits.yaml", "--ranks", "2", "distributed.shard_optimizer=true",
                   "checkpoint.background=on", "--out", "background"})
                .code,
            0);
  EXPECT_TRUE(bytes_of("whole") == bytes_of("background"));
  for (const char* file : {"model.safetensors", "optimizer.safetensors", "state.json"}) {
    const auto newest = [&](const char* run) {
      return read_bytes(*newest_checkpoint(dir_ / run) / file);
    };
    EXPECT_TRUE(newest("sharded") == newest("background")) << file;
  }
  // The log and the summary are printed once.
  EXPECT_EQ(done.out.find("run:"), done.out.rfind("run:"));
  EXPECT_EQ(done.err.find("model:"), done.err.rfind("model:"));
}

TEST_F(Ranks, SyncedBatchNormsSeeTheWholeBatch) {
  write_bytes(dir_ / "norms.yaml",
              "device: cpu\nthreads: 1\n"
              "data: {type: digits, train_size: 200, test_size: 20}\n"
              "model: {type: sequential, layers: [flatten, linear: 16, batch_norm1d, relu, linear: "
              "10]}\n"
              "optimizer: {type: sgd, lr: 0.05}\n"
              "train: {steps: 10, batch_size: 20}\n");
  const auto means_of = [&](const std::string& run, const Words& more) {
    Words words = {"norms.yaml", "--out", run};
    words.insert(words.end(), more.begin(), more.end());
    const auto done = train(words);
    EXPECT_EQ(done.code, 0) << done.err;
    for (const NamedTensor& t : load_safetensors(dir_ / run / "model.safetensors").tensors) {
      if (t.name.ends_with("running_mean")) return t.tensor;
    }
    return Tensor();
  };
  const Tensor alone = means_of("alone", {});
  const Tensor synced = means_of("synced", {"--ranks", "2", "distributed.sync_batch_norm=true"});
  const Tensor apart = means_of("apart", {"--ranks", "2"});
  const auto distance = [&](const Tensor& x) { return amax(abs(x - alone)).item<double>(); };
  EXPECT_LT(distance(synced), 1e-5);
  EXPECT_GT(distance(apart), 1e-3);
}

// A fault of a rank, and how the run must end.
struct Fault {
  const char* name;
  void (*strike)(const fs::path& dir, pid_t pid, size_t rank);
  int code;
  const char* said;
};
const Fault kFaults[] = {
    {"kill", [](const fs::path&, pid_t pid, size_t) { ::kill(pid, SIGKILL); }, 128 + SIGKILL,
     "has ended"},
    {"stop", [](const fs::path&, pid_t pid, size_t) { ::kill(pid, SIGSTOP); }, kExitRanks,
     "within 5 s"},
    {"SIGTERM", [](const fs::path&, pid_t pid, size_t) { ::kill(pid, SIGTERM); }, kExitInterrupted,
     "ended by SIGTERM on rank "},
    {"nan",
     [](const fs::path& dir, pid_t, size_t rank) {
       write_bytes(dir / "nan", concat_to_string(rank));
     },
     kExitData, "(Spoilt) on rank "},
    {"full disk",  // files of this rank cannot grow further, as on a full disk
     [](const fs::path&, pid_t pid, size_t) {
       const rlimit limit{20'000, 20'000};
       ::prlimit(pid, RLIMIT_FSIZE, &limit, nullptr);
     },
     kExitDisk, "cannot "},
};

// TAPER_RANK_FAULTS=100 runs more faults and prints what it does.
TEST_F(Ranks, FaultsAtAnyMomentLeaveARunThatGoesOnWithAnyNumber) {
  const char* asked = std::getenv("TAPER_RANK_FAULTS");
  const size_t faults = asked ? size_t(std::atoi(asked)) : std::size(kFaults);
  dir_.program = TAPER_OWN_PARTS;
  std::string spoilt = kDigitsConfig;
  spoilt.replace(spoilt.find("batch_norm2d"), 0, "spoilt, ");
  write_bytes(dir_ / "spoilt.yaml", spoilt);
  const Words words = {
      "train",          "spoilt.yaml",         "train.shards=4",       "data.train_size=1500",
      "train.epochs=8", "train.eval_every=20", "distributed.timeout=5"};
  const auto with = [&](Words all, const Words& more) {
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  ASSERT_EQ(dir_.taper(with(words, {"--out", "whole"})).code, 0);
  const std::string whole = bytes_of("whole");
  std::mt19937 random(7);
  for (size_t i = 0; i < faults; ++i) {
    const std::string run = concat_to_string("run", i);
    const Fault& fault = kFaults[i % std::size(kFaults)];
    const bool is_disk = fault.code == kExitDisk;  // only the first rank writes
    const size_t victim = is_disk ? 0 : random() % 4;
    const bool is_at_work = i < std::size(kFaults);
    const pid_t job = dir_.start(with(words, {"--ranks", "4", "--out", run}));
    const std::map<size_t, pid_t> ranks = wait_for_ranks(4);
    if (is_at_work) wait_for_line(run, "\"step\":7");
    const std::chrono::milliseconds delay(is_at_work ? 0 : random() % 5000);
    std::this_thread::sleep_for(delay);
    const auto struck = std::chrono::steady_clock::now();
    if (ranks.contains(victim)) fault.strike(dir_ / ".", ranks.at(victim), victim);
    const auto ended = dir_.wait(job);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - struck;
    fs::remove(dir_ / "nan");
    const std::string what =
        concat_to_string("fault ", i, ", ", fault.name, " of rank ", victim, " after ",
                         delay.count(), " ms, code ", ended.code, " in ", took.count(), " s");
    SCOPED_TRACE(concat_to_string(what, "\n", ended.err));
    EXPECT_LT(took.count(), 30);
    if (is_at_work) {
      EXPECT_EQ(ended.code, fault.code);
      EXPECT_NE(ended.err.find(fault.said), std::string::npos);
    }
    const Words again = random() % 3 == 0 ? Words{} : Words{"--ranks", random() % 2 ? "2" : "4"};
    const auto resumed = dir_.taper(with(with(words, {"--out", run, "--resume", "auto"}), again));
    EXPECT_EQ(resumed.code, 0) << resumed.err;
    EXPECT_TRUE(bytes_of(run) == whole);
    if (asked) {
      std::cout << what << "; resumed with " << (again.empty() ? "1" : again[1]) << ": "
                << resumed.code << ", " << (bytes_of(run) == whole ? "the same" : "OTHER")
                << " bytes; " << ended.err.substr(0, ended.err.find('\n')) << std::endl;
    }
    if (!HasFailure()) fs::remove_all(dir_ / run);
  }
}

TEST_F(Ranks, WhatIsWrongIsSaidOnce) {
  const auto says_once = [&](const Words& words, int code, const std::string& part) {
    const auto done = train(words);
    EXPECT_EQ(done.code, code) << done.err;
    const size_t first = done.err.find(part);
    EXPECT_NE(first, std::string::npos) << part << "\nis not in: " << done.err;
    EXPECT_EQ(first, done.err.rfind(part)) << done.err;
  };
  says_once({"digits.yaml", "train.batch_size=33", "--ranks", "2", "--out", "a"}, kExitConfig,
            "not a multiple of the 2");
  says_once({"digits.yaml", "train.lr=3", "--ranks", "2", "--out", "a"}, kExitConfig, "train.lr");
  says_once({"digits.yaml", "train.shards=2", "--ranks", "4", "--out", "a"}, kExitConfig,
            "train.shards: 2 is not a multiple of the 4 ranks");
  says_once({"digits.yaml", "train.shards=2", "distributed.sync_batch_norm=true", "--ranks", "2",
             "--out", "a"},
            kExitConfig, "distributed.sync_batch_norm");
  says_once({"digits.yaml", "device=cuda:1", "--ranks", "2", "--out", "a"}, kExitConfig,
            "is one GPU");
  says_once({"names.yaml", "data.path=nowhere.txt", "--ranks", "2", "--out", "a"}, kExitInput,
            "nowhere.txt");
  says_once({"digits.yaml", "optimizer.lr=1e30", "train.precision=fp32", "train.clip_norm=null",
             "train.ema=null", "--ranks", "2", "--out", "b"},
            kExitData, "became");
  EXPECT_FALSE(fs::exists(dir_ / "a"));
}

TEST_F(Ranks, LaunchersForGpusAreRefusedOnTheCpu) {
  const auto done = dir_.taper({"train", "digits.yaml", "--out", "a"},
                               "export RANK=1 WORLD_SIZE=2 LOCAL_RANK=1;");
  EXPECT_EQ(done.code, kExitDevice) << done.err;
  EXPECT_NE(done.err.find("CPU tensors need mpirun"), std::string::npos) << done.err;
  EXPECT_FALSE(fs::exists(dir_ / "a"));
}

TEST_F(Ranks, OneAloneNeedsNoMpi) {
  for (const char* launcher : {"WORLD_SIZE=1 RANK=0", "PMIX_RANK=0 SLURM_NTASKS=1"}) {
    const auto done =
        dir_.taper({"train", "digits.yaml", "train.epochs=1", "--out", "one"},
                   concat_to_string("export TAPER_MPI_PLUGIN=/nowhere ", launcher, ";"));
    EXPECT_EQ(done.code, 0) << launcher << "\n" << done.err;
  }
}

// Two ranks with different command lines. said_beside() returns their output, with the exit code in
// the last line.
class RanksApart : public Ranks {
 protected:
  std::string said_beside(const std::string& second) const {
    const std::string script = concat_to_string(
        "cd '", (dir_ / ".").string(), "' && export OMPI_ALLOW_RUN_AS_ROOT=1 ",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1; mpirun -n 1 ",
        program_, " train digits.yaml name=a distributed.timeout=5 --out r : -n 1 ", second,
        " > said 2>&1; echo $? >> said");
    EXPECT_EQ(std::system(script.c_str()), 0);
    EXPECT_FALSE(fs::exists(dir_ / "r"));
    return read_bytes(dir_ / "said");
  }
  std::string said_with(const std::string& other) const {
    write_bytes(dir_ / "other.yaml", other);
    return said_beside(program_ + " train other.yaml name=a distributed.timeout=5 --out r");
  }

 private:
  const char* const given_ = std::getenv("TAPER_PROGRAM");
  const std::string program_ = concat_to_string("'", given_ ? given_ : TAPER_PROGRAM, "'");
};

TEST_F(RanksApart, ThatDifferAreRefusedByName) {
  const std::string said = said_with(std::string(kDigitsConfig) + "seed: 3\n");
  EXPECT_NE(said.find("  seed: 0 | 3"), std::string::npos) << said;
  EXPECT_NE(said.find("rank 1 ("), std::string::npos) << said;
  EXPECT_TRUE(said.ends_with("\n2\n")) << said;
}

TEST_F(RanksApart, OneThatHangsBeforeAllHaveMetIsNotWaitedForLong) {
  const std::string said = said_beside("sh -c 'kill -STOP $$'");
  EXPECT_NE(said.find("the start of MPI: not at its end within 5 s"), std::string::npos) << said;
  EXPECT_TRUE(said.ends_with("\n76\n")) << said;
}

TEST_F(RanksApart, ABadConfigOfOneEndsAllWithItsMessage) {
  const std::string said = said_with(std::string(kDigitsConfig) + "sed: 3\n");
  const size_t rank = said.find("rank 1 (");
  EXPECT_NE(rank, std::string::npos) << said;
  EXPECT_NE(said.find("sed", rank), std::string::npos) << said;
  EXPECT_EQ(said.find("rank 1 (", rank + 1), std::string::npos) << said;  // only once
  EXPECT_TRUE(said.ends_with("\n2\n")) << said;
}

TEST_F(Ranks, AFullDiskEndsAllWithItsMessage) {
  const SmallDisk disk(dir_ / "disk");
  if (!disk.mounted) GTEST_SKIP() << "needs permission to mount a small file system";
  const auto into = [&](const std::string& run, const char* setting) {
    return train({"digits.yaml", "train.shards=4", "--ranks", "4", "--out", run, "--resume", "auto",
                  setting});
  };
  // There is room for one checkpoint, but not for two.
  for (const char* setting : {"checkpoint.background=off", "checkpoint.background=on"}) {
    fs::remove_all(dir_ / "disk/run");
    const auto full = into("disk/run", setting);
    EXPECT_EQ(full.code, kExitDisk) << full.err;
    const size_t rank = full.err.find("rank 0 (");
    EXPECT_NE(rank, std::string::npos) << full.err;
    EXPECT_NE(full.err.find("No space left on device", rank), std::string::npos) << full.err;
    EXPECT_EQ(full.err.find("has ended"), std::string::npos) << full.err;
  }
  fs::copy(dir_ / "disk/run", dir_ / "run",
           fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  const auto resumed = into("run", "checkpoint.background=on");
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_NE(resumed.err.find("resum"), std::string::npos) << resumed.err;
  ASSERT_EQ(into("whole", "checkpoint.background=off").code, 0);
  EXPECT_TRUE(bytes_of("run") == bytes_of("whole"));
}

}  // namespace
}  // namespace taper::v0::runner
