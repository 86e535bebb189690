// Runs that are killed and resumed give the bytes of runs that were not. TAPER_KILLS=200 runs a
// longer test.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <random>
#include <thread>

#include <gtest/gtest.h>
#include <pty.h>

#include "apps/runner/base/errors.h"
#include "apps/runner/base/string_utils.h"
#include "apps/runner/run/checkpoint.h"
#include "apps/runner/run/signals.h"
#include "data/images/images.h"
#include "data/tables/csv.h"
#include "framework/base/cancel.h"
#include "tests/runner/resume_cases.h"
#include "tests/text.h"

namespace taper::v0::runner {
namespace {

namespace fs = std::filesystem;
using Seconds = std::chrono::duration<double>;
using Words = std::vector<std::string>;

class Resume : public ::testing::Test {
 protected:
  Resume() { write_inputs(at_); }

  RunDirectory::Outcome train(const std::string& name, const std::string& out,
                              std::vector<std::string> more = {},
                              const std::string& before = "") const {
    std::vector<std::string> words{"train", name + ".yaml", "--out", out};
    words.insert(words.end(), more.begin(), more.end());
    return at_.taper(words, before);
  }
  void expect_same(const std::string& a, const std::string& b) const {
    for (const std::string file : {"metrics.jsonl", "model.safetensors"}) {
      const std::string x = read_bytes(at_ / concat_to_string(a, "/", file));
      EXPECT_NE(x, "") << a << "/" << file;
      EXPECT_TRUE(x == read_bytes(at_ / concat_to_string(b, "/", file)))
          << a << " and " << b << ": " << file;
    }
  }
  std::string exit_of(const std::string& run) const {
    return read_bytes(at_ / (run + "/exit.json"));
  }

  RunDirectory at_;
};

// --- at random moments ---

// Repeatedly starts and kills one run until it ends by itself. run() returns the number of kills.
class Killer {
 public:
  Killer(const RunDirectory& at, uint64_t seed) : at_(at), random_(seed) {}

  int run(const std::string& name, const std::string& out, double seconds, int most,
          const std::string& setting = "checkpoint.background=auto") {
    std::uniform_real_distribution<double> moment(0, seconds);
    int kills = 0;
    while (true) {
      const pid_t child =
          at_.start({"train", name + ".yaml", "--out", out, "--resume", "auto", setting});
      const int signal = kSignals[random_() % 5];
      if (kills < most) {
        std::this_thread::sleep_for(Seconds(moment(random_)));
        ::kill(child, signal);
      }
      const RunDirectory::Outcome end = at_.wait(child);
      if (end.code == 0) return kills;
      ++kills;
      // Before the run handles signals, a signal kills it.
      EXPECT_TRUE(end.code == 128 + signal || (end.code == 75 && signal != SIGKILL))
          << end.code << ": " << end.err;
      if (end.code == 75) {
        ++saved;
        // A run that has not begun has nothing to save.
        EXPECT_TRUE(contains(read_bytes(at_ / (out + "/exit.json")), "\"code\": 75") ||
                    contains(end.err, "before the first step"))
            << end.err;
      }
      if (::testing::Test::HasFailure()) return kills;
    }
  }

  int saved = 0;  // number of runs that ended with code 75

