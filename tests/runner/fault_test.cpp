// Lets each call of a run that writes, syncs or renames a file fail in turn. The run must end with
// the documented code and a message that names the path, and must continue from there without
// losing anything. So must a run that is killed in such a call. With TAPER_FAULTS_ALL=1 every call
// fails in each way, in resumed runs, too.
#include <algorithm>
#include <csignal>
#include <functional>
#include <iterator>
#include <sstream>

#include <gtest/gtest.h>

#include "apps/runner/run/run_directory.h"
#include "framework/memory/small_blocks.h"
#include "tests/runner/run_process.h"

namespace taper::v0::runner {
namespace {

namespace fs = std::filesystem;

// Two steps, with an evaluation and a checkpoint after each.
constexpr const char* kFaulty =
    "device: cpu\n"
    "threads: 1\n"
    "data: {type: csv, path: rows.csv, task: regression}\n"
    "model: {type: mlp, hidden: []}\n"
    "optimizer: {type: sgd, lr: 0.01}\n"
    "train: {epochs: 1, batch_size: 8}\n"
    "checkpoint: {every: 1, keep: 1}\n";

// How a call fails: once, like all later ones, or by the end of the process.
struct Failure {
  const char* name;
  const char* setting;
  int code;
};
constexpr Failure kFailures[] = {{"an error of", "", 74},
                                 {"a full disk from", " TAPER_FAULT_FULL=1", 74},
                                 {"a kill in", " TAPER_FAULT_KILL=1", 128 + SIGKILL}};

class Faults : public ::testing::Test {
 protected:
  Faults() {
    std::string rows = "a,y\n";
    for (int i = 0; i < 20; ++i) rows += concat_to_string(i % 5, ",", i % 5 * 2 + 1, "\n");
    write_bytes(at_ / "rows.csv", rows);
    write_bytes(at_ / "tiny.yaml", kFaulty);
  }

  // Trains into r. `more` are settings for tests/runner/faults.cpp.
  RunDirectory::Outcome train(const std::string& more, const std::vector<std::string>& words = {}) {
    std::vector<std::string> all{"train", "tiny.yaml", "--out", run_.string()};
    all.insert(all.end(), words.begin(), words.end());
    fs::remove(at_ / "calls");
    const std::string faults = concat_to_string(
        "export LD_PRELOAD='", TAPER_FAULTS, "' ASAN_OPTIONS=verify_asan_link_order=0 ",
        "TAPER_FAULT_DIR='", run_.string(), "' TAPER_FAULT_LOG='", (at_ / "calls").string(), "' ",
        more, ";");
    return at_.taper(all, faults);
  }
  std::vector<std::string> calls() const {
    std::vector<std::string> out;
    std::istringstream lines(read_bytes(at_ / "calls"));
    for (std::string line; std::getline(lines, line);) out.push_back(line);
    return out;
  }
  void remove_runs() {
    for (const auto& entry : fs::directory_iterator(run_.parent_path())) {
      const std::string name = entry.path().filename();
      if (name == "r" || name.starts_with("r.")) fs::remove_all(entry.path());
    }
  }
  void expect_whole() {
    EXPECT_EQ(read_bytes(run_ / "metrics.jsonl"), metrics_);
    EXPECT_EQ(read_bytes(run_ / "model.safetensors"), model_);
    EXPECT_NO_THROW(verify(run_));
  }
  // Lets a call fail. Returns whether that ended the run, which then continues.
  bool fail_call(size_t number, const Failure& failure, const std::vector<std::string>& words) {
    const RunDirectory::Outcome end =
        train(concat_to_string("TAPER_FAULT_AT=", number, failure.setting), words);
    const std::vector<std::string> seen = calls();
    SCOPED_TRACE(concat_to_string(
        failure.name, " ", number <= seen.size() ? seen[number - 1] : "nothing", " on: ", end.err));
    EXPECT_TRUE(end.code == 0 || end.code == failure.code) << end.code;
    if (end.code == 0) return expect_whole(), false;
    if (failure.code == 74) {
      EXPECT_NE(end.err.find(run_.string()), std::string::npos) << "the message names no path";
    }
    const RunDirectory::Outcome again =
        at_.taper({"train", "tiny.yaml", "--out", run_.string(), "--resume", "auto"});
    EXPECT_EQ(again.code, 0) << again.err;
    expect_whole();
    return true;
  }
  // Lets each call fail in turn. `prepare` creates the state from which each run begins.
  void fail_each(const std::vector<std::string>& words, const std::function<void()>& prepare) {
    prepare();
    ASSERT_EQ(train("", words).code, 0);
    const size_t count = calls().size();
    EXPECT_GT(count, 60u) << "the calls were not intercepted";
    int refused = 0;
    for (size_t i = 1; i <= count && !HasFailure(); ++i) {
      for (size_t way = 0; way < std::size(kFailures); ++way) {
        // Neighboring calls behave similarly, so only every second one fails, in one of the ways.
        if (!all_ && (i % 2 == 0 || way != i / 2 % std::size(kFailures))) continue;
        prepare();
        refused += fail_call(i, kFailures[way], words);
      }
    }
    EXPECT_GT(refused, int(count) / 3);
  }

  RunDirectory at_;
  const fs::path run_ = at_ / "r";
  std::string metrics_, model_;
  const bool all_ = std::getenv("TAPER_FAULTS_ALL") != nullptr;
};

TEST_F(Faults, OfEveryWriteLeaveARunThatGoesOn) {
  if (uses_uncached_allocator()) GTEST_SKIP() << "a sanitizer must be loaded before faults.cpp";
  ASSERT_EQ(train("").code, 0);
  metrics_ = read_bytes(run_ / "metrics.jsonl");
  model_ = read_bytes(run_ / "model.safetensors");
  ASSERT_NE(model_, "");
  for (const char* setting : {"checkpoint.background=off", "checkpoint.background=on"}) {
    SCOPED_TRACE(setting);
    fail_each({setting}, [&] { remove_runs(); });
  }
  if (!all_ || HasFailure()) return;
  // Creates a run that ended after its first checkpoint, to be resumed.
  remove_runs();
  ASSERT_EQ(train("").code, 0);
  const std::vector<std::string> all = calls();
  const auto saved = std::ranges::find_if(
      all, [](const std::string& call) { return call.ends_with("checkpoints/step-00000001"); });
  ASSERT_NE(saved, all.end());
  remove_runs();
  ASSERT_EQ(train(concat_to_string("TAPER_FAULT_AT=", saved - all.begin() + 8)).code, 74);
  ASSERT_TRUE(fs::exists(run_ / "checkpoints/step-00000001"));
  fs::rename(run_, at_ / "half");
  fail_each({"--resume", "auto"}, [&] {
    remove_runs();
    fs::copy(at_ / "half", run_, fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  });
}

}  // namespace
}  // namespace taper::v0::runner
