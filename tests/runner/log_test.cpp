// The destinations of a run's log messages: the console, the log file, the logger of a host
// program.
#include "framework/base/log.h"

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <pty.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "apps/runner/base/errors.h"
#include "apps/runner/base/string_utils.h"
#include "apps/runner/run/log_sink.h"
#include "framework/base/log.h"
#include "tests/runner/run_process.h"
#include "tests/testing.h"
#include "tests/text.h"

namespace taper::v0::runner {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// schedule.warmup is longer than the run, which causes a warning before the run's directory exists.
constexpr const char* kConfig =
    "seed: 3\ndevice: cpu\ndata: {type: digits, train_size: 64, test_size: 16}\n"
    "model: {type: mlp, hidden: [8]}\noptimizer: {type: sgd, lr: 0.1}\n"
    "schedule: {type: cosine, warmup: 1000}\ntrain: {epochs: 2, batch_size: 16}\n";

class LogOfRun : public testing::Test {
 protected:
  LogOfRun() { write_bytes(at_ / "run.yaml", kConfig); }

  RunDirectory::Outcome train(std::vector<std::string> words, const std::string& out = "r") const {
    words.insert(words.begin(), {"train", "run.yaml", "--out", out});
    return at_.taper(words);
  }
  std::string text(const std::string& file) const { return read_bytes(at_ / file); }

  RunDirectory at_;
};

TEST_F(LogOfRun, TheFileHasWarningsThatCameBeforeItsDirectory) {
  const auto done = train({});
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_TRUE(contains(done.err, "warning: schedule.warmup is 1000 steps")) << done.err;
  const std::vector<std::string> lines = lines_of(text("r/log.txt"));
  const auto is_warning = [](const std::string& line) {
    return line.substr(19, 26) == " warning: schedule.warmup ";
  };
  EXPECT_EQ(std::ranges::count_if(lines, is_warning), 1) << text("r/log.txt");
  EXPECT_TRUE(contains(text("r/log.txt"), " info: model: "));
}

TEST_F(LogOfRun, LevelsDecideWhatEachSinkHas) {
  struct Row {
    std::vector<std::string> words;
    bool console_has_info, console_has_warnings, file_has_info, file_has_warnings;
  };
  const Row rows[] = {
      {{}, true, true, true, true},
      {{"log.level=warn"}, false, true, false, true},
      {{"log.level=error"}, false, false, false, false},
      {{"log.console=false"}, false, false, true, true},
      {{"--quiet"}, false, true, true, true},
      {{"--log-level", "error"}, false, false, true, true},
      {{"log.level=error", "--log-level", "info"}, true, true, false, false},
      {{"log.console=false", "--log-level", "warn"}, false, true, true, true},
  };
  for (size_t i = 0; i < std::size(rows); ++i) {
    const Row& row = rows[i];
    const std::string run = concat_to_string("r", i);
    const auto done = train(row.words, run);
    ASSERT_EQ(done.code, 0) << i << done.err;
    const std::string file = text(run + "/log.txt");
    EXPECT_EQ(contains(done.err, "model: "), row.console_has_info) << i << done.err;
    EXPECT_EQ(contains(done.err, "schedule.warmup"), row.console_has_warnings) << i << done.err;
    EXPECT_EQ(contains(file, "model: "), row.file_has_info) << i << file;
    EXPECT_EQ(contains(file, "schedule.warmup"), row.file_has_warnings) << i << file;
  }
}

TEST_F(LogOfRun, JsonHasAnObjectForEachMessage) {
  ASSERT_EQ(train({"log={format: json, file: log.jsonl}"}).code, 0);
  EXPECT_FALSE(fs::exists(at_ / "r/log.txt"));
  int warnings = 0;
  for (const std::string& line : lines_of(text("r/log.jsonl"))) {
    const Json json = Json::parse(line);
    EXPECT_EQ(json.size(), 4u) << line;
    EXPECT_EQ(json.at("rank"), 0) << line;
    const std::string time = json.at("time");
    EXPECT_EQ(time.size(), std::string("2026-01-31T23:59:59.123Z").size()) << line;
    warnings += json.at("level") == "warning";
    EXPECT_FALSE(json.at("message").get<std::string>().empty()) << line;
  }
  EXPECT_EQ(warnings, 1);
}

TEST_F(LogOfRun, ItsSectionChangesNoBytesOfTheRun) {
  ASSERT_EQ(train({}, "a").code, 0);
  ASSERT_EQ(train({"log={level: trace, file: null, format: json, console: false}"}, "b").code, 0);
  EXPECT_FALSE(fs::exists(at_ / "b/log.txt"));
  for (const char* file : {"metrics.jsonl", "model.safetensors", "data.json", "exit.json"}) {
    EXPECT_TRUE(text(concat_to_string("a/", file)) == text(concat_to_string("b/", file))) << file;
  }
}

TEST_F(LogOfRun, ItsSectionMayDifferOnResumeAndIsNotCompared) {
  ASSERT_EQ(train({"train.epochs=1"}).code, 0);
  const auto resumed = train({"--resume", "auto", "log={level: debug, file: more.txt}"});
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_FALSE(contains(resumed.err, "log.")) << resumed.err;
  EXPECT_TRUE(contains(text("r/more.txt"), "epoch=2")) << text("r/more.txt");
  ASSERT_EQ(at_.taper({"record", "r", "--to", "golden.json"}).code, 0);
  ASSERT_EQ(train({"log.level=warn"}, "other").code, 0);
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"reproduce", "r"}, {"check", "r", "--against", "golden.json"}}) {
    const auto done = at_.taper(words);
    EXPECT_EQ(done.code, 0) << done.out << done.err;
    EXPECT_FALSE(contains(done.out, "log.")) << done.out;
  }
}

