// `taper bisect` on small git repositories. Instead of programs with other code there are scripts
// that change the config before they start the program. The build copies the script.
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "apps/runner/base/string_utils.h"
#include "apps/runner/gate/gate.h"
#include "tests/runner/run_process.h"
#include "tests/text.h"

namespace taper::v0::runner {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

// 4 steps and an evaluation.
constexpr const char* kBisected =
    "device: cpu\nseed: 3\n"
    "data: {type: digits, train_size: 256, test_size: 64}\n"
    "model: {type: mlp, hidden: [16], dropout: 0.1}\n"
    "optimizer: {type: sgd, lr: 0.1}\n"
    "schedule: {type: step, step_size: 3, gamma: 0.5}\n"
    "train: {epochs: 1, batch_size: 64}\n";

std::string with_text(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from << " in\n" << text;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

// What a program does before it starts taper with $config.
std::string with_change(const std::string& from, const std::string& to) {
  return "sed 's/" + from + "/" + to + "/' $config > $0.yaml; config=$0.yaml";
}
// Makes the record number `runs` (an arithmetic condition on $n) of a commit differ.
std::string differs_if(const std::string& condition) {
  return "[ $verb = record ] && echo run >> $0.runs; n=$(wc -l < $0.runs); [ $((" + condition +
         ")) = 1 ] && { " + with_change("lr: 0.1", "lr: 0.2") + "; }";
}

class Bisect : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::system("git --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "there is no git";
    write_bytes(at_ / "c.yaml", kBisected);
    fs::create_directories(at_ / "repo");
    fs::create_directories(at_ / "tmp");
    const RunDirectory::Outcome recorded =
        at_.taper({"record", "c.yaml", "--to", "golden.json", "--seeds", "0"});
    EXPECT_EQ(recorded.code, 0) << recorded.err;
    git("init --quiet --initial-branch=main");
    git("config user.name Ada");
    git("config user.email ada@example.org");
    write_bytes(at_ / "repo/.gitignore", "build/\n");
  }

  std::string shell(const std::string& commands) const {
    const std::string file = (at_ / "shell.out").string();
    const int status = std::system(concat_to_string("export GIT_CONFIG_GLOBAL=/dev/null; cd ",
                                                    (at_ / "repo").string(), " && (", commands,
                                                    ") > ", file, " 2>&1")
                                       .c_str());
    EXPECT_EQ(status, 0) << commands << "\n" << read_bytes(file);
    return read_bytes(file);
  }
  std::string git(const std::string& words) const { return shell("git " + words); }

  // Commits a program that runs `body` first, and a build that begins with `build`.
  void commit(const std::string& subject, const std::string& body = "",
              const std::string& build = "") const {
    write_bytes(at_ / "repo/program.sh", "#!/bin/sh\n# " + subject +
                                             "\nverb=$1; config=$2; shift 2\n" + body +
                                             "\nexec " TAPER_PROGRAM " $verb $config \"$@\"\n");
    write_bytes(at_ / "repo/build.sh",
                "git log -1 --format=%s >> " + (at_ / "builds").string() + "\n" + build +
                    "\nmkdir -p build/apps && cp program.sh build/apps/taper && "
                    "chmod +x build/apps/taper\n");
    git("add --all && git commit --quiet --message='" + subject + "'");
  }
  void commit_comments(const std::string& stem, int count, const std::string& body = "") const {
    for (int i = 1; i <= count; ++i) commit(concat_to_string(stem, " ", i), body);
  }
  void tag(const std::string& name) const { git("tag " + name); }

  pid_t start(const Words& words) const {
    return at_.start(words, "cd repo; export TMPDIR=" + (at_ / "tmp").string() + ";");
  }
  RunDirectory::Outcome bisect(const Words& more = {}) const {
    Words words = {"bisect", "--good", "old", "--bad", "HEAD", "--against", "../golden.json"};
    words.insert(words.end(), more.begin(), more.end());
    words.insert(words.end(), {"--", "sh", "build.sh"});
    return at_.wait(start(words));
  }
  // The subjects of the commits in the order in which they were built.
  Words builds() const { return lines_of(read_bytes(at_ / "builds")); }

  void expect_nothing_left() const {
    EXPECT_EQ(git("worktree list | wc -l"), "1\n");
    EXPECT_EQ(git("status --porcelain"), "");
    EXPECT_EQ(git("rev-parse --abbrev-ref HEAD"), "main\n");
    EXPECT_TRUE(fs::is_empty(at_ / "tmp"));
  }

  RunDirectory at_;
};

void expect_all(const RunDirectory::Outcome& end, int code, const Words& parts) {
  EXPECT_EQ(end.code, code) << end.out << end.err;
  for (const std::string& part : parts) {
    EXPECT_TRUE(contains(end.out + end.err, part)) << part << " in\n" << end.out << end.err;
  }
}

// Returns the folder that the search prints, once it has.
std::string folder_in(const std::string& text) {
  const std::string mark = "taper bisect --resume ";
  const size_t at = text.find(mark);
  if (at == std::string::npos) return "";
  const size_t begin = at + mark.size();
  return text.substr(begin, text.find_first_of("\n ", begin) - begin);
}

TEST_F(Bisect, FindsTheCommitStepAndTensorAndNamesWhatCannotBeTestedAndWhatIsFlaky) {
  commit("Good", "", "sleep 1");
  tag("old");
  commit_comments("Harmless", 2);
  commit("Broken", "", "echo \"error: expected ';'\" >&2; exit 1");
  commit("Harmless 3", "", "[ -e ../once ] || { touch ../once; exit 7; }");
  // Its second run differs, but the others do not.
  commit("Flaky", differs_if("n == 2"));
  commit("Slow the schedule down", with_change("step_size: 3", "step_size: 2"), "sleep 1");
  commit_comments("Later", 3, with_change("step_size: 3", "step_size: 2"));
  const RunDirectory::Outcome end = bisect();
  expect_all(end, 0,
             {"first bad commit: ", "\"Slow the schedule down\" (Ada, 20",
              "step 3:\n  weights after the step: ", "first difference, in step 3: ",
              " after the step (optimizer)\n  element [", "compared with the good commit ",
              "flaky: ", "\"Flaky\" (Ada, ", "1 of 4 runs is bad, 3 are good",
              "other commits are trained up to there", "the bad revision differs in step 3"});
  // The good and the bad revision and a logarithmic number of others.
  EXPECT_LE(builds().size(), 9u) << end.err;
  expect_nothing_left();
}

TEST_F(Bisect, ABuildThatFailsOnceIsTriedAgain) {
  commit("Good");
  tag("old");
  commit("Fails once", "", "[ -e ../once ] || { touch ../once; exit 7; }");
  commit("Bad", with_change("lr: 0.1", "lr: 0.2"));
  expect_all(bisect(), 0,
             {"first bad commit: ", "\"Bad\"", "flaky: ", "\"Fails once\" (Ada, ",
              "its first build failed: it does not build (exit code 7)"});
  expect_nothing_left();
}

TEST_F(Bisect, CommitsThatCannotBeTestedLeaveARange) {
  commit("Good");
  tag("old");
  commit("Harmless");
  commit("No build", "", "echo \"error: expected ';'\" >&2; exit 1");
  commit("No program", "", "exit 0");
  commit("Crashes", "[ $verb = record ] && { echo 'a bug in it'; exit 70; }");
  commit("Undecided", differs_if("n % 2 == 0"));
  commit("Bad", with_change("lr: 0.1", "lr: 0.2"));
  commit("Later", with_change("lr: 0.1", "lr: 0.2"));
  const RunDirectory::Outcome end = bisect();
  expect_all(end, 3,
             {"the first bad commit is one of these, because some of them cannot be tested:\n",
              "the last of them that is known to be bad: ", "\"Bad\"",
              "first difference, in step 1: ", "\"Harmless\"",
              "it does not build (exit code 1): error: expected ';'",
              "its build makes no program build/apps/taper (--program)",
              "its training fails with exit code 70: a bug in it",
              "no verdict leads: 2 of 5 runs are bad, 3 are good"});
  EXPECT_EQ(count(end.out, "\nskipped: "), 4) << end.out;
  EXPECT_EQ(count(end.out, "\"Later\""), 0) << end.out;
  expect_nothing_left();
}

TEST_F(Bisect, AKilledSearchIsResumedWithItsResults) {
  commit("Good", "", "sleep 1");
  tag("old");
  commit_comments("Harmless", 6);
  commit("Bad", with_change("lr: 0.1", "lr: 0.2"), "sleep 1");
  commit_comments("Later", 6, with_change("lr: 0.1", "lr: 0.2"));
  struct Kill {
    int signal, code;
    const char* when;  // the subject of the commit that is being built
  };
  const Kill kills[] = {{SIGKILL, 128 + SIGKILL, "Good"}, {SIGINT, 75, "Bad"}};
  std::string folder;
  for (const Kill& kill : kills) {
    SCOPED_TRACE(kill.when);
    const pid_t child = folder.empty()
                            ? start({"bisect", "--good", "old", "--bad", "HEAD", "--against",
                                     "../golden.json", "--", "sh", "build.sh"})
                            : start({"bisect", "--resume", folder});
    for (int i = 0; i < 6000 && (builds().empty() || builds().back() != kill.when); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    ::kill(child, kill.signal);
    const RunDirectory::Outcome end = at_.wait(child);
    EXPECT_EQ(end.code, kill.code) << end.err;
    if (folder.empty()) folder = folder_in(end.err);
    ASSERT_TRUE(fs::exists(fs::path(folder) / "bisect.json")) << end.err;
    if (kill.signal == SIGINT) {
      expect_all(end, 75,
                 {"the bisection was interrupted by SIGINT; continue it with "
                  "taper bisect --resume " +
                  folder});
    }
  }
  const RunDirectory::Outcome end = at_.wait(start({"bisect", "--resume", folder}));
  expect_all(end, 0, {"first bad commit: ", "\"Bad\" (Ada, ", "first difference, in step 1: "});
  const Words all = builds();
  EXPECT_EQ(std::ranges::count(all, "Later 6"), 1) << "the bad revision was built again";
  EXPECT_EQ(std::ranges::count(all, "Good"), 2) << "the good revision was tested again";
  EXPECT_LE(all.size(), 10u) << ::testing::PrintToString(all);
  expect_nothing_left();
  expect_all(at_.wait(start({"bisect", "--resume", folder})), 66,
             {"has no bisection that can be resumed"});
}

TEST_F(Bisect, MergesAndEvaluationsAreFollowed) {
  commit("Good");
  tag("old");
  commit("On main");
  git("checkout --quiet -b side old");
  // The weights stay the same.
  commit("Measure other data", with_change("test_size: 64", "test_size: 32"));
  git("checkout --quiet main");
  git("merge --quiet --no-ff --strategy=ours --message=Merge side");
  commit("Later", with_change("test_size: 64", "test_size: 32"));
  expect_all(bisect(), 0,
             {"first bad commit: ", "step 4:\n  test.",
              "first difference: the weights are the same; the evaluation after step 4 uses "
              "different data or metrics"});
  expect_nothing_left();
}

TEST_F(Bisect, ALossThatIsNotFiniteIsBad) {
  commit("Good");
  tag("old");
  commit("Harmless");
  commit("Diverges", with_change("lr: 0.1", "lr: 1e30"));
  expect_all(bisect(), 0,
             {"first bad commit: ", "\"Diverges\"",
              "its training fails with exit code 65: taper: the loss became"});
}

TEST_F(Bisect, AnotherPlatformIsComparedWithTheGoodRevision) {
  Golden golden = load_golden(at_ / "golden.json");
  golden.sections[0].metadata.program["isa"] = "abacus";
  golden.sections[0].rows[0]["loss"] = "0x1p+3";
  save_golden(golden, at_ / "golden.json");
  commit("Good");
  tag("old");
  commit("Harmless");
  commit("Bad", with_change("lr: 0.1", "lr: 0.2"));
  expect_all(bisect(), 0,
             {"reference: the numbers of the good revision, because the recording has no section "
              "for cpu, ",
              "first bad commit: ", "\"Bad\""});
}

TEST_F(Bisect, MistakesHaveOneMessageEach) {
  commit("Unrelated");
  git("checkout --quiet --orphan fresh");
  commit("Good");
  tag("old");
  commit("Harmless");
  tag("same");
  commit("Bad", with_change("lr: 0.1", "lr: 0.2"));
  git("checkout --quiet -B main");
  write_bytes(at_ / "text.json", "{}");
  const Words build = {"--", "sh", "build.sh"};
  struct Row {
    Words words;
    int code;
    Words says;
    Words command = {"--", "sh", "build.sh"};
  };
  const std::string golden = "../golden.json";
  const Row rows[] = {
      {{"--bad", "HEAD", "--against", golden}, 2, {"bisect needs --good"}},
      {{"--good", "old", "--against", golden}, 2, {"bisect needs --bad"}},
      {{"--good", "old", "--bad", "HEAD"}, 2, {"bisect needs --against"}},
      {{"--good", "old", "--bad", "HEAD", "--against", golden},
       2,
       {"bisect needs a build command at the end: -- cmake --build build"},
       {}},
      {{"--good", "old", "--bad", "HEAD", "--against", "none.json"}, 66, {"none.json"}},
      {{"--good", "old", "--bad", "HEAD", "--against", "../text.json"},
       66,
       {"is not a recording of `taper record`"}},
      {{"--good", "odl", "--bad", "HEAD", "--against", golden}, 2, {"unknown revision 'odl'"}},
      {{"--good", "old", "--bad", "-x", "--against", golden}, 2, {}},
      {{"--good", "old", "--bad", "old", "--against", golden},
       2,
       {"--good and --bad are the same commit: "}},
      {{"--good", "HEAD", "--bad", "old", "--against", golden},
       2,
       {"the good revision ", "\"Bad\"", "is not an ancestor of the bad one, ", "\"Good\"",
        "; exchange --good and --bad\n"}},
      {{"--good", "old", "--bad", "same", "--against", golden},
       2,
       {"the bad revision ", "\"Harmless\"", "is good: its numbers are those of the reference"}},
      {{"--good", "old", "--bad", "HEAD", "--against", golden, "--program", "/usr/bin/taper"},
       2,
       {"expected a path within the repository"}},
      {{"--good", "old", "--bad", "HEAD", "--against", golden, "--dir", "."},
       2,
       {"'.' is not empty; --dir needs an empty or a new folder"}},
      {{"--good", "old", "--bad", "HEAD", "--against", golden},
       66,
       {"the bad revision ", "cannot be tested: the build command cannot be run: ./no-such-file"},
       {"--", "./no-such-file", "all"}},
      {{"--good", "old", "--bad", "HEAD", "--against", golden},
       66,
       {"cannot be tested: it does not build (exit code 3): too bad"},
       {"--", "echo too bad; exit 3"}},
      {{"--resume", "nowhere"}, 66, {"'nowhere' has no bisection that can be resumed"}, {}},
      {{"--resume", "nowhere", "--good", "old"}, 2, {"takes no other arguments"}, {}},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(::testing::PrintToString(row.words));
    Words words = {"bisect"};
    words.insert(words.end(), row.words.begin(), row.words.end());
    words.insert(words.end(), row.command.begin(), row.command.end());
    expect_all(at_.wait(start(words)), row.code, row.says);
    expect_nothing_left();
  }
  // The recording is that of the bad revision.
  Golden wrong = load_golden(at_ / "golden.json");
  wrong.sections[0].rows[0]["loss"] = "0x1p+3";
  save_golden(wrong, at_ / "golden.json");
  expect_all(bisect(), 2, {"the good revision ", "is bad: step 1:\n    loss is "});
  // The program of the good revision fails.
  commit("Failing", "echo first line; echo no such key >&2; exit 2");
  tag("failing");
  commit("Bad again", with_change("lr: 0.1", "lr: 0.2"));
  expect_all(
      at_.wait(start({"bisect", "--good", "failing", "--bad", "HEAD", "--against", golden, "--",
                      "sh", "build.sh"})),
      66,
      {"\"Failing\" (", "cannot be tested: its training fails with exit code 2: no such key\n"});
  // Outside of a repository.
  const std::string nowhere = (at_ / "tmp").string();
  expect_all(at_.wait(at_.start({"bisect", "--good", "a", "--bad", "b", "--against",
                                 (at_ / "golden.json").string(), "--", "make"},
                                "cd " + nowhere + "; export GIT_CEILING_DIRECTORIES=/;")),
             66, {"is not in a git repository"});
}

TEST_F(Bisect, AShallowCloneThatLacksTheCommitsBetweenIsNamed) {
  commit("Good");
  tag("old");
  commit("Harmless");
  commit("Bad", with_change("lr: 0.1", "lr: 0.2"));
  const std::string from = "file://" + (at_ / "repo").string();
  shell("cd .. && git clone --quiet --depth 1 " + from + " shallow && cd shallow && " +
        "git fetch --quiet --depth 1 origin tag old");
  expect_all(at_.wait(at_.start({"bisect", "--good", "old", "--bad", "HEAD", "--against",
                                 "../golden.json", "--", "sh", "build.sh"},
                                "cd shallow;")),
             2,
             {"is not an ancestor of the bad one, ",
              "this is a shallow clone, `git fetch --unshallow` completes it"});
}

TEST_F(Bisect, ADamagedStateAndASecondSearchAreRefused) {
  commit("Good");
  tag("old");
  commit("Bad", with_change("lr: 0.1", "lr: 0.2"), "sleep 600");
  const pid_t child = start({"bisect", "--good", "old", "--bad", "HEAD", "--against",
                             "../golden.json", "--", "sh", "build.sh"});
  for (int i = 0; i < 6000 && builds().empty(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  const std::string folder = folder_in(read_bytes(at_ / "stderr"));
  ASSERT_FALSE(folder.empty());
  const std::string other = (at_ / "second").string();
  EXPECT_NE(std::system((TAPER_PROGRAM " bisect --resume " + folder + " 2> " + other).c_str()), 0);
  EXPECT_TRUE(contains(read_bytes(other), "is used by another `taper bisect`, process "))
      << read_bytes(other);
  ::kill(child, SIGTERM);
  expect_all(at_.wait(child), 75, {"interrupted by SIGTERM; continue it with "});
  const std::string state = read_bytes(fs::path(folder) / "bisect.json");
  struct Row {
    const char *from, *to, *says;
  };
  const Row rows[] = {{"\"bisect\": 1", "\"bisect\": 2", "bisect.json:2:12: bisect: expected"},
                      {"\"tested\": []", "\"tested\": [{}]", "an entry of `tested` is incomplete"},
                      {"\"good\"", "\"godo\"", "bisect.json:"},
                      {"{", "", "bisect.json:2:10: not valid JSON"}};
  for (const Row& row : rows) {
    SCOPED_TRACE(row.to);
    write_bytes(fs::path(folder) / "bisect.json", with_text(state, row.from, row.to));
    expect_all(at_.wait(start({"bisect", "--resume", folder})), 66, {row.says});
    EXPECT_TRUE(fs::exists(fs::path(folder) / "worktree")) << "a refusal must not remove anything";
  }
}

}  // namespace
}  // namespace taper::v0::runner
