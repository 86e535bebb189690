// The identity of a run: no other process writes to its directory, its files are unchanged, and it
// continues with the data and the config with which it began. It gives the same results from every
// working directory.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <functional>
#include <thread>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "apps/runner/base/errors.h"
#include "apps/runner/base/files.h"
#include "apps/runner/commands/commands.h"
#include "apps/runner/gate/gate.h"
#include "apps/runner/report/report.h"
#include "apps/runner/run/checkpoint.h"
#include "apps/runner/run/run_directory.h"
#include "apps/runner/train/train.h"
#include "tests/runner/run_process.h"

namespace taper::v0::runner {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Words = std::vector<std::string>;

// 5 steps per epoch.
constexpr const char* kRowsConfig =
    "device: cpu\n"
    "threads: 1\n"
    "data: {type: csv, path: data/rows.csv, task: regression}\n"
    "model: {type: mlp, hidden: [4]}\n"
    "optimizer: {type: adamw, lr: 0.05}\n"
    "schedule: {type: cosine}\n"
    "train: {epochs: 2, batch_size: 8}\n"
    "checkpoint: {every: 0, keep: 9}\n";

std::string rows(int n = 50) {
  std::string out = "a,b,y\n";
  for (int i = 0; i < n; ++i)
    out += concat_to_string(i % 13, ",", i % 7 - 3, ",", (i % 13) * 2 - i % 7, "\n");
  return out;
}

class Identity : public ::testing::Test {
 protected:
  Identity() {
    fs::create_directories(at_ / "data");
    write_bytes(at_ / "rows.yaml", kRowsConfig);
    write_bytes(at_ / "data/rows.csv", rows());
  }

  RunDirectory::Outcome train(const std::string& out, const Words& more = {}) const {
    Words words{"train", "rows.yaml", "--out", out};
    words.insert(words.end(), more.begin(), more.end());
    return at_.taper(words);
  }
  void expect_trains(const std::string& out, const Words& more = {}) const {
    const RunDirectory::Outcome end = train(out, more);
    ASSERT_EQ(end.code, 0) << end.err;
  }
  std::string text(const std::string& file) const { return read_bytes(at_ / file); }