TEST_F(LogOfRun, NoLineHasEightyColumns) {
  std::string words;
  for (int i = 0; i < 400; ++i) words += concat_to_string("line ", i, "\n");
  write_bytes(at_ / "words.txt", words);
  struct Row {
    const char *name, *config;
  };
  const Row rows[] = {
      {"digits", kConfig},
      {"text",
       "data: {type: text, path: words.txt, block_size: 8}\n"
       "model: {type: gpt, n_layer: 1, n_head: 2, n_embd: 16}\n"
       "optimizer: {type: adamw}\ntrain: {epochs: 2, batch_size: 16}\n"},
      {"metrics",
       "data: {type: digits, train_size: 64, test_size: 16}\nmodel: {type: mlp}\n"
       "optimizer: {type: sgd}\ntrain: {epochs: 2}\nmetrics: [accuracy, top5, f1]\n"},
  };
  for (const Row& row : rows) {
    write_bytes(at_ / "run.yaml", row.config);
    const auto done = train({"device=auto"}, row.name);
    ASSERT_EQ(done.code, 0) << done.err;
    EXPECT_EQ(count(done.err, "device: "), 1) << done.err;
    EXPECT_EQ(count(text(concat_to_string(row.name, "/log.txt")), " info: device: "), 1);
    for (const std::string& line : lines_of(done.err)) {
      const bool is_warning = line.starts_with("warning: ");
      EXPECT_TRUE(is_warning || line.size() < 80) << line;
    }
  }
}

TEST_F(LogOfRun, NoFileOfTheRunCanBeItsLog) {
  for (const char* name :
       {"metrics.jsonl", "config.yaml", "checkpoints", "../log.txt", "a/b", ""}) {
    const auto done = train({concat_to_string("log.file='", name, "'")});
    EXPECT_EQ(done.code, 2) << name;
    EXPECT_TRUE(contains(done.err, "log.file: expected a plain file name")) << done.err;
  }
}

TEST_F(LogOfRun, WhyARunEndedIsTheLastLineOfItsFile) {
  const auto done = train({"optimizer.lr=1e30", "schedule.warmup=0"});
  ASSERT_EQ(done.code, 65) << done.err;
  const std::string last = lines_of(text("r/log.txt")).back();
  EXPECT_TRUE(contains(last, " error: the loss became ") ||
              contains(last, " error: the gradient's norm became "))
      << last;
  EXPECT_TRUE(contains(done.err, "\ntaper: the ")) << done.err;
  EXPECT_FALSE(contains(done.err, " error: ")) << done.err;
}

// --- a terminal ---

// Returns what the program writes to a terminal of 80 columns, and its exit code.
std::pair<std::string, int> on_terminal(const RunDirectory& at, std::vector<std::string> words,
                                        const char* no_color = "") {
  winsize size{.ws_row = 24, .ws_col = 80, .ws_xpixel = 0, .ws_ypixel = 0};
  int terminal = -1;
  const pid_t child = ::forkpty(&terminal, nullptr, nullptr, &size);
  if (child == 0) {
    setenv("TERM", "xterm", 1);
    setenv("NO_COLOR", no_color, 1);
    if (::chdir((at / "").c_str()) != 0) ::_exit(127);
    std::string program = TAPER_PROGRAM;
    words.insert(words.begin(), program);
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    ::execv(program.c_str(), argv.data());
    ::_exit(127);
  }
  std::string out;
  char part[4096];
  for (ssize_t n; (n = ::read(terminal, part, sizeof part)) > 0;) out.append(part, size_t(n));
  int status = 0;
  ::waitpid(child, &status, 0);
  ::close(terminal);
  return {out, WIFEXITED(status) ? WEXITSTATUS(status) : 128};
}

