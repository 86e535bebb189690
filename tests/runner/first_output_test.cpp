// Each command says at once what it does: on a terminal its first line is printed before it reads
// its data. `python3 tests/bench/first_output.py` measures the times.
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/runner/run_process.h"
#include "tests/text.h"

#ifdef TAPER_PROGRAM

namespace taper::v0::runner {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

// The program on a terminal.
class OnTerminal {
 public:
  OnTerminal(const fs::path& folder, const Words& words) {
    std::vector<char*> argv;
    std::vector<std::string> all{TAPER_PROGRAM};
    all.insert(all.end(), words.begin(), words.end());
    for (std::string& word : all) argv.push_back(word.data());
    argv.push_back(nullptr);
    child_ = ::forkpty(&terminal_, nullptr, nullptr, nullptr);
    if (child_ != 0) return;
    if (::chdir(folder.c_str()) == 0) ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  ~OnTerminal() {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
    ::close(terminal_);
  }
  OnTerminal& operator=(OnTerminal&&) = delete;

  // Reads until the text has been printed or the program has ended. Returns what was printed.
  std::string read_until(const std::string& text) const {
    constexpr int kMostWait = 60'000;  // ms; only a failing test waits that long
    std::string out;
    char part[4096];
    for (pollfd ready{terminal_, POLLIN, 0}; !contains(out, text);) {
      if (::poll(&ready, 1, kMostWait) <= 0) break;
      const ssize_t n = ::read(terminal_, part, sizeof part);
      if (n <= 0) break;
      out.append(part, size_t(n));
    }
    return out;
  }

 private:
  int terminal_ = -1;
  pid_t child_ = -1;
};

class FirstOutput : public ::testing::Test {
 protected:
  // Replaces the file by a pipe to which nobody writes. A program that reads it waits, or refuses
  // it.
  void block(const std::string& name) const {
    fs::remove(at_ / name);
    ASSERT_EQ(::mkfifo((at_ / name).c_str(), 0600), 0);
  }

  RunDirectory at_;
};

TEST_F(FirstOutput, OfEachCommandComesBeforeItReadsItsData) {
  std::string table = "x,y\n";
  for (int i = 0; i < 60; ++i) table += concat_to_string(i * 7 % 20, ",", i % 2 ? "a" : "b", "\n");
  write_bytes(at_ / "t.csv", table);
  write_bytes(at_ / "t.yaml", "device: cpu\ndata: {path: t.csv, target: y}\n");
  const RunDirectory::Outcome run =
      at_.taper({"train", "t.csv", "target=y", "train.epochs=1", "device=cpu", "--out", "runs/r"});
  ASSERT_EQ(run.code, 0) << run.err;
  fs::create_directories(at_ / "many");
  fs::copy(at_ / "runs/r", at_ / "many/r", fs::copy_options::recursive);
  block("t.csv");
  block("many/r/metrics.jsonl");
  struct Row {
    Words words;
    const char* says;
  };
  const Row rows[] = {
      {{"train", "t.csv", "target=y", "device=cpu"}, "reading the data ..."},
      {{"train", "t.csv", "target=y", "--validate"}, "reading the data, without training ..."},
      {{"train", "t.csv", "target=y", "--dry-run", "device=cpu"},
       "reading the data, for two steps"},
      {{"train", "t.csv", "target=y", "--seeds", "2"}, "training 2 runs in runs/t/"},
      {{"sweep", "t.csv", "target=y", "optimizer.lr=0.1|0.2"}, "training 2 runs in runs/t/"},
      {{"lr-find", "t.csv", "target=y", "device=cpu"}, "reading the data ..."},
      {{"inspect", "t.csv", "--target", "y"}, "reading t.csv ..."},
      {{"eval", "runs/r", "--data", "t.csv"}, "reading the data ..."},
      {{"predict", "runs/r", "t.csv"}, "reading the data ..."},
      {{"list", "many"}, "reading the runs in many ..."},
      {{"report", "many"}, "reading the runs ..."},
      {{"record", "t.yaml", "--time", "--to", "speed.json"}, "training run 1 of 32 ..."},
  };
  for (const Row& row : rows) {
    const OnTerminal program(at_ / "", row.words);
    const std::string out = program.read_until(row.says);
    EXPECT_TRUE(contains(out, row.says)) << row.words[0] << "\n" << out;
  }
}

// A file of data takes the place of a config in every command that trains.
TEST_F(FirstOutput, SweepsAndRatesTakeAFileOfData) {
  std::string table = "x,y\n";
  for (int i = 0; i < 80; ++i)
    table += concat_to_string(i * 7 % 20, ",", i % 20 > 9 ? "a" : "b", "\n");
  write_bytes(at_ / "t.csv", table);
  const RunDirectory::Outcome sweep =
      at_.taper({"sweep", "t.csv", "target=y", "train.epochs=1", "device=cpu",
                 "optimizer.lr=0.01|0.02", "--trials", "2"});
  EXPECT_EQ(sweep.code, 0) << sweep.err;
  EXPECT_TRUE(contains(sweep.out, "best: runs/t/")) << sweep.out;
  const RunDirectory::Outcome rate =
      at_.taper({"lr-find", "t.csv", "target=y", "device=cpu", "--steps", "20", "--high", "1"});
  EXPECT_EQ(rate.code, 0) << rate.err;
  write_bytes(at_ / "d.yaml",
              "data: {type: digits, train_size: 200, test_size: 20}\nmodel: {type: mlp, hidden: "
              "[8]}\ntrain: {epochs: 1, batch_size: 32}\n");
  const RunDirectory::Outcome digits =
      at_.taper({"lr-find", "d.yaml", "device=cpu", "--steps", "20", "--high", "1"});
  EXPECT_EQ(digits.code, 0) << digits.err;
  EXPECT_TRUE(contains(digits.out, "proposed: optimizer.lr=")) << digits.out;
}

}  // namespace
}  // namespace taper::v0::runner
#endif
