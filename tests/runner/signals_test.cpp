// Signals to running processes are answered immediately, whatever the run is doing.
#include <chrono>
#include <csignal>
#include <functional>
#include <thread>

#include <gtest/gtest.h>

#include "apps/runner/run/checkpoint.h"
#include "apps/runner/run/run_directory.h"
#include "tests/runner/run_process.h"
#include "tests/text.h"

namespace taper::v0::runner {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;
using Words = std::vector<std::string>;

// The layer `failing` is slow in training or in evaluation, depending on the test.
constexpr const char* kConfig =
    "seed: 3\n"
    "device: cpu\n"
    "threads: 1\n"
    "data: {type: digits, train_size: 60, test_size: 40}\n"
    "model:\n"
    "  type: sequential\n"
    "  layers: [flatten, linear: 16, batch_norm1d, dropout: 0.2, failing: {call: 0}, linear: 10]\n"
    "optimizer: {type: adamw, lr: 0.01}\n"
    "train: {epochs: 4, batch_size: 10, eval_batch_size: 1, eval_every: 12}\n"
    "checkpoint: {every: 2}\n";

class SignalTo : public ::testing::Test {
 protected:
  SignalTo() {
    at_.program = TAPER_OWN_PARTS;
    write_bytes(at_ / "run.yaml", kConfig);
  }
  ~SignalTo() override {
    if (child_ > 0) ::kill(child_, SIGKILL);
    if (child_ > 0) at_.wait(child_);
  }
  void start(const Words& more, const std::string& out = "r") {
    Words words{"train", "run.yaml", "--out", out, "--resume", "auto"};
    words.insert(words.end(), more.begin(), more.end());
    child_ = at_.start(words);
  }
  // Waits until the condition holds, for at most a minute. Returns whether it holds.
  static bool wait_for(const std::function<bool()>& condition) {
    const auto start = Clock::now();
    while (!condition()) {
      if (Clock::now() - start > std::chrono::seconds(60)) return false;
      std::this_thread::sleep_for(Milliseconds(5));
    }
    return true;
  }
  bool says(const std::string& text) const {
    return wait_for([&] { return contains(read_bytes(at_ / "stderr"), text); });
  }
  bool has_checkpoint(int64_t step, const std::string& run = "r") const {
    return wait_for([&] { return fs::exists(checkpoint_of_step(at_ / run, step)); });
  }
  RunDirectory::Outcome end() { return at_.wait(std::exchange(child_, -1)); }
  // Expects that the run, when resumed, ends with the bytes of one that was never stopped.
  void expect_goes_on(const Words& settings) {
    for (const std::string run : {"whole", "r"}) {
      start(settings, run);
      const RunDirectory::Outcome done = end();
      ASSERT_EQ(done.code, 0) << done.err;
    }
    for (const char* file : {"metrics.jsonl", "model.safetensors"}) {
      EXPECT_TRUE(read_bytes(at_ / concat_to_string("r/", file)) ==
                  read_bytes(at_ / concat_to_string("whole/", file)));
    }
  }