 private:
  static constexpr int kSignals[] = {SIGKILL, SIGKILL, SIGTERM, SIGINT, SIGUSR1};
  const RunDirectory& at_;
  std::mt19937_64 random_;
};

TEST_F(Resume, KilledAtAnyMomentARunEndsWithTheSameBytes) {
  const char* set = std::getenv("TAPER_KILLS");
  const int wanted = set ? std::atoi(set) : 20;
  double seconds[std::size(kResumeCases)];
  for (size_t i = 0; i < std::size(kResumeCases); ++i) {
    const auto start = std::chrono::steady_clock::now();
    const RunDirectory::Outcome whole =
        train(kResumeCases[i].name, concat_to_string("whole_", kResumeCases[i].name));
    ASSERT_EQ(whole.code, 0) << whole.err;
    seconds[i] = Seconds(std::chrono::steady_clock::now() - start).count();
  }
  Killer killer(at_, 1);
  int kills = 0, runs = 0;
  for (; kills < wanted && !HasFailure(); ++runs) {
    const size_t i = size_t(runs) % std::size(kResumeCases);
    const std::string name = kResumeCases[i].name, out = concat_to_string("run", runs);
    const bool in_background = runs / std::size(kResumeCases) % 2 == 0;
    const std::string setting =
        concat_to_string("checkpoint.background=", in_background ? "on" : "off");
    SCOPED_TRACE(concat_to_string(name, " in ", out, " with ", setting));
    kills += killer.run(name, out, seconds[i], wanted - kills, setting);
    expect_same("whole_" + name, out);
    fs::remove_all(at_ / out);
  }
  std::printf("%d kills of %d runs, %d of them saved and ended with 75\n", kills, runs,
              killer.saved);
}

// --- an optimizer that a program adds ---

TEST_F(Resume, AnOptimizerOfAProgramsOwnGoesOnWithTheSameBytes) {
  EXPECT_EQ(train("own", "unknown").code, 2);
  at_.program = TAPER_OWN_PARTS;
  const auto start = std::chrono::steady_clock::now();
  const RunDirectory::Outcome whole = train("own", "whole");
  const double seconds = Seconds(std::chrono::steady_clock::now() - start).count();
  ASSERT_EQ(whole.code, 0) << whole.err;
  const fs::path saved = *newest_checkpoint(at_ / "whole") / "optimizer.safetensors";
  for (const char* name : {"state.0.slow_param", "state.3.step", "param_groups.0.alpha"}) {
    EXPECT_TRUE(contains(read_bytes(saved), name)) << name;
  }
  // A run that ended early as configured, and one that was killed.
  ASSERT_EQ(train("own", "ended", {"train.epochs=2"}).code, 0);
  const RunDirectory::Outcome resumed = train("own", "ended", {"--resume", "auto"});
  EXPECT_TRUE(contains(resumed.err, "resumed from")) << resumed.err;
  expect_same("whole", "ended");
  Killer(at_, 2).run("own", "killed", seconds, 4);
  expect_same("whole", "killed");
}

// --- signals ---

TEST_F(Resume, ASignalSavesAndEndsWith75) {
  const std::string long_run = "train.epochs=100000";
  for (const auto& [signal, name] : {std::pair(SIGTERM, "SIGTERM"), std::pair(SIGINT, "SIGINT"),
                                     std::pair(SIGUSR1, "SIGUSR1"), std::pair(SIGHUP, "SIGHUP")}) {
    const pid_t child = at_.start({"train", "rows.yaml", long_run, "--out", name});
    const fs::path first = at_ / concat_to_string(name, "/checkpoints/step-00000000");
    for (int i = 0; i < 4000 && !fs::exists(first); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    ::kill(child, signal);
    const RunDirectory::Outcome end = at_.wait(child);
    EXPECT_EQ(end.code, 75) << end.err;
    EXPECT_TRUE(contains(end.err, name) && contains(end.err, "--resume auto")) << end.err;
    EXPECT_TRUE(contains(exit_of(name), "\"code\": 75")) << exit_of(name);
    EXPECT_TRUE(newest_checkpoint(at_ / name));
  }
}

// Writing to the lost terminal then fails, too.
TEST_F(Resume, ALostTerminalSavesAndEndsWith75) {
  int terminal = -1;
  const pid_t outer = ::forkpty(&terminal, nullptr, nullptr, nullptr);
  if (outer == 0) {  // the leader of the session, to which the kernel sends the signal
    at_.become({"train", "rows.yaml", "train.epochs=100000",
                "train.early_stopping.patience=1000000", "--out", "r"},
               "export TERM=xterm; exec 2>/dev/tty;");
  }
  for (int i = 0; i < 4000 && !fs::exists(at_ / "r/checkpoints/step-00000000"); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // the bar is visible by now
  ::close(terminal);
  int status = 0;
  ::waitpid(outer, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 75);
  EXPECT_TRUE(contains(exit_of("r"), "SIGHUP")) << exit_of("r");
}

TEST(Signals, ASecondSigintEndsAtOnce) {
  const pid_t child = ::fork();
  if (child == 0) {
    const SignalGuard signals;
    ::raise(SIGINT);
    if (SignalGuard::received() != "SIGINT") ::_exit(1);
    ::raise(SIGINT);
    ::_exit(2);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 128 + SIGINT);
}

TEST(Signals, ThatATerminalIsLostMayBeIgnored) {
  const auto before = ::signal(SIGHUP, SIG_IGN);  // as under nohup
  {
    const SignalGuard signals;
    ::raise(SIGHUP);
    EXPECT_EQ(SignalGuard::received(), "");
  }
  ::signal(SIGHUP, before);
}

TEST(Signals, LoopsBeforeTheRunHearThem) {
  EXPECT_NO_THROW(check_stop());
  {
    const SignalGuard signals;
    EXPECT_NO_THROW(check_stop());
    ::raise(SIGTERM);
    EXPECT_THROW(check_stop(), Interrupted);
  }
  EXPECT_NO_THROW(check_stop());
}

// Reading stops at the signal, however large the file is. Here the first rows of a small one
// suffice.
TEST_F(Resume, ASignalEndsTheReadingOfATableOrOfImages) {
  data::Csv table;
  table.path = (at_ / "t.csv").string();
  std::ofstream(table.path) << "a,y\n1,0\n2,1\n3,0\n4,1\n";
  const std::string images = (at_ / "images").string();
  std::ofstream(images, std::ios::binary)
      << std::string("\0\0\x08\3\0\0\0\2\0\0\0\1\0\0\0\1", 16) << "ab";
  data::Idx pictures;
  pictures.train_images = images;
  EXPECT_NO_THROW(data::read_csv(table.path, table));
  EXPECT_NO_THROW(data::read_idx(images));
  const SignalGuard signals;
  ::raise(SIGTERM);
  EXPECT_THROW(table.load(1), Interrupted);
  EXPECT_THROW(pictures.load(1), Interrupted);
}

TEST(Signals, ListeningEndsWithTheScope) {
  EXPECT_EQ(SignalGuard::received(), "");
  {
    const SignalGuard signals;
    ::raise(SIGUSR1);
    EXPECT_EQ(SignalGuard::received(), "SIGUSR1");
  }
  struct sigaction now {};
  ::sigaction(SIGUSR1, nullptr, &now);
  EXPECT_EQ(now.sa_handler, SIG_DFL);
  const SignalGuard again;
  EXPECT_EQ(SignalGuard::received(), "");
}

// --- damage ---

TEST_F(Resume, ADamagedCheckpointIsNamedAndTheOneBeforeIsUsed) {
  ASSERT_EQ(train("rows", "whole").code, 0);
  ASSERT_EQ(train("rows", "run").code, 0);
  const fs::path newest = *newest_checkpoint(at_ / "run");
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(newest)) files.push_back(entry.path().filename());
  ASSERT_EQ(files.size(), 6u);
  for (size_t i = 0; i < files.size(); ++i) {
    std::string bytes = read_bytes(newest / files[i]);
    if (i % 2 == 0) bytes.resize(bytes.size() / 2);
    if (i % 2 == 1) bytes[bytes.size() / 2] = char(bytes[bytes.size() / 2] ^ 4);
    write_bytes(newest / files[i], bytes);
    const RunDirectory::Outcome end = train("rows", "run", {"--resume", "auto"});
    EXPECT_EQ(end.code, 0) << end.err;
    EXPECT_TRUE(contains(end.err, files[i]) && contains(end.err, "was skipped")) << end.err;
    EXPECT_TRUE(contains(end.err, "resumed from")) << end.err;
    expect_same("whole", "run");
  }
}

// --- the checkpoint to resume from ---

TEST_F(Resume, FromTheLastTheBestOrAPath) {
  ASSERT_EQ(train("rows", "whole").code, 0);
  const fs::path best = fs::canonical(best_checkpoint(at_ / "whole"));
  const std::string older = list_checkpoints(at_ / "whole").back();
  fs::copy(at_ / "whole", at_ / "run",
           fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  for (const std::string from : {"last", "best", "auto"}) {
    const RunDirectory::Outcome end = train("rows", "run", {"--resume", from});
    EXPECT_EQ(end.code, 0) << end.err;
    expect_same("whole", "run");
  }
  // Into a new directory, which gets the metrics up to that step.
  EXPECT_EQ(train("rows", "branch", {"--resume", older}).code, 0);
  expect_same("whole", "branch");
  EXPECT_TRUE(fs::exists(older));
}

TEST_F(Resume, WhatIsNotThereIsNamed) {
  const RunDirectory::Outcome last = train("rows", "new", {"--resume", "last"});
  EXPECT_EQ(last.code, 66);
  EXPECT_TRUE(contains(last.err, "no undamaged checkpoint in 'new'")) << last.err;
  const RunDirectory::Outcome path = train("rows", "new", {"--resume", "no/such/path"});
  EXPECT_EQ(path.code, 66);
  EXPECT_TRUE(contains(path.err, "no/such/path")) << path.err;
  EXPECT_FALSE(fs::exists(at_ / "new"));
  EXPECT_EQ(train("rows", "new", {"train.epochs=1", "--resume", "auto"}).code, 0);
}

TEST_F(Resume, AnotherConfigIsRefusedByName) {
  ASSERT_EQ(train("rows", "run").code, 0);
  const std::string before = read_bytes(at_ / "run/metrics.jsonl");
  const RunDirectory::Outcome end =
      train("rows", "run", {"optimizer.lr=0.5", "train.batch_size=16", "--resume", "auto"});
  EXPECT_EQ(end.code, 2);
  for (const char* part : {"optimizer.lr: 0.02 | 0.5", "train.batch_size: 8 | 16"}) {
    EXPECT_TRUE(contains(end.err, part)) << end.err;
  }
  EXPECT_EQ(read_bytes(at_ / "run/metrics.jsonl"), before);
}

TEST_F(Resume, ALongerRunGoesOnAsIfItHadBeenPlannedSo) {
  ASSERT_EQ(train("rows", "whole").code, 0);
  ASSERT_EQ(train("rows", "run", {"train.epochs=5", "checkpoint.keep=1"}).code, 0);
  ASSERT_EQ(train("rows", "run", {"--resume", "auto"}).code, 0);
  expect_same("whole", "run");
}

TEST_F(Resume, ARunThatIsShorterThanItHasRunIsRefused) {
  ASSERT_EQ(train("rows", "r").code, 0);
  const std::string config = read_bytes(at_ / "r/config.yaml");
  const RunDirectory::Outcome end = train("rows", "r", {"train.epochs=1", "--resume", "auto"});
  EXPECT_EQ(end.code, 2) << end.err;
  EXPECT_TRUE(contains(
      end.err, "the checkpoint has 320 steps and the run only 40: nothing is left to train"))
      << end.err;
  EXPECT_EQ(read_bytes(at_ / "r/config.yaml"), config);
  EXPECT_EQ(train("rows", "r", {"--resume", "auto"}).code, 0)
      << "the run is finished and stays unchanged";
}

TEST_F(Resume, NoProcIsNeeded) {
#ifdef TAPER_SANITIZED
  GTEST_SKIP() << "the sanitizers read their options and the threads to check from /proc";
#endif
  if (std::system("unshare -m true 2> /dev/null") != 0) GTEST_SKIP() << "needs permission to mount";
  const RunDirectory::Outcome end =
      train("rows", "r", {"train.epochs=1"},
            "unshare -m sh -c 'mount -t tmpfs none /proc && exec \"$@\"'");
  EXPECT_EQ(end.code, 0) << end.err;
  EXPECT_FALSE(contains(read_bytes(at_ / "r/env.json"), "\"command\""));
}

TEST_F(Resume, ShortenedMetricsAreNamed) {
  ASSERT_EQ(train("rows", "run").code, 0);
  fs::resize_file(at_ / "run/metrics.jsonl", 100);
  const RunDirectory::Outcome end = train("rows", "run", {"--resume", "auto"});
  EXPECT_EQ(end.code, 66);
  EXPECT_TRUE(contains(end.err, "metrics.jsonl' has 100 bytes")) << end.err;
  EXPECT_TRUE(contains(exit_of("run"), "\"code\": 66")) << exit_of("run");
}

// --- a full disk ---

TEST_F(Resume, ARunWithoutRoomEndsWith74) {
  ASSERT_EQ(train("digits", "run", {"train.epochs=1"}).code, 0);
  const fs::path newest = *newest_checkpoint(at_ / "run");
  for (const char* setting : {"checkpoint.background=off", "checkpoint.background=on"}) {
    // Files are limited to 16 KiB; the model is larger.
    const RunDirectory::Outcome full =
        train("digits", "run", {"--resume", "auto", setting}, "trap '' XFSZ; ulimit -f 32;");
    EXPECT_EQ(full.code, 74) << full.err;
    for (const char* part : {"cannot save the checkpoint", "bytes", "are free", "--resume auto"}) {
      EXPECT_TRUE(contains(full.err, part)) << full.err;
    }
    EXPECT_TRUE(contains(exit_of("run"), "\"code\": 74"));
    EXPECT_EQ(newest_checkpoint(at_ / "run"), newest);
    EXPECT_FALSE(fs::exists(at_ / "run/checkpoints/.writing"));
  }
}

// When a file next to a run, or stdout, cannot be written, the message names it, and no partial
// file remains.
TEST_F(Resume, NoRoomForWhatIsExportedOrPrintedEndsWith74) {
  ASSERT_EQ(train("digits", "run", {"train.epochs=1"}).code, 0);
  for (const char* command :
       {"export run --to pt -o model", "export run --to onnx -o model", "report run -o model"}) {
    const std::vector<std::string> words = lines_of(command, ' ');
    const RunDirectory::Outcome full = at_.taper(words, "trap '' XFSZ; ulimit -f 4;");
    EXPECT_EQ(full.code, contains(full.err, "built without") ? 2 : 74) << full.err;
    EXPECT_TRUE(contains(full.err, "built without") ||
                contains(full.err, "model: cannot write: File too large; the file needs "))
        << full.err;
    for (const auto& file : fs::directory_iterator(at_ / ".")) {
      EXPECT_FALSE(file.path().filename().string().starts_with("model")) << file.path();
    }
  }
  for (const char* command :
       {"info", "schema", "schema --markdown", "eval run", "--help", "--version", "verify run",
        "report run -o page", "train digits.yaml --print-config"}) {
    const RunDirectory::Outcome full = at_.taper(lines_of(command, ' '), "exec > /dev/full;");
    EXPECT_EQ(full.code, 74) << command << ": " << full.err;
    EXPECT_TRUE(contains(full.err, "cannot write to stdout: No space left")) << full.err;
  }
  // No file of the run gets the number of the closed descriptor.
  const RunDirectory::Outcome closed = train("digits", "mute", {"train.epochs=1"}, "exec >&-;");
  EXPECT_EQ(closed.code, 74) << closed.err;
  EXPECT_TRUE(contains(closed.err, "cannot write to stdout: Bad file descriptor")) << closed.err;
  EXPECT_EQ(at_.taper({"verify", "mute"}).code, 0);
}

TEST_F(Resume, AFullDiskLeavesTheOlderCheckpointsWhole) {
  const SmallDisk disk(at_ / "disk");
  if (!disk.mounted) GTEST_SKIP() << "needs permission to mount a small file system";
  for (const char* setting : {"checkpoint.background=off", "checkpoint.background=on"}) {
    fs::remove_all(at_ / "disk/run");
    // A checkpoint has about 440 KB, so one fits and two do not.
    const RunDirectory::Outcome full = train("digits", "disk/run", {setting});
    EXPECT_EQ(full.code, 74) << full.err;
    EXPECT_TRUE(contains(full.err, "No space left on device")) << full.err;
    const auto newest = newest_checkpoint(at_ / "disk/run");
    ASSERT_TRUE(newest);
    EXPECT_EQ(step_of(*newest), 3);
    EXPECT_EQ(list_checkpoints(at_ / "disk/run").size(), 1u);
    EXPECT_FALSE(fs::exists(at_ / "disk/run/checkpoints/.writing"));
  }
}

}  // namespace
}  // namespace taper::v0::runner
