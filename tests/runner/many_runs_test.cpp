// Many runs: seeds, folds and sweeps, whose members are normal runs that continue after a kill; the
// list of runs; and runs that stop after some steps or epochs.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "apps/runner/base/errors.h"
#include "apps/runner/many/lr_find.h"
#include "apps/runner/many/run_list.h"
#include "apps/runner/many/run_summary.h"
#include "apps/runner/many/search_space.h"
#include "apps/runner/many/sweep.h"
#include "apps/runner/run/run_directory.h"
#include "apps/runner/train/train.h"
#include "framework/base/log.h"
#include "framework/io/text_utils.h"
#include "tests/runner/run_process.h"
#include "tests/testing.h"
#include "tests/text.h"

namespace taper::v0::runner {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Words = std::vector<std::string>;

class ManyRuns : public ::testing::Test {
 protected:
  ManyRuns() {
    std::string text = "x,kind,y\n";
    for (int i = 0; i < 240; ++i) {
      text += concat_to_string(i * 37 % 100, ",", i % 3 ? "a" : "b", ",",
                               (i * 37 % 100 > 50) == (i % 3 == 0) ? "yes" : "no", "\n");
    }
    write_bytes(at_ / "t.csv", text);
    write_bytes(at_ / "t.yaml",
                "device: cpu\n"
                "data: {path: t.csv, target: y}\n"
                "model: {type: tabular, hidden: [8]}\n"
                "optimizer: {type: adamw, lr: 0.01}\n"
                "train: {epochs: 4, batch_size: 32}\n");
  }