  RunDirectory at_;
  pid_t child_ = -1;
};

TEST_F(SignalTo, AStepIsAnsweredAtOnceAndEndsAfterTheStep) {
  const Words slow{"model.layers.4.failing={call: 0, milliseconds: 1500}"};
  for (const auto& [number, line] :
       {std::pair(SIGINT,
                  "taper: SIGINT: stopping after this step; press Ctrl-C again to end at "
                  "once\n"),
        std::pair(SIGTERM,
                  "taper: SIGTERM: stopping after this step; a second SIGTERM ends the run "
                  "at once\n"),
        std::pair(SIGUSR1, "taper: SIGUSR1: stopping after this step\n")}) {
    fs::remove_all(at_ / "r");
    start(slow);
    ASSERT_TRUE(has_checkpoint(2));
    std::this_thread::sleep_for(Milliseconds(50));  // the run is now within a step
    ::kill(child_, number);
    EXPECT_TRUE(says(line)) << read_bytes(at_ / "stderr");
    EXPECT_FALSE(fs::exists(checkpoint_of_step(at_ / "r", 3))) << "the step has already ended";
    const RunDirectory::Outcome done = end();
    EXPECT_EQ(done.code, 75) << done.err;
    EXPECT_TRUE(contains(done.err, "ended by SIG") && contains(done.err, "which is saved"));
  }
}

// `timeout` sends SIGTERM both to its child and to the child's process group.
TEST_F(SignalTo, ASigtermThatIsSentTwiceAtOnceCountsAsOne) {
  start({"model.layers.4.failing={call: 0, milliseconds: 300}"});
  ASSERT_TRUE(has_checkpoint(2));
  ::kill(child_, SIGTERM);
  ::kill(child_, SIGTERM);
  EXPECT_EQ(end().code, 75);
}

TEST_F(SignalTo, ASecondOneEndsAtOnceAndNamesTheNewestCheckpoint) {
  struct Row {
    int first, second, code;
  };
  for (const auto& [first, second, code] : {Row{SIGINT, SIGINT, 130}, Row{SIGTERM, SIGTERM, 143},
                                            Row{SIGINT, SIGTERM, 143}, Row{SIGTERM, SIGINT, 130}}) {
    SCOPED_TRACE(code);
    fs::remove_all(at_ / "r");
    start({"model.layers.4.failing={call: 0, milliseconds: 2500}"});
    ASSERT_TRUE(has_checkpoint(2));
    std::this_thread::sleep_for(Milliseconds(100));
    ::kill(child_, first);
    std::this_thread::sleep_for(Milliseconds(250));
    ::kill(child_, second);
    const RunDirectory::Outcome done = end();
    EXPECT_EQ(done.code, code) << done.err;
    EXPECT_TRUE(
        done.err.ends_with(" again: ended at once; the newest checkpoint is "
                           "r/checkpoints/step-00000002\n"))
        << done.err;
    EXPECT_EQ(newest_checkpoint(at_ / "r"), checkpoint_of_step(at_ / "r", 2));
  }
}

// 40 batches of 50 ms. The trained step is saved, and the evaluation is repeated.
TEST_F(SignalTo, AnEvaluationEndsAfterItsBatch) {
  const Words slow{"model.layers.4.failing={in: evaluation, call: 0, milliseconds: 50}",
                   "checkpoint.every=5"};
  for (const int number : {SIGINT, SIGTERM}) {
    fs::remove_all(at_ / "r");
    fs::remove_all(at_ / "whole");
    start(slow);
    ASSERT_TRUE(has_checkpoint(10));
    std::this_thread::sleep_for(Milliseconds(700));  // now two steps later
    ::kill(child_, number);
    EXPECT_TRUE(says("stopping after this batch of the evaluation"));
    const RunDirectory::Outcome done = end();
    EXPECT_EQ(done.code, 75) << done.err;
    EXPECT_TRUE(contains(done.err, "step 12 is saved in r/checkpoints/step-00000012")) << done.err;
    EXPECT_TRUE(contains(done.err, "in the evaluation after step 12 of 24")) << done.err;
    expect_goes_on(slow);
  }
}

TEST_F(SignalTo, TheReadingOfATableEnds) {
  std::string rows = "a,b,c,y\n";
  for (int i = 0; i < 1'500'000; ++i) rows += "0.1234,7.5,-3.25,1\n0.4321,2.5,-1.25,0\n";
  write_bytes(at_ / "rows.csv", rows);
  const Words table{"data={type: csv, path: rows.csv}", "model={type: mlp, hidden: [4]}"};
  start(table);
  std::this_thread::sleep_for(Milliseconds(600));
  ASSERT_FALSE(fs::exists(at_ / "r")) << "reading ended too early";
  ::kill(child_, SIGINT);
  const RunDirectory::Outcome done = end();
  EXPECT_EQ(done.code, 75) << done.err;
  EXPECT_TRUE(contains(done.err, "taper: SIGINT: stopping; press Ctrl-C again")) << done.err;
  EXPECT_TRUE(contains(done.err, "ended by SIGINT before the first step")) << done.err;
  EXPECT_FALSE(fs::exists(at_ / "r"));
}

// --- the lock of a process that is about to end ---

TEST_F(SignalTo, AHolderOfTheLockThatIsEndingIsWaitedFor) {
  fs::create_directories(at_ / "r");
  const pid_t holder = ::fork();
  if (holder == 0) {
    const std::optional<RunLock> lock = RunLock::of(at_ / "r");
    write_bytes(at_ / "held", "");
    std::this_thread::sleep_for(std::chrono::seconds(1));
    ::_exit(0);
  }
  ASSERT_TRUE(wait_for([&] { return fs::exists(at_ / "held"); }));
  EXPECT_TRUE(RunLock::of(at_ / "r"));
  ::waitpid(holder, nullptr, 0);
}

TEST_F(SignalTo, ARunGoesOnWhileAKilledOneIsStillEnding) {
  start({"model.layers.4.failing={call: 0, milliseconds: 100}"});
  ASSERT_TRUE(has_checkpoint(2));
  ::kill(child_, SIGSTOP);  // keeps its lock, like a process that is about to end
  std::thread killer([child = child_] {
    std::this_thread::sleep_for(std::chrono::seconds(2));
    ::kill(child, SIGKILL);
  });
  const RunDirectory::Outcome resumed =
      at_.taper({"train", "run.yaml", "--out", "r", "--resume", "auto",
                 "model.layers.4.failing={call: 0, milliseconds: 100}"});
  killer.join();
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_TRUE(contains(resumed.err, "resumed from")) << resumed.err;
}

}  // namespace
}  // namespace taper::v0::runner