  RunDirectory at_;
};

void expect_says(const RunDirectory::Outcome& end, int code, const Words& parts) {
  EXPECT_EQ(end.code, code) << end.out << end.err;
  for (const std::string& part : parts) {
    EXPECT_NE((end.out + end.err).find(part), std::string::npos) << part << " in\n"
                                                                 << end.out << end.err;
  }
}

// --- one directory, one run ---

TEST_F(Identity, ALiveRunKeepsItsDirectory) {
  const pid_t child = at_.start({"train", "rows.yaml", "train.epochs=1000000", "--out", "r"});
  for (int i = 0; i < 4000 && !newest_checkpoint(at_ / "r"); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  const std::string config = text("r/config.yaml");
  for (const Words& more : {Words{"seed=5"}, Words{"train.epochs=3", "--resume", "auto"}}) {
    // Its output goes to a directory of its own.
    RunDirectory other;
    Words words{"train", (at_ / "rows.yaml").string(),
                concat_to_string("data.path=", at_ / "data/rows.csv"), "--out",
                (at_ / "r").string()};
    words.insert(words.end(), more.begin(), more.end());
    expect_says(other.taper(words), 66,
                {"is in use by process ", concat_to_string(child), " on ", " since "});
  }
  EXPECT_EQ(text("r/config.yaml"), config);
  EXPECT_FALSE(fs::exists(at_ / "r.1"));
  ::kill(child, SIGKILL);
  EXPECT_EQ(at_.wait(child).code, 128 + SIGKILL);
  // The lock of a dead process does not count.
  expect_trains("r", {"seed=5"});
  EXPECT_TRUE(fs::exists(at_ / "r.1/checkpoints"));
  EXPECT_EQ(text("r/run.lock"), "") << "the lock file of an ended run must be empty";
}

TEST_F(Identity, TwoRunsThatStartAtOnceDoNotMix) {
  RunDirectory second;
  const Words words{"train", (at_ / "rows.yaml").string(),
                    concat_to_string("data.path=", (at_ / "data/rows.csv").string()), "--out",
                    (at_ / "r").string()};
  for (int round = 0; round < 3; ++round) {
    const pid_t a = at_.start(words), b = second.start(words);
    for (const RunDirectory::Outcome& end : {at_.wait(a), second.wait(b)}) {
      EXPECT_TRUE(end.code == 0 || end.code == 66) << end.code << '\n' << end.out << end.err;
    }
    EXPECT_EQ(verify(at_ / "r").substr(0, 3), "OK ");
    const std::string metrics = text("r/metrics.jsonl");
    EXPECT_EQ(std::ranges::count(metrics, '\n'), 12) << metrics;
  }
}

TEST_F(Identity, OnlyWhatARunMadeIsMovedAside) {
  fs::create_directories(at_ / "other");
  write_bytes(at_ / "other/env.json", "{\"mine\": 1}");
  const std::string here = "../" + (at_ / "r").parent_path().filename().string();
  for (const std::string& out : Words{"data", "data/", here, ".", "other"}) {
    const RunDirectory::Outcome end = train(out);
    expect_says(end, 66, {"has files that are not from a run", "--out"});
    EXPECT_TRUE(fs::exists(at_ / "data/rows.csv"));
    EXPECT_FALSE(fs::exists(at_ / "data/run.lock"));
  }
  expect_says(train("data", {"--resume", "auto"}), 66, {"has files that are not from a run"});
  // A run of an older version, one that was killed while it began, and an empty directory.
  expect_trains("old");
  fs::remove(at_ / "old/run.lock");
  fs::create_directories(at_ / "begun");
  write_bytes(at_ / "begun/run.lock", "process 1 on host");
  fs::create_directories(at_ / "empty");
  for (const std::string out : {"old", "begun", "empty"}) expect_trains(out);
  EXPECT_TRUE(fs::exists(at_ / "old.1/metrics.jsonl"));
}

// --- checksums of every file ---

class Bits : public ::testing::Test {
 protected:
  Bits() {
    fs::create_directories(at_ / "data");
    std::string yaml = kRowsConfig;
    yaml.replace(yaml.find("data/rows.csv"), 13, (at_ / "data/rows.csv").string());
    write_bytes(at_ / "rows.yaml", yaml);
    write_bytes(at_ / "data/rows.csv", rows());
    train(load_config(at_ / "rows.yaml", {}), at_ / "r");
    train(load_config(at_ / "rows.yaml", {}), at_ / "other");
    record(at_ / "r", at_ / "golden.json");
  }

  RunDirectory at_;
};

TEST_F(Bits, AnyThatFlipsIsRefusedByEveryVerb) {
  const fs::path run = at_ / "r", golden = at_ / "golden.json";
  const std::pair<const char*, std::function<void()>> verbs[] = {
      {"eval, predict, generate", [&] { (void)open_run(run, {}); }},
      {"record", [&] { record(run, at_ / "again.json"); }},
      {"check", [&] { check(run, golden); }},
      {"reproduce", [&] { reproduce(run); }},
      {"diff", [&] { diff(at_ / "other", run); }},
      {"report", [&] { write_report({run}, at_ / "report.html"); }},
      {"verify", [&] { verify(run); }},
  };
  for (const std::string file : {"config.yaml", "data.json", "env.json", "exit.json",
                                 "metrics.jsonl", "model.safetensors", "CRC32"}) {
    const std::string whole = read_bytes(run / file);
    for (const double place : {0.0, 0.1, 0.37, 0.5, 0.73, 0.999}) {
      for (const int bit : {0, 3, 7}) {
        std::string bytes = whole;
        char& c = bytes[size_t(place * double(bytes.size()))];
        c = char(c ^ (1 << bit));
        write_bytes(run / file, bytes);
        for (const auto& [name, verb] : verbs) {
          SCOPED_TRACE(concat_to_string(name, ": ", file, " at ", place, ", bit ", bit));
          try {
            verb();
            ADD_FAILURE() << "accepted";
          } catch (const InputError& error) {
            EXPECT_NE(std::string(error.what()).find(file), std::string::npos) << error.what();
          }
        }
      }
    }
    write_bytes(run / file, whole);
  }
  EXPECT_EQ(verify(run),
            concat_to_string(
                "OK  config.yaml, data.json, env.json, evaluation.json, exit.json, "
                "metrics.jsonl, model.safetensors\nOK  checkpoints/step-00000010\nOK  checkpoints/",
                "step-00000005\n"));
}

TEST_F(Bits, CheckpointsAreVerifiedToo) {
  const fs::path checkpoint = *newest_checkpoint(at_ / "r");
  EXPECT_EQ(verify(checkpoint), concat_to_string("OK  ", checkpoint.string(), "\n"));
  write_bytes(checkpoint / "state.json", "{}");
  for (const fs::path& path : {checkpoint, at_ / "r"}) {
    try {
      verify(path);
      ADD_FAILURE() << path;
    } catch (const InputError& error) {
      EXPECT_NE(std::string(error.what()).find("state.json"), std::string::npos) << error.what();
    }
  }
  EXPECT_THROW(verify(at_ / "data"), InputError);
}

TEST_F(Bits, CheckAndReproduceLookAtTheStoredWeights) {
  const fs::path run = at_ / "r";
  EXPECT_TRUE(check(run, at_ / "golden.json").passed);
  EXPECT_TRUE(reproduce(run).passed);
  std::string bytes = read_bytes(run / "model.safetensors");
  bytes.back() = char(bytes.back() ^ 1);
  write_bytes(run / "model.safetensors", bytes);
  write_run_checksums(run, true);  // the checksums fit again, as if the change were intended
  for (const Verdict& verdict : {check(run, at_ / "golden.json"), reproduce(run)}) {
    EXPECT_FALSE(verdict.passed);
    EXPECT_NE(verdict.text.find("model.safetensors"), std::string::npos) << verdict.text;
  }
  EXPECT_TRUE(check(run, at_ / "golden.json", {{"", 1e-3}}).passed);
}

TEST_F(Identity, MetricsThatWereChangedAreNotGoneOnBehind) {
  expect_trains("r");
  std::string metrics = text("r/metrics.jsonl");
  metrics[metrics.find("\"loss\":") + 8] ^= 1;
  write_bytes(at_ / "r/metrics.jsonl", metrics);
  expect_says(train("r", {"train.epochs=3", "--resume", "auto"}), 66,
              {"metrics.jsonl", "is damaged or was modified"});
}

TEST_F(Identity, ARunOfAnOlderVersionIsTakenAsItIs) {
  expect_trains("r");
  fs::remove(at_ / "r/CRC32");
  expect_says(at_.taper({"eval", "r"}), 0, {"has no checksums", "test loss"});
  expect_says(at_.taper({"verify", "r"}), 0, {"no checksums", "OK  checkpoints/step-00000010"});
}

// --- the same data ---

TEST_F(Identity, AResumedRunHasTheDataThatItBeganWith) {
  expect_trains("r");
  write_bytes(at_ / "data/rows.csv", rows(49) + "1,2,30\n");
  const Words longer{"train.epochs=3", "--resume", "auto"};
  const std::string metrics = text("r/metrics.jsonl");
  expect_says(train("r", longer), 66,
              {"the data have changed", "data/rows.csv", "CRC-32", "--allow-changed-data"});
  EXPECT_EQ(text("r/metrics.jsonl"), metrics);
  Words allowed = longer;
  allowed.push_back("--allow-changed-data");
  expect_says(train("r", allowed), 0, {"the run continues with them"});
}

TEST_F(Identity, EvalSaysThatItsDataHaveChanged) {
  write_bytes(at_ / "data/test.csv", rows(20));
  expect_trains("r", {"data.test_path=data/test.csv"});
  const RunDirectory::Outcome same = at_.taper({"eval", "r"});
  EXPECT_EQ(same.err.find("have changed"), std::string::npos) << same.err;
  write_bytes(at_ / "data/test.csv", rows(21));
  expect_says(at_.taper({"eval", "r"}), 0,
              {"the data files have changed since the run was trained", "data/test.csv"});
}

TEST_F(Identity, CheckNamesChangedDataAsTheCause) {
  expect_trains("r");
  ASSERT_EQ(at_.taper({"record", "r", "--to", "golden.json"}).code, 0);
  write_bytes(at_ / "data/rows.csv", rows(49) + "1,2,30\n");
  const Words says{"the data have changed since the run", "data/rows.csv"};
  expect_says(at_.taper({"check", "r", "--against", "golden.json"}), 1, says);
  expect_says(at_.taper({"reproduce", "r"}), 1, says);
  write_bytes(at_ / "data/rows.csv", "a,b,y\n1,2\n");
  expect_says(at_.taper({"check", "r", "--against", "golden.json"}), 66, says);
  fs::remove(at_ / "data/rows.csv");
  expect_says(at_.taper({"reproduce", "r"}), 66, {"not there"});
}

// --- the same config ---

TEST_F(Identity, ARunThatWentOnWithAnotherConfigIsReproduced) {
  expect_trains("r");
  const RunDirectory::Outcome end = train("r", {"train.epochs=3", "--resume", "auto"});
  expect_says(end, 0,
              {"the config changes after step 10", "train.epochs: 2 | 3",
               "at step 10 the learning rate was"});
  // Resumes an earlier checkpoint with a third config.
  expect_trains("r", {"train.epochs=4", "--resume", "r/checkpoints/step-00000005"});
  const Json history = Json::parse(text("r/history.json"));
  ASSERT_EQ(history.size(), 2u);
  EXPECT_EQ(history[1]["step"], 5);
  expect_trains("r", {"train.epochs=5", "--resume", "last"});
  EXPECT_EQ(Json::parse(text("r/history.json")).size(), 3u);
  expect_says(at_.taper({"reproduce", "r"}), 0, {"the same metrics, byte for byte\n"});
  ASSERT_EQ(at_.taper({"record", "r", "--to", "golden.json"}).code, 0);
  expect_says(at_.taper({"check", "r", "--against", "golden.json"}), 0, {"to step 25"});
  // Settings that do not affect the numbers do not count as another config.
  expect_trains("r", {"train.epochs=5", "checkpoint.keep=2", "--resume", "last"});
  EXPECT_EQ(Json::parse(text("r/history.json")).size(), 3u);
}

TEST_F(Identity, RunsThatLogOtherStepsAreTheSame) {
  expect_trains("a");
  expect_trains("b", {"train.log_every=3"});
  expect_says(at_.taper({"diff", "a", "b"}), 0,
              {"train.log_every: 1 | 3", "the lines of metrics.jsonl that both runs have"});
  expect_trains("c", {"train.log_every=2", "optimizer.lr=0.06"});
  expect_says(at_.taper({"diff", "b", "c"}), 1, {"optimizer.lr: 0.05 | 0.06", "in step 1"});
  expect_trains("d", {"train.eval_every=4"});
  expect_says(at_.taper({"diff", "a", "d"}), 0, {"train.eval_every"});
}

// --- the same results from every folder ---

TEST_F(Identity, ARunFindsItsDataFromAnotherFolder) {
  expect_trains("runs/r");
  RunDirectory elsewhere;
  const std::string run = at_ / "runs/r";
  expect_says(elsewhere.taper({"eval", run}), 0, {"test loss"});
  expect_says(elsewhere.taper({"reproduce", run}), 0, {"byte for byte"});
  EXPECT_EQ(elsewhere.taper({"train", run + "/config.yaml", "--out", "again"}).code, 0);
  EXPECT_EQ(text("runs/r/metrics.jsonl"), read_bytes(elsewhere / "again/metrics.jsonl"));
  expect_says(elsewhere.taper({"reproduce", "again"}), 0, {"byte for byte"});
  // A path in an override is relative to the current directory.
  expect_says(elsewhere.taper({"eval", run, "data.path=data/rows.csv"}), 66, {"data/rows.csv"});
}

// --- printed numbers and saved weights ---

TEST_F(Identity, TheSummarySaysWhichWeightsAreSaved) {
  const Words best{"schedule={type: constant}", "optimizer.lr=3", "train.epochs=8",
                   "train.early_stopping={metric: loss, patience: 2}"};
  const RunDirectory::Outcome end = train("r", best);
  ASSERT_EQ(end.code, 0) << end.err;
  const Json exit = Json::parse(text("r/exit.json"));
  ASSERT_NE(exit["step"], exit["best_step"])
      << "the test needs a run whose last step is not its best";
  EXPECT_EQ(exit["model_step"], exit["best_step"]);
  const int64_t step = exit["best_step"], epoch = step / 5;
  expect_says(
      end, 0,
      {concat_to_string("saved weights:   step ", step, " in epoch ", epoch, ", the best\n"),
       concat_to_string("at step ", step, ", in checkpoints/best")});
  expect_says(at_.taper({"eval", "r"}), 0, {concat_to_string("weights:         step ", step)});
}

// Returns the line "test loss:       0.1234" of a command's output.
std::string loss_in(const RunDirectory::Outcome& end) {
  EXPECT_EQ(end.code, 0) << end.err;
  const size_t at = end.out.find("test loss:");
  return at == std::string::npos ? end.out : end.out.substr(at, end.out.find('\n', at) - at);
}

TEST_F(Identity, TheSavedWeightsAreTheBestWhereverTheConfigAsksForThem) {
  // The learning rate is so high that the loss increases.
  const Words fast{"schedule={type: constant}", "optimizer.lr=3", "train.epochs=4"};
  const auto with = [&](const std::string& setting) {
    Words all = fast;
    all.push_back(setting);
    return all;
  };
  const RunDirectory::Outcome last = train("last", fast);
  const RunDirectory::Outcome best = train("best", with("train.best={metric: loss}"));
  const RunDirectory::Outcome stopping = train("stopping", with("train.early_stopping={}"));
  const std::string best_loss = loss_in(best), last_loss = loss_in(last);
  EXPECT_NE(best_loss, last_loss) << "the test needs a run whose last step is not its best";
  EXPECT_EQ(loss_in(stopping), best_loss)
      << "early_stopping saves the best weights even if it does not stop";
  // The summary shows the numbers of the saved weights.
  for (const auto& [run, loss] : {std::pair("best", best_loss), std::pair("stopping", best_loss),
                                  std::pair("last", last_loss)}) {
    EXPECT_EQ(loss_in(at_.taper({"eval", run})), loss) << run;
    // The best and the last weights are both available.
    EXPECT_EQ(loss_in(at_.taper({"eval", run, "--weights", "best"})), best_loss) << run;
    EXPECT_EQ(loss_in(at_.taper({"eval", run, "--weights", "last"})), last_loss) << run;
    EXPECT_EQ(loss_in(at_.taper({"eval", concat_to_string(run, "/checkpoints/best")})), best_loss)
        << run;
    EXPECT_EQ(loss_in(at_.taper({"eval", concat_to_string(run, "/checkpoints/last/")})), last_loss)
        << run;
    EXPECT_EQ(loss_in(at_.taper({"eval", newest_checkpoint(at_ / run)->string()})), last_loss);
  }
  EXPECT_NE(text("best/model.safetensors"), text("last/model.safetensors"));
  EXPECT_EQ(text("best/metrics.jsonl"), text("last/metrics.jsonl"));
  // An export into a checkpoint's folder would damage the checkpoint, so it goes to the run's
  // folder.
  expect_says(at_.taper({"export", "best/checkpoints/best", "--to", "pt"}), 0, {"best/model.pt"});
  EXPECT_EQ(at_.taper({"verify", "best"}).code, 0);
}

TEST_F(Identity, WeightsThatAreNotThereAreNamed) {
  expect_trains("r");
  fs::copy(fs::canonical(best_checkpoint(at_ / "r")), at_ / "elsewhere");
  expect_says(at_.taper({"eval", "elsewhere"}), 66, {"outside of the directory of its run"});
  expect_says(at_.taper({"eval", "r", "--weights", "newest"}), 2, {"expected best or last"});
  expect_says(at_.taper({"eval", "r/checkpoints/best", "--weights", "last"}), 2,
              {"already selects the weights"});
  expect_says(at_.taper({"report", "r/checkpoints/best", "-o", "page"}), 66, {"is a checkpoint"});
  fs::remove_all(at_ / "r/checkpoints");
  // The run's own weights are the last ones.
  expect_says(at_.taper({"eval", "r", "--weights", "last"}), 0, {"weights:         step 10"});
  expect_says(at_.taper({"eval", "r/checkpoints/best"}), 0, {"weights:         step 10"});
}

TEST_F(Identity, ABranchOfARunKeepsTheBestWeightsSoFar) {
  // With mode max the first evaluation stays the best, because its loss is the highest.
  const Words worst{"train.best={metric: loss, mode: max}", "train.epochs=4", "checkpoint.every=0",
                    "checkpoint.keep=10"};
  expect_trains("r", worst);
  Words branch = worst;
  branch.insert(branch.end(), {"--resume", "r/checkpoints/step-00000010"});
  expect_trains("branch", branch);
  EXPECT_EQ(text("branch/model.safetensors"), text("r/model.safetensors"));
  EXPECT_EQ(step_of(best_checkpoint(at_ / "branch")), 5);
}

TEST_F(Identity, TheLossOfALineIsTheMeanSinceTheLastOne) {
  const RunDirectory::Outcome end = train("r");
  double sum = 0;
  std::istringstream lines(text("r/metrics.jsonl"));
  std::string line;
  for (int i = 0; i < 5 && std::getline(lines, line); ++i) {
    sum += Json::parse(line)["loss"].get<double>();
  }
  char mean[32];
  std::snprintf(mean, sizeof mean, " loss=%.4g ", sum / 5);
  EXPECT_NE(end.err.find(mean), std::string::npos) << mean << end.err;
}

// --- links and leftover files ---

TEST_F(Identity, LinksInARunAreNotFollowed) {
  expect_trains("r");
  for (const std::string name : {"config.yaml", "data.json", "env.json"}) {
    fs::rename(at_ / ("r/" + name), at_ / ("my_" + name));
    fs::create_symlink(at_ / ("my_" + name), at_ / ("r/" + name));
  }
  const std::string config = text("my_config.yaml"), env = text("my_env.json");
  expect_trains("r", {"train.epochs=3", "--resume", "auto"});
  EXPECT_EQ(text("my_config.yaml"), config);
  EXPECT_EQ(text("my_env.json"), env);
  EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(at_ / "r/data.json")));
  write_bytes(at_ / "precious", "precious");
  for (const char* name : {"timing.jsonl", "log.txt", "metrics.jsonl"}) {
    fs::rename(at_ / concat_to_string("r/", name), at_ / "kept");
    fs::create_symlink(at_ / "precious", at_ / concat_to_string("r/", name));
    expect_says(train("r", {"train.epochs=4", "--resume", "auto"}), 74,
                {name, "it is a symbolic link"});
    fs::rename(at_ / "kept", at_ / concat_to_string("r/", name));
  }
  EXPECT_EQ(text("precious"), "precious");
}

