// The gate as users call it: exit codes and messages of the program, files that it must not change,
// and the diff of a recording in a pull request.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <functional>
#include <iterator>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "apps/runner/gate/coverage.h"
#include "apps/runner/gate/gate.h"
#include "tests/runner/run_process.h"
#include "tests/testing.h"

namespace taper::v0::runner {
namespace {

namespace fs = std::filesystem;

using Words = std::vector<std::string>;

constexpr const char* kChecked =
    "device: cpu\nseed: 3\n"
    "data: {type: digits, train_size: 256, test_size: 64}\n"
    "model: {type: mlp, hidden: [16]}\n"
    "optimizer: {type: sgd, lr: 0.1}\n"
    "train: {epochs: 6, batch_size: 64}\n";

class GateProgram : public ::testing::Test {
 protected:
  GateProgram() { write_bytes(at_ / "c.yaml", kChecked); }

  // Writes a config in which `from` is replaced by `to`.
  void write_config(const std::string& name, const std::string& from, const std::string& to) const {
    std::string text = kChecked;
    write_bytes(at_ / name, text.replace(text.find(from), from.size(), to));
  }
  // Expects an exit code, and all parts in what the program prints.
  void expect_end(const RunDirectory::Outcome& end, int code, const Words& parts) const {
    EXPECT_EQ(end.code, code) << end.out << end.err;
    for (const std::string& part : parts) {
      EXPECT_TRUE((end.out + end.err).find(part) != std::string::npos) << part << " in\n"
                                                                       << end.out << end.err;
    }
  }