  RunDirectory::Outcome taper(const Words& words) const { return at_.taper(words); }
  // Runs the command, which must succeed, and returns its stdout.
  std::string out_of(const Words& words) const {
    const RunDirectory::Outcome end = taper(words);
    EXPECT_EQ(end.code, 0) << end.out << end.err;
    return end.out;
  }
  Json json(const std::string& file) const { return Json::parse(read_bytes(at_ / file)); }
  std::string bytes(const std::string& file) const { return read_bytes(at_ / file); }
  void expect_same_numbers(const std::string& a, const std::string& b) const {
    for (const char* file : {"/metrics.jsonl", "/model.safetensors"})
      EXPECT_TRUE(bytes(a + file) == bytes(b + file)) << a << " and " << b << " differ in " << file;
  }
  // Waits until the condition holds, for at most 20 seconds.
  template <class F> static void wait_until(F holds) {
    for (int i = 0; i < 10'000 && !holds(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }

  RunDirectory at_;
};

void expect_says(const RunDirectory::Outcome& end, int code, const Words& parts) {
  EXPECT_EQ(end.code, code) << end.out << end.err;
  for (const std::string& part : parts)
    EXPECT_TRUE(contains(end.out + end.err, part)) << part << "\nin " << end.out << end.err;
}

// --- stopping after some steps or epochs ---

TEST_F(ManyRuns, AStoppedRunGoesOnToTheSameNumbers) {
  out_of({"train", "t.yaml", "--out", "whole"});
  out_of({"train", "t.yaml", "--out", "parts", "--stop-after-steps", "8"});
  EXPECT_EQ(json("parts/exit.json")["reason"], "stopped as requested");
  EXPECT_EQ(json("parts/exit.json")["step"], 8);
  // The same request again ends at once, with the same evaluation.
  out_of({"train", "t.yaml", "--out", "parts", "--stop-after-steps", "8", "--resume", "auto"});
  out_of({"train", "t.yaml", "--out", "parts", "--stop-after-epochs", "3", "--resume", "auto"});
  EXPECT_TRUE(summarize_run(at_ / "parts").is_paused());
  expect_says(
      taper({"train", "t.yaml", "--out", "parts", "--stop-after-epochs", "2", "--resume", "auto"}),
      kExitConfig, {"the run is to stop after", "increase --stop-after-epochs"});
  out_of({"train", "t.yaml", "--out", "parts", "--resume", "auto"});
  expect_same_numbers("whole", "parts");
  expect_says(taper({"train", "t.yaml", "--stop-after-steps", "3", "--stop-after-epochs", "3"}),
              kExitConfig, {"give either --stop-after-steps or --stop-after-epochs"});
}

// --- long steps ---

struct Sleeper : Observer {
  bool on_step(int64_t step, double, double) override {
    if (step == 1) std::this_thread::sleep_for(std::chrono::milliseconds(10'100));
    return step < 3;
  }
};

TEST_F(ManyRuns, ALongStepIsWarnedOfOnce) {
  std::vector<std::string> warnings;
  const LogGuard log([&](LogLevel level, const std::string& text) {
    if (level == LogLevel::kWarning) warnings.push_back(text);
    return false;
  });
  Sleeper sleeper;
  RunConfig config = load_config_text(
      "device: cpu\ndata: {type: digits, train_size: 64, test_size: 16}\n"
      "train: {steps: 9, batch_size: 8}\n");
  train(config, at_ / "slow", {.observer = &sleeper});
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_TRUE(contains(warnings[0], "a step takes 10 s, and the remaining 7 steps about 0.0 hours"))
      << warnings[0];
}

// --- seeds and folds ---

TEST_F(ManyRuns, SeedsAreNormalRunsWithAMeanAndASpread) {
  const std::string table = out_of({"train", "t.yaml", "seed=7", "--seeds", "3", "--out", "s"});
  EXPECT_TRUE(contains(table, "seed-9")) << table;
  EXPECT_TRUE(contains(table, "validation.loss")) << table;
  out_of({"train", "t.yaml", "seed=8", "--out", "alone"});
  expect_same_numbers("alone", "s/seed-8");
  const Json summary = json("s/summary.json");
  ASSERT_EQ(summary["runs"].size(), 3u);
  std::vector<double> values;
  for (const Json& run : summary["runs"]) {
    EXPECT_EQ(run["state"], "finished");
    values.push_back(run["metrics"]["test.accuracy"].get<double>());
  }
  const double mean = (values[0] + values[1] + values[2]) / 3;
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  const Json& spread = summary["metrics"]["test.accuracy"];
  EXPECT_NEAR(spread["mean"].get<double>(), mean, 1e-12);
  EXPECT_NEAR(spread["sd"].get<double>(), std::sqrt(squares / 2), 1e-12);
  EXPECT_EQ(spread["runs"], 3);
}

TEST_F(ManyRuns, JobsDoNotChangeTheNumbers) {
  out_of({"train", "t.yaml", "--seeds", "3", "--out", "one", "--jobs", "1"});
  out_of({"train", "t.yaml", "--seeds", "3", "--out", "three", "--jobs", "3"});
  for (const char* name : {"/seed-0", "/seed-1", "/seed-2"})
    expect_same_numbers(std::string("one") + name, std::string("three") + name);
  EXPECT_EQ(bytes("one/summary.json"), bytes("three/summary.json"));
}

TEST_F(ManyRuns, FoldsCoverEachRowOnce) {
  out_of({"train", "t.yaml", "--folds", "4", "--out", "f"});
  const Json summary = json("f/summary.json");
  EXPECT_EQ(summary["metrics"]["test.loss"]["runs"], 4);
  // The four tests have different rows, so their losses differ.
  std::map<double, int> losses;
  for (const Json& run : summary["runs"]) ++losses[run["metrics"]["test.loss"].get<double>()];
  EXPECT_EQ(losses.size(), 4u);
  EXPECT_TRUE(contains(bytes("f/fold-2/config.yaml"), "fold: 2"));
}

// A signal saves the runs that are training. The set then continues to the same bytes.
TEST_F(ManyRuns, ASetThatWasStoppedOrKilledContinues) {
  const Words words{"train", "t.yaml", "--seeds", "3", "--jobs", "2", "train.epochs=60"};
  const auto with = [&](Words more) {
    more.insert(more.begin(), words.begin(), words.end());
    return more;
  };
  out_of(with({"--out", "whole"}));
  for (const int signal : {SIGTERM, SIGKILL}) {
    const std::string set = concat_to_string("set-", signal);
    const pid_t child = at_.start(with({"--out", set}));
    wait_until([&] { return fs::exists(at_ / (set + "/seed-1/metrics.jsonl")); });
    ::kill(child, signal);
    const RunDirectory::Outcome end = at_.wait(child);
    if (signal == SIGTERM) {
      expect_says(end, kExitInterrupted,
                  {"SIGTERM: saving the runs and stopping", "--resume auto"});
    }
    EXPECT_FALSE(fs::exists(at_ / (set + "/summary.json")));
    // Processes of a set that was killed end with it.
    wait_until(
        [&] { return !is_locked(at_ / (set + "/seed-0")) && !is_locked(at_ / (set + "/seed-1")); });
    out_of(with({"--out", set, "--resume", "auto"}));
    for (const char* name : {"/seed-0", "/seed-1", "/seed-2"})
      expect_same_numbers("whole" + std::string(name), set + name);
    EXPECT_EQ(bytes("whole/summary.json"), bytes(set + "/summary.json"));
  }
}

TEST_F(ManyRuns, AFailedRunDoesNotStopTheOthers) {
  fs::create_directories(at_ / "s");
  out_of({"train", "t.yaml", "--seeds", "2", "--out", "s"});
  fs::remove_all(at_ / "s/seed-1");
  write_bytes(at_ / "s/seed-1", "a file where the run should be");
  const RunDirectory::Outcome end =
      taper({"train", "t.yaml", "--seeds", "3", "--out", "s", "--resume", "auto"});
  expect_says(end, kExitInput, {"seed-1 failed: cannot write the run to ", "it is a file"});
  const Json summary = json("s/summary.json");
  EXPECT_EQ(summary["metrics"]["test.loss"]["runs"], 2);
  EXPECT_TRUE(summary["runs"][1].contains("error"));
  EXPECT_EQ(summary["runs"][2]["state"], "finished");
}

TEST_F(ManyRuns, TheRunsOfASetAreTrainedByOneProcess) {
  const Words words{"train", "t.yaml", "--seeds", "2", "train.epochs=400", "--out", "s"};
  const pid_t child = at_.start(words);
  wait_until([&] { return fs::exists(at_ / "s/seed-1/metrics.jsonl"); });
  RunDirectory other;  // for the output of the second process
  const auto again = [&](Words more) {
    more.insert(more.begin(), words.begin(), words.end());
    return other.taper(more, "cd '" + (at_ / "").string() + "';");
  };
  expect_says(again({}), kExitInput, {"continue them with --resume auto"});
  expect_says(again({"--resume", "auto"}), kExitInput, {"another process trains the runs in 's'"});
  ::kill(child, SIGTERM);
  EXPECT_EQ(at_.wait(child).code, kExitInterrupted);
  out_of({"train", "t.yaml", "--seeds", "2", "train.epochs=400", "--out", "s", "--resume", "auto"});
  EXPECT_EQ(json("s/summary.json")["metrics"]["test.loss"]["runs"], 2);
}

// A damaged run is one run that fails, or is repaired.
TEST_F(ManyRuns, ADamagedRunDoesNotStopTheOthers) {
  out_of({"train", "t.yaml", "--seeds", "2", "--out", "s"});
  write_bytes(at_ / "s/seed-0/exit.json", "{");
  const RunDirectory::Outcome end =
      taper({"train", "t.yaml", "--seeds", "3", "--out", "s", "--resume", "auto"});
  EXPECT_TRUE(contains(end.out, "\nseed-2 ")) << end.out << end.err;
  const Json runs = json("s/summary.json")["runs"];
  EXPECT_EQ(runs[2]["state"], "finished");
  EXPECT_EQ(end.code == 0, !runs[0].contains("error")) << end.out << end.err;
}

TEST_F(ManyRuns, RefusesWhatItCannotDo) {
  out_of({"train", "t.yaml", "--seeds", "2", "--out", "s", "train.epochs=1"});
  fs::create_directories(at_ / "other");
  write_bytes(at_ / "other/notes.txt", "mine");
  struct Row {
    Words words;
    int code;
    std::string message;
  };
  const Row rows[] = {
      {{"--seeds", "2", "--out", "s", "train.epochs=1"}, kExitInput, "continue them with --resume"},
      {{"--seeds", "2", "--out", "s", "--resume", "auto"}, kExitConfig, "train.epochs: 1 | 4"},
      {{"--folds", "2", "--out", "s", "--resume", "auto"}, kExitConfig, "are seeds, not folds"},
      {{"--seeds", "2", "--out", "other"}, kExitInput, "has other files"},
      {{"--seeds", "2", "--out", "t.csv"}, kExitInput, "it is a file"},
      {{"--seeds", "2", "--folds", "2"}, kExitConfig, "either --seeds or --folds"},
      {{"--seeds", "1"}, kExitConfig, "--seeds"},
      {{"--folds", "1"}, kExitConfig, "--folds"},
      {{"--seeds", "2", "--ranks", "2"}, kExitConfig, "leave out "},
      {{"--seeds", "2", "--resume", "best", "--out", "s"}, kExitConfig, "is no or auto"},
      {{"--jobs", "2"}, kExitConfig, "--jobs needs --seeds or --folds"},
      {{"--seeds", "2", "optimizer.lr=-1"}, kExitConfig, "optimizer.lr"},
      {{"--folds", "2", "data={type: digits}"}, kExitConfig, "have no data.split"},
      {{"--folds", "2", "data.split.by=time", "data.split.column=x"}, kExitConfig, "folds"},
  };
  for (const Row& row : rows) {
    Words words{"train", "t.yaml"};
    words.insert(words.end(), row.words.begin(), row.words.end());
    expect_says(taper(words), row.code, {row.message});
  }
  EXPECT_FALSE(fs::exists(at_ / "runs")) << "a refused command must leave no directory";
}

// --- search spaces ---

TEST(SearchSpace, DrawsWithinItsRanges) {
  const SearchSpace space({"optimizer.lr=1e-4..1e-2:log", "model.dropout=0..0.5",
                           "train.batch_size=8..64:log", "model.hidden=[64]|[128,64]|[{a: 1|2}]",
                           "optimizer.betas.0=-1.5..-0.5", "train.epochs=3", "data.path=../t.csv",
                           "seed=1..3"});
  ASSERT_EQ(space.dimensions().size(), 6u);
  EXPECT_EQ(space.fixed(), (Words{"train.epochs=3", "data.path=../t.csv"}));
  EXPECT_EQ(space.dimensions()[3].choices, (Words{"[64]", "[128,64]", "[{a: 1|2}]"}));
  std::map<std::string, int> seeds, hidden;
  int low_rates = 0;
  for (const Words& trial : space.draw(1000, 3)) {
    const auto number = [&](size_t i) {
      return std::stod(trial[i].substr(trial[i].find('=') + 1));
    };
    EXPECT_TRUE(number(0) >= 1e-4 && number(0) <= 1e-2) << trial[0];
    EXPECT_TRUE(number(1) >= 0 && number(1) <= 0.5) << trial[1];
    EXPECT_TRUE(number(2) >= 8 && number(2) <= 64 && number(2) == std::floor(number(2)));
    EXPECT_TRUE(number(4) >= -1.5 && number(4) <= -0.5) << trial[4];
    low_rates += number(0) < 1e-3;
    ++hidden[trial[3]];
    ++seeds[trial[5]];
  }
  EXPECT_NEAR(low_rates, 500, 60);  // half of the powers of ten
  EXPECT_EQ(hidden.size(), 3u);
  ASSERT_EQ(seeds.size(), 3u);
  for (const auto& [seed, count] : seeds) EXPECT_NEAR(count, 333, 60) << seed;
}

TEST(SearchSpace, TheSameSeedGivesTheSameTrials) {
  const SearchSpace space({"optimizer.lr=1e-4..1e-2:log", "model.hidden=64|128"});
  const std::vector<Words> ten = space.draw(10, 5), twenty = space.draw(20, 5);
  ASSERT_EQ(twenty.size(), 20u);
  EXPECT_EQ(ten, std::vector<Words>(twenty.begin(), twenty.begin() + 10));
  EXPECT_NE(ten, space.draw(10, 6));
  // The numbers do not depend on the machine or on the library.
  EXPECT_EQ(ten[0], (Words{"optimizer.lr=0.00563", "model.hidden=128"}));
}

TEST(SearchSpace, ChoicesAreNotRepeated) {
  const SearchSpace space({"a=1|2|3", "b=x|y"});
  std::map<Words, int> trials;
  for (const Words& trial : space.draw(100, 0)) ++trials[trial];
  EXPECT_EQ(trials.size(), 6u);
  for (const auto& [trial, count] : trials) EXPECT_EQ(count, 1);
  EXPECT_EQ(SearchSpace({"a=1..4"}).draw(100, 0).size(), 4u);
}

TEST(SearchSpace, RefusesMalformedRanges) {
  const std::map<std::string, std::string> rows = {
      {"a=2..1", "first number must be below"}, {"a=1..1", "first number must be below"},
      {"a=0..1:log", "positive numbers"},       {"a=1..2:lin", "unknown scale 'lin'"},
      {"a=x..y:log", "expected a range"},       {"a=1", "nothing to search"},
      {"a=1..", "nothing to search"},           {"a", "nothing to search"}};
  for (const auto& [word, message] : rows) {
    try {
      const SearchSpace space({word});
      ADD_FAILURE() << word << " was accepted";
    } catch (const ConfigError& error) {
      EXPECT_TRUE(contains(error.what(), message)) << error.what();
    }
  }
}

// --- sweeps ---

TEST(SearchSpace, RefusesAKeyThatIsGivenTwice) {
  for (const Words& words :
       {Words{"a=1..2", "a=3"}, Words{"a=3", "a=1|2"}, Words{"a=1..2", "b=3", "a=1..4"}}) {
    try {
      const SearchSpace space(words);
      ADD_FAILURE() << ::testing::PrintToString(words) << " was accepted";
    } catch (const ConfigError& error) {
      EXPECT_TRUE(contains(error.what(), "command line: a is given twice")) << error.what();
    }
  }
}

TEST_F(ManyRuns, ASweepFindsTheBestTrialByValidation) {
  const Words words{"sweep", "t.yaml", "optimizer.lr=1e-5..0.1:log", "model.hidden=4|16",
                    "train.epochs=3"};
  const auto with = [&](Words more) {
    more.insert(more.begin(), words.begin(), words.end());
    return more;
  };
  const std::string table = out_of(with({"--out", "a", "--trials", "6"}));
  const Json result = json("a/sweep.json");
  EXPECT_EQ(result["metric"], "validation.loss");
  ASSERT_EQ(result["trials"].size(), 6u);
  double last = 0;
  for (const Json& trial : result["trials"]) {
    const auto run = summarize_run(at_ / ("a/" + trial["name"].get<std::string>()));
    const double value = trial["values"][0].get<double>();
    EXPECT_EQ(value, *run.find("validation.loss"));
    EXPECT_GE(value, last);
    last = value;
  }
  // The printed command trains the best trial again.
  const size_t at = table.find("  taper train ");
  ASSERT_NE(at, std::string::npos) << table;
  const std::string best = result["trials"][0]["name"];
  for (const Json& setting : result["trials"][0]["settings"])
    EXPECT_TRUE(contains(table.substr(at), setting.get<std::string>())) << table;
  Words command{"train", "t.yaml", "train.epochs=3", "--out", "again"};
  for (const Json& setting : result["trials"][0]["settings"]) command.push_back(setting);
  out_of(command);
  expect_same_numbers("again", "a/" + best);
  // The same seed gives the same trials, and --resume adds to them.
  out_of(with({"--out", "b", "--trials", "6"}));
  EXPECT_EQ(bytes("a/sweep.json"), bytes("b/sweep.json"));
  out_of(with({"--out", "a", "--resume", "auto", "--trials", "8"}));
  EXPECT_EQ(json("a/sweep.json")["trials"].size(), 8u);
  expect_says(taper(with({"--out", "a", "--resume", "auto", "--trials", "8", "--seed", "1"})),
              kExitConfig, {"with seed 0 | ", "with seed 1"});
}

TEST_F(ManyRuns, HalvingTrainsOnlyTheBestToTheEnd) {
  const Words words{"sweep", "t.yaml",   "optimizer.lr=1e-5..0.1:log", "train.epochs=9", "--trials",
                    "9",     "--halving"};
  const auto with = [&](Words more) {
    more.insert(more.begin(), words.begin(), words.end());
    return more;
  };
  out_of(with({"--out", "whole"}));
  const Json trials = json("whole/sweep.json")["trials"];
  std::map<size_t, int> rounds;
  for (const Json& trial : trials) ++rounds[trial["values"].size()];
  EXPECT_EQ(rounds, (std::map<size_t, int>{{1, 6}, {2, 2}, {3, 1}}));
  EXPECT_EQ(trials[0]["values"].size(), 3u);
  // The best one has the numbers of a run that was never stopped.
  out_of({"train", "t.yaml", "train.epochs=9", trials[0]["settings"][0], "--out", "alone"});
  expect_same_numbers("alone", "whole/" + trials[0]["name"].get<std::string>());
  // A sweep that is killed in any round continues to the same result.
  for (const char* seen : {"trial-004/metrics.jsonl", "sweep.json"}) {
    fs::remove_all(at_ / "killed");
    const pid_t child = at_.start(with({"--out", "killed"}));
    wait_until([&] { return fs::exists(at_ / "killed" / seen); });
    ::kill(child, SIGKILL);
    at_.wait(child);
    out_of(with({"--out", "killed", "--resume", "auto"}));
    EXPECT_EQ(bytes("killed/sweep.json"), bytes("whole/sweep.json")) << seen;
  }
}

TEST_F(ManyRuns, TrialsThatDivergeComeLast) {
  const std::string table =
      out_of({"sweep", "t.yaml", "optimizer.lr=0.01|1e30", "train.epochs=2", "--out", "d"});
  EXPECT_TRUE(contains(table, "failed")) << table;
  const Json trials = json("d/sweep.json")["trials"];
  ASSERT_EQ(trials.size(), 2u);
  EXPECT_EQ(trials[0]["settings"][0], "optimizer.lr=0.01");
  EXPECT_TRUE(trials[1]["values"][0].is_null());
  EXPECT_TRUE(contains(trials[1]["error"].get<std::string>(), "became")) << trials[1];
  expect_says(taper({"sweep", "t.yaml", "optimizer.lr=1e29|1e30", "train.epochs=2", "--out", "e"}),
              kExitData, {"all trials failed"});
  expect_says(taper({"sweep", "t.yaml", "optimizer.rate=1..2", "--out", "f"}), kExitConfig,
              {"optimizer.rate"});
  expect_says(taper({"sweep", "t.yaml", "train.epochs=2"}), kExitConfig, {"nothing to search"});
}

// --- the learning rate ---

// What a sweep has found out about trials that failed is known when it continues.
TEST_F(ManyRuns, FailedTrialsAreKnownToASweepThatContinues) {
  const Words words{"sweep",
                    "t.yaml",
                    "optimizer.lr=1e28|1e29|1e30",
                    "train.epochs=3",
                    "--halving",
                    "--out",
                    "d",
                    "--resume",
                    "auto"};
  const std::string message = "all trials failed; trial-000: the loss became ";
  expect_says(taper(words), kExitData, {message});
  const std::string first = bytes("d/sweep.json");
  EXPECT_EQ(Json::parse(first)["trials"][0]["code"], int(kExitData));
  expect_says(taper(words), kExitData, {message});
  EXPECT_EQ(bytes("d/sweep.json"), first);
}

TEST_F(ManyRuns, DamagedResultsOfASweepAreNoBug) {
  const Words words{"sweep",    "t.yaml", "optimizer.lr=0.01|0.02", "train.epochs=1", "--out", "d",
                    "--resume", "auto"};
  out_of(words);
  for (const char* text : {R"({"metric": 3})", R"({"trials": 7})", R"({"trials": [{"name": 3}]})",
                           R"({"trials": [{"name": "trial-000", "settings": 1, "steps": []}]})"}) {
    write_bytes(at_ / "d/sweep.json", text);
    const RunDirectory::Outcome end = taper(words);
    EXPECT_NE(end.code, kExitBug) << text << "\n" << end.err;
    EXPECT_FALSE(contains(end.err, "bug")) << end.err;
  }
  write_bytes(at_ / "d/sweep.json", R"({"metric": 3})");
  expect_says(taper(words), kExitInput,
              {"d/sweep.json: is damaged: a value has another type; remove the file"});
  fs::remove(at_ / "d/sweep.json");
  out_of(words);
}

TEST_F(ManyRuns, TheCommandOfTheBestTrialIsQuotedForAShell) {
  fs::copy(at_ / "t.yaml", at_ / "Ada's.yaml");
  const std::string table =
      out_of({"sweep", "Ada's.yaml", "optimizer.lr=0.01|0.02", "train.epochs=1", "--out", "q"});
  EXPECT_TRUE(contains(table, "  taper train 'Ada'\\''s.yaml' train.epochs=1 optimizer.lr=0.0"))
      << table;
}

TEST_F(ManyRuns, AnErrorWithBytesThatAreNotUtf8IsKept) {
  const std::string set = "set-\xff";
  out_of({"train", "t.yaml", "--seeds", "2", "--out", set, "train.epochs=1"});
  fs::remove_all(at_ / set / "seed-1");
  write_bytes(at_ / set / "seed-1", "a file where the run should be");
  expect_says(taper({"train", "t.yaml", "--seeds", "2", "--out", set, "train.epochs=1", "--resume",
                     "auto"}),
              kExitInput, {"seed-1 failed: cannot write the run to "});
  const Json summary = Json::parse(read_bytes(at_ / set / "summary.json"));
  EXPECT_TRUE(contains(summary["runs"][1]["error"], "'set-\xef\xbf\xbd/seed-1'")) << summary;
}

TEST_F(ManyRuns, LrFindProposesARateThatTrains) {
  const std::string text = out_of({"lr-find", "t.yaml", "--out", "rates", "--steps", "60"});
  EXPECT_TRUE(contains(text, "proposed: optimizer.lr=")) << text;
  const Json found = json("rates/lr_find.json");
  const double rate = found["proposed"].get<double>();
  EXPECT_GT(rate, 1e-5);
  EXPECT_LT(rate, 10.0);
  EXPECT_LE(rate, found["lowest"].get<double>());
  // The points are the steps of the run, with their rates.
  std::vector<Json> steps;
  for (const std::string& line : detail::lines_of(bytes("rates/metrics.jsonl"))) {
    const Json row = Json::parse(line);
    if (row["kind"] == "train") steps.push_back(row);
  }
  ASSERT_GE(steps.size(), found["points"].size());
  for (size_t i = 0; i < found["points"].size(); ++i) {
    const double lr = found["points"][i]["lr"].get<double>();
    EXPECT_NEAR(steps[i]["lr"].get<double>(), lr, 1e-6 * lr);
    EXPECT_NEAR(steps[i]["loss"].get<double>(), found["points"][i]["loss"].get<double>(), 1e-5);
  }
  out_of({"report", "rates", "--to", "report.html"});
  EXPECT_TRUE(contains(bytes("report.html"), "\"rates\":{\"lr\":["));
  // The proposed rate is better than one that is a thousand times smaller.
  const auto loss_with = [&](double lr) {
    const std::string dir = concat_to_string("lr", lr);
    out_of({"train", "t.yaml", "--out", dir, concat_to_string("optimizer.lr=", lr)});
    return *summarize_run(at_ / dir).find("validation.loss");
  };
  EXPECT_LT(loss_with(rate), loss_with(rate / 1000));
  expect_says(taper({"lr-find", "t.yaml", "--low", "1", "--high", "0.1"}), kExitConfig,
              {"--low must be below --high"});
}

// The rates become too high on purpose. Therefore no warning mentions the results, and the model is
// evaluated only once.
TEST_F(ManyRuns, LrFindSaysNothingAboutItsResults) {
  const RunDirectory::Outcome end =
      taper({"lr-find", "t.yaml", "--low", "1e-3", "--high", "1e6", "--out", "rates"});
  expect_says(end, 0, {"proposed: optimizer.lr="});
  EXPECT_FALSE(contains(end.err, "warning")) << end.err;
  size_t evaluations = 0;
  const std::string metrics = bytes("rates/metrics.jsonl");
  for (size_t at = 0; (at = metrics.find("\"split\":\"validation\"", at)) != std::string::npos;
       ++at)
    ++evaluations;
  EXPECT_LE(evaluations, 1u) << metrics;
}

TEST(LrFind, ProposesTheSteepestDescent) {
  std::vector<RatePoint> points;
  for (int i = 0; i < 50; ++i) {
    const double x = -7 + 0.16 * i;  // the loss falls around 1e-3 and grows from 1e-1 on
    const double loss = 2 - 1.5 / (1 + std::exp(-3 * (x + 3))) + (x > -1 ? (x + 1) * (x + 1) : 0);
    points.push_back({std::pow(10, x), loss, loss});
  }
  const LrFindResult result = propose_rate(points);
  EXPECT_NEAR(std::log10(result.proposed), -3, 0.17);
  EXPECT_GT(result.lowest, result.proposed);
  std::vector<RatePoint> rising;
  for (int i = 1; i < 9; ++i) rising.push_back({1e-3 * i, 1.0 * i, 1.0 * i});
  EXPECT_THROW(propose_rate(rising), Diverged);
  EXPECT_THROW(propose_rate({}), Diverged);
}

// --- the list ---

TEST_F(ManyRuns, TheListHasOneLineForEachRun) {
  out_of({"train", "t.yaml", "train.epochs=1", "--out", "runs/a\nb\x1b[31m"});
  const std::string table = out_of({"list", "runs"});
  EXPECT_TRUE(contains(table, "a\\x0ab\\x1b[31m ")) << table;
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 2) << table;
  fs::create_directories(at_ / "empty");
  EXPECT_TRUE(contains(out_of({"list", "empty", "--sort", "test.auc"}), "there are no runs"));
  expect_says(taper({"list", "runs", "--sort", "test.acuracy"}), kExitConfig,
              {"no run has that metric; did you mean 'test.accuracy'?"});
}

TEST_F(ManyRuns, TheListShowsStatesAndSortsByMetrics) {
  out_of({"train", "t.yaml", "--out", "runs/a/good"});
  out_of({"train", "t.yaml", "--out", "runs/bad", "optimizer.lr=1e-5"});
  out_of({"train", "t.yaml", "--out", "runs/paused", "--stop-after-epochs", "1"});
  EXPECT_EQ(taper({"train", "t.yaml", "--out", "runs/diverged", "optimizer.lr=1e30"}).code, 65);
  fs::create_directories(at_ / "runs/empty");
  out_of({"train", "t.yaml", "--out", "runs/damaged"});
  write_bytes(at_ / "runs/damaged/exit.json", "{");
  const pid_t child = at_.start({"train", "t.yaml", "--out", "runs/live", "train.epochs=1000000"});
  wait_until([&] { return fs::exists(at_ / "runs/live/metrics.jsonl"); });
  RunDirectory other;  // has its own stdout
  const auto list = [&](Words more) {
    more.insert(more.begin(), {"list", (at_ / "runs").string()});
    const RunDirectory::Outcome end = other.taper(more);
    EXPECT_EQ(end.code, 0) << end.err;
    return end.out;
  };
  std::map<std::string, std::string> states, measured;
  for (const Json& run : Json::parse(list({"--json"}))) {
    const std::string name = fs::path(run["run"].get<std::string>()).filename();
    states[name] = run["state"];
    measured[name] = run.value("metrics_of", "");
    EXPECT_GT(run["bytes"].is_number() ? run["bytes"].get<int64_t>() : 0,
              run["state"] == "damaged" ? -1 : 0);
  }
  ::kill(child, SIGKILL);
  at_.wait(child);
  EXPECT_EQ(states, (std::map<std::string, std::string>{{"good", "finished"},
                                                        {"bad", "finished"},
                                                        {"paused", "stopped"},
                                                        {"diverged", "failed"},
                                                        {"damaged", "damaged"},
                                                        {"live", "running"}}));
  EXPECT_EQ(measured["good"], "saved weights");
  EXPECT_NE(measured["live"], "saved weights");
  const std::string sorted = list({"--sort", "test.loss"});
  EXPECT_LT(sorted.find("a/good"), sorted.find("bad")) << sorted;
  EXPECT_TRUE(contains(sorted, "t.csv")) << sorted;
  const std::string table = list({});
  EXPECT_TRUE(contains(table, "killed"));
  // A run that was killed has not said which weights it saved.
  const size_t live = table.find("live");
  ASSERT_NE(live, std::string::npos);
  const std::string line = table.substr(live, table.find('\n', live) - live);
  EXPECT_EQ(contains(line, ".loss"), contains(line, "(last evaluation)")) << line;
  const size_t good = table.find("a/good");
  EXPECT_FALSE(contains(table.substr(good, table.find('\n', good) - good), "(last")) << table;
  expect_says(other.taper({"list", (at_ / "runs").string(), "--sort", "test.nope"}), kExitConfig,
              {"no run has that metric", "test.accuracy"});
  expect_says(other.taper({"list", "nowhere"}), kExitInput, {"there is no folder 'nowhere'"});
  expect_says(other.taper({"list", "."}), 0, {"there are no runs in '.'"});
}

}  // namespace
}  // namespace taper::v0::runner