TEST_F(Identity, ScratchOfAKilledProcessGoesWithTheNext) {
  fs::create_directories(at_ / "tmp");
  ::setenv("TMPDIR", (at_ / "tmp").c_str(), 1);
  const pid_t child = ::fork();
  if (child == 0) {
    const TemporaryDirectory left;
    write_bytes(left.path() / "file", "text");
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
  fs::create_directories(at_ / "tmp/taper-scratch-of-the-user");
  const auto entries = [&] { return std::distance(fs::directory_iterator(at_ / "tmp"), {}); };
  EXPECT_EQ(entries(), 2);
  {
    const TemporaryDirectory living;
    EXPECT_EQ(entries(), 2);
    const TemporaryDirectory another;
    EXPECT_EQ(entries(), 3);
    EXPECT_TRUE(fs::exists(living.path()));
  }
  EXPECT_EQ(entries(), 1);
  ::unsetenv("TMPDIR");
}

// --- invalid checkpoints ---

// Changes the newest checkpoint and updates its checksums.
void change(const fs::path& run, const std::function<void(const fs::path&)>& how) {
  const fs::path checkpoint = *newest_checkpoint(run);
  how(checkpoint);
  Words names;
  for (const auto& entry : fs::directory_iterator(checkpoint)) {
    if (entry.path().filename() != kChecksums) names.push_back(entry.path().filename());
  }
  write_bytes(checkpoint / kChecksums, sums_of(checkpoint, names));
}

TEST_F(Identity, OddCheckpointsAreRefusedByName) {
  expect_trains("whole");
  const auto set = [](const std::string& key, const Json& value) {
    return [=](const fs::path& checkpoint) {
      Json state = Json::parse(read_bytes(checkpoint / "state.json"));
      state[Json::json_pointer(key)] = value;
      write_bytes(checkpoint / "state.json", state.dump());
    };
  };
  struct Odd {
    const char* says;
    std::function<void(const fs::path&)> how;
  };
  const Odd table[] = {
      {"state.json", [](const fs::path& c) { fs::remove(c / "state.json"); }},
      {"model.safetensors", [](const fs::path& c) { fs::remove(c / "model.safetensors"); }},
      {"optimizer.safetensors", [](const fs::path& c) { fs::remove(c / "optimizer.safetensors"); }},
      {"config.yaml", [](const fs::path& c) { fs::remove(c / "config.yaml"); }},
      {"state.json", [](const fs::path& c) { write_bytes(c / "state.json", "[]"); }},
      {"state.json", [](const fs::path& c) { write_bytes(c / "state.json", "{"); }},
      {"safetensors", [](const fs::path& c) { write_bytes(c / "model.safetensors", "short"); }},
      {"cannot be used",
       [](const fs::path& c) {
         fs::copy_file(c / "model.safetensors", c / "optimizer.safetensors",
                       fs::copy_options::overwrite_existing);
       }},
      {"'step'", set("/step", -3)},
      {"'step'", set("/step", 1.5)},
      {"'step'", set("/step", UINT64_MAX)},
      {"'epoch'", set("/epoch", 0)},
      {"'batch'", set("/batch", -1)},
      {"'batch'", set("/batch", 1000)},
      {"'metrics_bytes'", set("/metrics_bytes", -1)},
      {"'misses'", set("/best/misses", -1)},
      {"'rollbacks'", set("/rollbacks", "many")},
      {"state.json", set("/random", 3)},
      {"state.json", set("/confusion", "no")},
      {"state.json", set("/metrics", Json{{"loss", "low"}})},
      {"state.json", set("/lr_scale", nullptr)},
  };
  for (const Odd& odd : table) {
    SCOPED_TRACE(odd.says);
    fs::remove_all(at_ / "r");
    fs::copy(at_ / "whole", at_ / "r",
             fs::copy_options::recursive | fs::copy_options::copy_symlinks);
    change(at_ / "r", odd.how);
    expect_says(train("r", {"train.epochs=3", "--resume", "auto"}), 66,
                {odd.says, "step-00000010"});
  }
}

}  // namespace
}  // namespace taper::v0::runner