  RunDirectory at_;
};

TEST_F(GateProgram, VerdictsHaveTheExitCodesOfThePage) {
  expect_end(at_.taper({"record", "c.yaml", "--to", "g.json", "--seeds", "3"}), 0,
             {"recorded 30 steps and evaluations, curves of 3 seeds\n"});
  const std::string recorded = read_bytes(at_ / "g.json");
  write_config("worse.yaml", "lr: 0.1", "lr: 0.001");
  struct Row {
    Words words;
    int code;
    Words says;
  };
  const Row rows[] = {
      {{"c.yaml"}, 0, {"section 1 of 1: cpu, isa ", "the same as recorded, up to step 24\n"}},
      {{"worse.yaml"}, 1, {"step 1:\n  weights after", "cause: the config differs"}},
      {{"c.yaml", "--seeds", "3"}, 3, {"inconclusive: ", "the smallest shift that is found"}},
      {{"c.yaml", "--seeds", "3", "--detect", "5"}, 0, {"pass: mean of each curve"}},
      {{"worse.yaml", "--seeds", "3", "--detect", "5"}, 1, {"fail: ", "loss: ", "(fail)"}},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(::testing::PrintToString(row.words));
    Words words = {"check"};
    words.insert(words.end(), row.words.begin(), row.words.end());
    words.insert(words.end(), {"--against", "g.json"});
    expect_end(at_.taper(words), row.code, row.says);
  }
  EXPECT_EQ(read_bytes(at_ / "g.json"), recorded) << "check writes nothing to the recording";
}

// What a recording may contain, and what each command that reads it prints.
struct Damage {
  const char* name;
  std::function<std::string(const std::string& whole)> apply;
  std::string says;
};

std::function<std::string(const std::string&)> replacing(const std::string& from,
                                                         const std::string& to) {
  return [=](std::string text) {
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return at == std::string::npos ? text : text.replace(at, from.size(), to);
  };
}

TEST_F(GateProgram, ARecordingThatCannotBeUsedHasOneMessageAndIsKept) {
  ASSERT_EQ(at_.taper({"record", "c.yaml", "--to", "whole.json", "--seeds", "0"}).code, 0);
  const std::string whole = read_bytes(at_ / "whole.json");
  const auto twice = [&](const std::string&) {
    Golden golden = load_golden(at_ / "whole.json");
    golden.sections.push_back(golden.sections[0]);
    golden.sections[1].rows[0]["loss"] = "0x1p+3";
    save_golden(golden, at_ / "twice.json");
    return read_bytes(at_ / "twice.json");
  };
  const Damage damages[] = {
      {"another program", [](const std::string&) { return "{\"epochs\": 3}\n"; },
       "is not a recording of `taper record`"},
      {"a newer version", replacing("\"recording\": 2", "\"recording\": 9"),
       "has format 9 of a newer version of Taper; this program reads formats up to 2"},
      {"truncated", [](const std::string& text) { return text.substr(0, text.size() / 2); },
       "g.json:"},
      {"empty", [](const std::string&) { return ""; }, "g.json:"},
      {"edited", replacing("\"loss\":\"0x1.", "\"loss\":\"0x2."),
       "section 1 was edited or is damaged"},
      {"sections for one platform", twice, "sections 1 and 2 contradict each other"},
  };
  const Words commands[] = {{"check", "c.yaml", "--against", "g.json"},
                            {"check", "c.yaml", "--against", "g.json", "--seeds", "3"},
                            {"record", "c.yaml", "--to", "g.json", "--seeds", "0"},
                            {"bless", "c.yaml", "--against", "g.json", "--reason", "r"},
                            {"coverage", "g.json"}};
  for (const Damage& damage : damages) {
    const std::string text = damage.apply(whole);
    for (const Words& words : commands) {
      SCOPED_TRACE(std::string(damage.name) + ", " + words[0]);
      write_bytes(at_ / "g.json", text);
      const RunDirectory::Outcome end = at_.taper(words);
      expect_end(end, 66, {damage.says});
      EXPECT_TRUE(end.err.starts_with("taper: g.json")) << end.err;
      EXPECT_EQ(std::count(end.err.begin(), end.err.end(), '\n'), 1) << end.err;
      EXPECT_EQ(read_bytes(at_ / "g.json"), text);
    }
  }
}

TEST_F(GateProgram, SeedsThatCannotBeComparedAreRefusedAndNothingIsWritten) {
  ASSERT_EQ(at_.taper({"record", "c.yaml", "--to", "g.json", "--seeds", "3"}).code, 0);
  const std::string recorded = read_bytes(at_ / "g.json");
  write_config("nan.yaml", "lr: 0.1", "lr: 1e30");
  struct Row {
    Words words;
    int code;
    std::string says;
  };
  const Row rows[] = {
      {{"record", "c.yaml", "--to", "new.json", "--seeds", "1"}, 2, "statistics need at least 3"},
      {{"check", "c.yaml", "--against", "g.json", "--seeds", "2"}, 2, "statistics need at least 3"},
      {{"record", "nan.yaml", "--to", "new.json", "--seeds", "3"}, 65, "the loss became nan"},
      {{"check", "nan.yaml", "--against", "g.json", "--seeds", "3"}, 65, "the loss became nan"},
      {{"bless", "nan.yaml", "--against", "g.json", "--reason", "r", "--author", "A"},
       65,
       "the loss became nan"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(::testing::PrintToString(row.words));
    expect_end(at_.taper(row.words), row.code, {row.says});
    EXPECT_FALSE(fs::exists(at_ / "new.json"));
    EXPECT_EQ(read_bytes(at_ / "g.json"), recorded);
  }
}

// What the file cannot take is found before the other seeds are trained.
TEST_F(GateProgram, ARecordingThatCannotBeWrittenIsRefusedEarly) {
  ASSERT_EQ(at_.taper({"record", "c.yaml", "--to", "g.json", "--seeds", "0"}).code, 0);
  write_config("other.yaml", "lr: 0.1", "lr: 0.2");
  fs::create_symlink("loop", at_ / "loop");
  struct Row {
    Words words;
    int code;
    std::string says;
  };
  const Row rows[] = {
      {{"record", "c.yaml", "--to", "missing/g.json"},
       74,
       "missing/g.json: cannot create the file"},
      {{"record", "c.yaml", "--to", "loop/g.json"},
       74,
       "loop/g.json: cannot create the file: Too "},
      {{"record", "c.yaml", "--to", "."}, 74, ": Is a directory"},
      {{"record", "other.yaml", "--to", "g.json"}, 2, "g.json records another config"},
      {{"record", "c.yaml", "--to", "g.json"}, 0, "already has these numbers"},
      {{"check", "c.yaml", "--against", "g.json", "--seeds", "3"},
       2,
       "--seeds: section 1 of g.json has no curves of seeds; leave --seeds out"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(::testing::PrintToString(row.words));
    const RunDirectory::Outcome end = at_.taper(row.words);
    expect_end(end, row.code, {row.says});
    EXPECT_EQ(end.err.find("seed 4"), std::string::npos) << "it has trained: " << end.err;
  }
}

// Processes that write one file at the same time lose nothing of each other.
TEST_F(GateProgram, RecordingsAndBlessingsAtTheSameTimeAreAllKept) {
  const auto together = [&](const std::vector<std::pair<Words, std::string>>& calls) {
    std::vector<pid_t> children;
    for (const auto& [words, environment] : calls)
      children.push_back(at_.start(words, environment));
    std::vector<int> codes;
    for (const pid_t child : children) codes.push_back(at_.wait(child).code);
    return codes;
  };
  const Words record = {"record", "c.yaml", "--to", "g.json", "--seeds", "0"};
  const auto on = [](const std::string& isa) {
    return "ONEDNN_MAX_CPU_ISA=" + isa + "; export ONEDNN_MAX_CPU_ISA;";
  };
  EXPECT_EQ(together({{record, on("SSE41")}, {record, on("AVX")}, {record, on("AVX2")}}),
            (std::vector<int>{0, 0, 0}));
  size_t platforms = 0;
  for (const GoldenSection& section : load_golden(at_ / "g.json").sections)
    platforms += 1 + section.also.size();
  EXPECT_EQ(platforms, 3u) << read_bytes(at_ / "g.json");

  fs::remove(at_ / "g.json");
  ASSERT_EQ(at_.taper(record).code, 0);
  std::vector<std::pair<Words, std::string>> calls;
  for (const char* lr : {"lr: 0.2", "lr: 0.3", "lr: 0.4"}) {
    const std::string name = concat_to_string(lr + 4, ".yaml");
    write_config(name, "lr: 0.1", lr);
    calls.push_back({{"bless", name, "--against", "g.json", "--reason", "r", "--author", "A"}, ""});
  }
  const std::vector<int> codes = together(calls);
  const auto blessed = std::ranges::count(codes, 0);
  EXPECT_GE(blessed, 1);
  EXPECT_EQ(std::ranges::count(codes, 66), 3 - blessed) << ::testing::PrintToString(codes);
  EXPECT_EQ(std::ssize(load_golden(at_ / "g.json").history), blessed);
  EXPECT_FALSE(fs::exists(at_ / "g.json.lock"));
}

// A repeated run is temporary, so nothing of it can be resumed.
TEST_F(GateProgram, ASignalEndsARecordingWithOneMessageAndNoFile) {
  write_config("long.yaml", "epochs: 6", "epochs: 100000");
  struct Row {
    std::string config, seen;  // what is there when the signal is sent
    Words options;
  };
  const Row rows[] = {{"long.yaml", "run/metrics.jsonl", {"--seeds", "0"}},
                      {"long.yaml", "1/run/metrics.jsonl", {"--seeds", "3", "--steps", "3000"}}};
  for (const Row& row : rows) {
    SCOPED_TRACE(row.seen);
    fs::remove_all(at_ / "tmp");
    fs::create_directories(at_ / "tmp");
    Words words = {"record", row.config, "--to", "g.json", "--jobs", "2"};
    words.insert(words.end(), row.options.begin(), row.options.end());
    const pid_t child = at_.start(words, "TMPDIR=$PWD/tmp; export TMPDIR;");
    const auto is_seen = [&] {
      std::error_code none;
      for (const auto& each : fs::directory_iterator(at_ / "tmp", none)) {
        if (fs::exists(each.path() / row.seen)) return true;
      }
      return false;
    };
    for (int i = 0; i < 10'000 && !is_seen(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    ::kill(child, SIGINT);
    const RunDirectory::Outcome end = at_.wait(child);
    expect_end(end, 75, {"so there is no result; start the command again\n"});
    EXPECT_EQ(end.err.find("--resume"), std::string::npos) << end.err;
    EXPECT_FALSE(fs::exists(at_ / "g.json"));
    EXPECT_TRUE(fs::is_empty(at_ / "tmp"));
  }
}

TEST_F(GateProgram, TheAuthorOfABlessingIsThatOfGitUnlessItIsNamed) {
  ASSERT_EQ(at_.taper({"record", "c.yaml", "--to", "g.json", "--seeds", "0"}).code, 0);
  const std::string no_git =
      "unset GIT_AUTHOR_NAME; HOME=$PWD XDG_CONFIG_HOME=$PWD GIT_CONFIG_NOSYSTEM=1; export HOME "
      "XDG_CONFIG_HOME GIT_CONFIG_NOSYSTEM;";
  const auto bless = [&](const std::string& lr, const Words& more) {
    write_config("new.yaml", "lr: 0.1", "lr: " + lr);
    Words words = {"bless", "new.yaml", "--against", "g.json", "--reason", "a better rate"};
    words.insert(words.end(), more.begin(), more.end());
    return at_.taper(words, no_git);
  };
  expect_end(bless("0.2", {}), 2, {"needs an author: `git config user.name` is empty"});
  write_bytes(at_ / ".gitconfig", "[user]\n\tname = Grace Hopper\n");
  expect_end(bless("0.2", {}), 0, {});
  expect_end(bless("0.3", {"--author", "Ada"}), 0, {});
  const Golden golden = load_golden(at_ / "g.json");
  ASSERT_EQ(golden.history.size(), 2u);
  EXPECT_EQ(golden.history[0].at("author"), "Grace Hopper");
  EXPECT_EQ(golden.history[1].at("author"), "Ada");
  for (const HistoryEntry& entry : golden.history) EXPECT_EQ(entry.at("reason"), "a better rate");
}

// Returns the lines of a text, sorted.
std::vector<std::string> sorted_lines(const std::string& text) {
  std::vector<std::string> out;
  size_t begin = 0;
  for (size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    out.push_back(text.substr(begin, end - begin));
  }
  std::ranges::sort(out);
  return out;
}

// Each step is a line, so the diff of a pull request has the steps that changed and nothing else.
TEST_F(GateProgram, ADiffHasOneLineForEachStepThatChanged) {
  ASSERT_EQ(at_.taper({"record", "c.yaml", "--to", "g.json", "--seeds", "3"}).code, 0);
  const std::string now = read_bytes(at_ / "g.json");
  Golden golden = load_golden(at_ / "g.json");
  save_golden(golden, at_ / "again.json");
  EXPECT_EQ(read_bytes(at_ / "again.json"), now) << "the order of lines and keys is stable";
  golden.sections[0].rows[2]["loss"] = "0x1p+3";
  save_golden(golden, at_ / "g.json");
  const std::string before = read_bytes(at_ / "g.json");
  const std::vector<std::string> old_lines = sorted_lines(before), new_lines = sorted_lines(now);
  std::vector<std::string> removed;
  std::ranges::set_difference(old_lines, new_lines, std::back_inserter(removed));
  ASSERT_EQ(removed.size(), 2u) << before;
  EXPECT_TRUE(std::ranges::any_of(removed, [](const std::string& line) {
    return line.find("\"step\":\"3\"") != std::string::npos;
  }));
  EXPECT_TRUE(std::ranges::any_of(
      removed, [](const std::string& line) { return line.find("crc32") != std::string::npos; }));
  ASSERT_EQ(
      at_.taper({"bless", "c.yaml", "--against", "g.json", "--reason", "r", "--author", "A"}).code,
      0);
  // What a blessing adds is its history.
  removed.clear();
  const std::vector<std::string> blessed = sorted_lines(read_bytes(at_ / "g.json"));
  std::ranges::set_difference(new_lines, blessed, std::back_inserter(removed));
  EXPECT_LE(removed.size(), 1u) << "the line of the empty history";
}

TEST_F(GateProgram, CoverageNamesTheComponentsThatNoRecordingHas) {
  const std::vector<KindCoverage> kinds =
      coverage_of({"data: {type: digits}\nmodel: {type: sequential, layers: [flatten, linear: 16, "
                   "relu, linear: 10]}\n"
                   "optimizer: {type: sgd, lr: 0.1}\ntrain: {epochs: 1, batch_size: 4}\n",
                   "data: {type: digits}\nmodel: {type: mlp}\noptimizer: {type: adamw}\n"
                   "schedule: {type: cosine}\ntrain: {epochs: 1, batch_size: 4}\n"});
  const std::vector<std::pair<std::string, std::set<std::string>>> used = {
      {"layers", {"flatten", "linear", "relu"}},
      {"models", {"mlp", "sequential"}},
      {"losses", {"auto"}},
      {"optimizers", {"adamw", "sgd"}},
      {"schedules", {"constant", "cosine"}},
      {"types of data", {"digits"}}};
  ASSERT_EQ(kinds.size(), used.size());
  for (size_t i = 0; i < kinds.size(); ++i) {
    EXPECT_EQ(kinds[i].kind, used[i].first);
    EXPECT_EQ(kinds[i].used, used[i].second) << kinds[i].kind;
    EXPECT_EQ(kinds[i].missing().size(), kinds[i].names.size() - used[i].second.size());
  }
  ASSERT_EQ(at_.taper({"record", "c.yaml", "--to", "g.json", "--seeds", "0"}).code, 0);
  expect_end(at_.taper({"coverage", "g.json"}), 1,
             {"models: 1 of ", "no recording has sequential, ", "optimizers: 1 of ", "adamw"});
  expect_end(at_.taper({"coverage", "none.json"}), 66, {"none.json"});
}

}  // namespace
}  // namespace taper::v0::runner