TEST_F(LogOfRun, OnATerminalMessagesReplaceTheBarAndWarningsAreColored) {
  // The run is long enough to show the bar, and logs during the training.
  const std::vector<std::string> words = {"train",
                                          "run.yaml",
                                          "--out",
                                          "r",
                                          "data.train_size=4000",
                                          "model.hidden=[512, 512]",
                                          "train.epochs=4",
                                          "train.eval_every=20"};
  const auto [shown, code] = on_terminal(at_, words);
  ASSERT_EQ(code, 0) << shown;
  EXPECT_TRUE(contains(shown, "\033[33m\033[1mwarning: \033[m")) << shown;
  ASSERT_TRUE(contains(shown, "samples/s")) << shown;
  for (const std::string& line : lines_of(shown)) {
    if (!contains(line, "test_loss=")) continue;
    // The visible part of the line follows the last erase sequence.
    const size_t removed = line.rfind("\r\033[K");
    const std::string left = removed == std::string::npos ? line : line.substr(removed + 4);
    EXPECT_EQ(left.rfind("epoch=", 0), 0u) << line;
    EXPECT_FALSE(contains(left, "samples/s")) << line;
  }
  EXPECT_FALSE(contains(text("r/log.txt"), "\033")) << text("r/log.txt");
  const auto [plain, plain_code] = on_terminal(at_, words, "1");
  ASSERT_EQ(plain_code, 0) << plain;
  EXPECT_FALSE(contains(plain, "\033[33m")) << plain;
}

TEST_F(LogOfRun, AQuietRunShowsNoBar) {
  const auto [shown, code] =
      on_terminal(at_, {"train", "run.yaml", "--out", "r", "data.train_size=4000",
                        "model.hidden=[512, 512]", "--quiet", "schedule.warmup=0"});
  ASSERT_EQ(code, 0) << shown;
  EXPECT_EQ(shown.rfind("run: ", 0), 0u) << shown;
}

// --- the log file alone ---

class LogFile : public testing::Test {
 protected:
  LogFile() {
    set_logger([this](LogLevel, const std::string& message) { heard_.push_back(message); });
  }
  ~LogFile() override { set_logger(nullptr); }

  std::string text() const { return read_bytes(at_ / "log.txt"); }

  RunDirectory at_;
  std::vector<std::string> heard_;
};

TEST_F(LogFile, OfLaterRanksKeepsWarningsBehindTheRank) {
  {
    RunLog first({}, 0), log({}, 2);
    warn("of the preparation, which the first rank reports");
    first.open(at_ / "");
    log.open(at_ / "");
    log_info("of a step");
    warn("of this rank alone");
    log.write(LogLevel::kError, "why it ends");
  }
  EXPECT_EQ(heard_, (std::vector<std::string>{"[rank 2] of this rank alone"}));
  const std::vector<std::string> lines = lines_of(text());
  ASSERT_EQ(lines.size(), 3u) << text();
  EXPECT_EQ(lines[1].substr(19), " warning: [rank 2] of this rank alone");
  EXPECT_EQ(lines[2].substr(19), " error: [rank 2] why it ends");
}

TEST_F(LogFile, JsonTellsTheRankAndEscapesLineEnds) {
  const LogConfig config{.format = LogFormat::kJson};
  RunLog(config, 0).open(at_ / "");
  RunLog log(config, 3);
  log.open(at_ / "");
  warn("two\nlines, \xff");
  const Json json = Json::parse(text());
  EXPECT_EQ(json.at("rank"), 3);
  EXPECT_EQ(json.at("message"), "two\nlines, \xef\xbf\xbd");
  EXPECT_EQ(heard_.at(0), "[rank 3] two\nlines, \xff");
}

TEST_F(LogFile, ALaterRankOpensNoneWhereTheFirstHasNone) {
  RunLog log({}, 1);
  log.open(at_ / "");
  warn("of another host");
  EXPECT_FALSE(fs::exists(at_ / "log.txt"));
  EXPECT_EQ(heard_.at(0), "[rank 1] of another host");
}

TEST_F(LogFile, ALinkIsRefused) {
  write_bytes(at_ / "other", "");
  fs::create_symlink(at_ / "other", at_ / "log.txt");
  RunLog log{LogConfig()};
  EXPECT_TRUE(test::refuses<DiskError>(
      [&] { log.open(at_ / ""); },
      concat_to_string("cannot write '", (at_ / "log.txt").string(), "': it is a symbolic link")));
}

TEST_F(LogFile, AFullDiskEndsTheFileWithAWarning) {
  rlimit limit{};
  ::getrlimit(RLIMIT_FSIZE, &limit);
  const rlimit small{16, limit.rlim_max};
  const auto before = std::signal(SIGXFSZ, SIG_IGN);
  {
    RunLog log{LogConfig()};
    log.open(at_ / "");
    ::setrlimit(RLIMIT_FSIZE, &small);
    log_info("goes to the logger of the process, though the disk is full");
    log_info("and so does the next");
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  std::signal(SIGXFSZ, before);
  ASSERT_EQ(heard_.size(), 3u);
  EXPECT_TRUE(contains(heard_[0], "the run continues without its log file")) << heard_[0];
  EXPECT_EQ(heard_[2], "and so does the next");
}

}  // namespace
}  // namespace taper::v0::runner
