// Checkpoints that are written while training goes on: they have the bytes of those for which it
// waits, and whatever reads one waits until it is complete. tests/runner/faults.cpp makes the disk
// slow, so that steps and requests arrive while a checkpoint is written.
#include <chrono>
#include <csignal>
#include <functional>
#include <thread>

#include <gtest/gtest.h>

#include "apps/runner/base/errors.h"
#include "apps/runner/run/checkpoint.h"
#include "apps/runner/run/run_directory.h"
#include "framework/memory/small_blocks.h"
#include "tests/runner/resume_cases.h"
#include "tests/testing.h"
#include "tests/text.h"

namespace taper::v0::runner {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

constexpr const char* kOn = "checkpoint.background=on";
constexpr const char* kOff = "checkpoint.background=off";

class BackgroundSave : public ::testing::Test {
 protected:
  void SetUp() override {
    if (uses_uncached_allocator()) GTEST_SKIP() << "a sanitizer must be loaded before faults.cpp";
    write_inputs(at_);
  }
  // Starts a run in which each call that writes a checkpoint takes that long.
  pid_t start(const std::string& name, const std::string& out, const Words& more,
              int milliseconds) const {
    const std::string run = at_ / out;
    Words words{"train", name + ".yaml", "--out", run};
    words.insert(words.end(), more.begin(), more.end());
    return at_.start(
        words, concat_to_string("export LD_PRELOAD='", TAPER_FAULTS, "' TAPER_FAULT_DIR='", run,
                                "' TAPER_FAULT_LOG='", (at_ / "calls").string(),
                                "' TAPER_FAULT_SLOW=", milliseconds, ";"));
  }
  RunDirectory::Outcome train(const std::string& name, const std::string& out, const Words& more,
                              int milliseconds = 0) const {
    return at_.wait(start(name, out, more, milliseconds));
  }
  // Waits until the condition holds, for at most a minute. Returns whether it holds.
  static bool wait_for(const std::function<bool()>& condition) {
    for (int i = 0; i < 12'000; ++i) {
      if (condition()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return false;
  }
  bool has(const std::string& path) const { return fs::exists(at_ / path); }
  std::string text(const std::string& path) const { return read_bytes(at_ / path); }

  // Expects that two runs have the same checkpoints, except for the setting in config.yaml.
  void expect_same_checkpoints(const std::string& a, const std::string& b) const {
    const std::vector<fs::path> all = list_checkpoints(at_ / a);
    EXPECT_GT(all.size(), 3u);
    EXPECT_EQ(list_checkpoints(at_ / b).size(), all.size());
    EXPECT_EQ(step_of(best_checkpoint(at_ / a)), step_of(best_checkpoint(at_ / b)));
    for (const fs::path& checkpoint : all) {
      const fs::path other = checkpoint_of_step(at_ / b, step_of(checkpoint));
      EXPECT_EQ(damage_of(other), "");
      for (const auto& entry : fs::directory_iterator(checkpoint)) {
        const fs::path name = entry.path().filename();
        if (name == "config.yaml" || name == "CRC32") continue;
        EXPECT_TRUE(read_bytes(entry.path()) == read_bytes(other / name)) << entry.path();
      }
    }
  }
  void expect_same_results(const std::string& a, const std::string& b) const {
    for (const char* file : {"metrics.jsonl", "model.safetensors"}) {
      EXPECT_NE(text(concat_to_string(a, "/", file)), "");
      EXPECT_TRUE(text(concat_to_string(a, "/", file)) == text(concat_to_string(b, "/", file)))
          << file;
    }
  }

  RunDirectory at_;
};

TEST_F(BackgroundSave, HasTheBytesOfTheStepAtWhichItBegan) {
  for (const Device device : test::all_devices()) {
    for (const ResumeCase& c : kResumeCases) {
      SCOPED_TRACE(concat_to_string(c.name, " on ", device));
      for (const char* run : {"off", "on"}) fs::remove_all(at_ / run);
      const Words settings{concat_to_string("device=", device), "checkpoint.keep=1000"};
      Words off = settings, on = settings;
      off.emplace_back(kOff);
      on.emplace_back(kOn);
      const RunDirectory::Outcome first = train(c.name, "off", off);
      ASSERT_EQ(first.code, 0) << first.err;
      const RunDirectory::Outcome second = train(c.name, "on", on, 2);
      ASSERT_EQ(second.code, 0) << second.err;
      expect_same_checkpoints("off", "on");
      expect_same_results("off", "on");
      EXPECT_NO_THROW(verify(at_ / "on"));
    }
  }
}

// The values of a row overflow, so that its loss is not finite in any epoch.
TEST_F(BackgroundSave, IsWaitedForByARollback) {
  std::string rows = "a,b,y\n";
  for (int i = 0; i < 40; ++i)
    rows +=
        concat_to_string(i == 30 ? "3e38" : concat_to_string(i % 5), ",", i % 3, ",", i % 4, "\n");
  write_bytes(at_ / "rows.csv", rows);
  const auto train_with = [&](const char* setting, const std::string& out, int milliseconds) {
    const RunDirectory::Outcome end =
        train("rows", out,
              {"data.standardize=false", "train.shuffle=false", "checkpoint.every=1", setting},
              milliseconds);
    EXPECT_EQ(end.code, kExitData) << end.err;
    return count(end.err, "; rolled back to step ");
  };
  const int rollbacks = train_with(kOff, "off", 0);
  EXPECT_GT(rollbacks, 0);
  EXPECT_EQ(train_with(kOn, "on", 10), rollbacks);
  EXPECT_TRUE(text("off/metrics.jsonl") == text("on/metrics.jsonl"));
}

struct Request {
  const char* name;
  std::vector<int> signals;  // a quarter of a second apart
  int code;
  const char* message;
};
const Request kRequests[] = {
    {"a kill", {SIGKILL}, 128 + SIGKILL, ""},
    {"SIGTERM", {SIGTERM}, 75, ", which is saved; continue with"},
    {"SIGTERM twice", {SIGTERM, SIGTERM}, 143, "checkpoints/step-00000100\n"},
};

// Training goes on to step 300 while the checkpoint of step 200 is written. The losses of step 264
// are read on the way.
TEST_F(BackgroundSave, LeavesCompleteCheckpointsWhateverEndsTheRunMeanwhile) {
  const Words settings{"train.epochs=20", "train.on_nan=stop", "train.eval_every=1000000",
                       "checkpoint={every: 100, keep: 1}"};
  Words on = settings;
  on.insert(on.end(), {kOn, "--resume", "auto"});
  ASSERT_EQ(train("rows", "whole", settings).code, 0);
  for (const Request& request : kRequests) {
    SCOPED_TRACE(request.name);
    fs::remove_all(at_ / "r");
    const pid_t child = start("rows", "r", on, 40);
    EXPECT_TRUE(wait_for([&] {
      return has("r/checkpoints/step-00000100") && has("r/checkpoints/.writing") &&
             contains(text("r/metrics.jsonl"), "\"step\":264,");
    }));
    EXPECT_FALSE(has("r/checkpoints/step-00000200")) << "training has waited for the checkpoint";
    for (size_t i = 0; i < request.signals.size(); ++i) {
      if (i > 0) std::this_thread::sleep_for(std::chrono::milliseconds(250));
      ::kill(child, request.signals[i]);
    }
    const RunDirectory::Outcome end = at_.wait(child);
    EXPECT_EQ(end.code, request.code) << end.err;
    EXPECT_TRUE(contains(end.err, request.message)) << end.err;
    EXPECT_TRUE(newest_checkpoint(at_ / "r"));
    for (const fs::path& checkpoint : list_checkpoints(at_ / "r")) {
      EXPECT_EQ(damage_of(checkpoint), "") << checkpoint;
    }
    const RunDirectory::Outcome again = train("rows", "r", on);
    EXPECT_EQ(again.code, 0) << again.err;
    EXPECT_TRUE(contains(again.err, "resumed from")) << again.err;
    expect_same_results("whole", "r");
  }
}

TEST_F(BackgroundSave, ReportsAFolderThatIsGoneAsAWriteThatIsWaitedForDoes) {
  for (const char* setting : {kOff, kOn}) {
    SCOPED_TRACE(setting);
    const Words words{"train.epochs=100000", "train.on_nan=stop",
                      "checkpoint={every: 100, keep: 1}", setting};
    fs::remove_all(at_ / "r");
    const pid_t child = start("rows", "r", words, 0);
    EXPECT_TRUE(wait_for([&] { return has("r/checkpoints/step-00000100"); }));
    int moved = 0;  // the run may create the folder again before the file is there
    EXPECT_TRUE(wait_for([&] {
      std::error_code ignored;
      fs::rename(at_ / "r/checkpoints", at_ / concat_to_string("r/gone", moved++), ignored);
      write_bytes(at_ / "r/checkpoints", "no folder");
      return fs::is_regular_file(at_ / "r/checkpoints");
    }));
    const RunDirectory::Outcome end = at_.wait(child);
    EXPECT_EQ(end.code, 74) << end.err;
    EXPECT_EQ(count(end.err, "cannot save the checkpoint"), 1) << end.err;
    EXPECT_FALSE(contains(end.err, "the run failed")) << end.err;
    fs::remove_all(at_ / "r");
  }
}

}  // namespace
}  // namespace taper::v0::runner
