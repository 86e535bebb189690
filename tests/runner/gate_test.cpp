// The commands record, check, diff and reproduce on real runs, which are trained and repeated in
// this process.
#include "apps/runner/gate/gate.h"

#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "apps/runner/base/errors.h"
#include "apps/runner/base/files.h"
#include "apps/runner/train/train.h"
#include "tests/testing.h"

namespace taper::v0::runner {
namespace {

namespace fs = std::filesystem;

// 8 steps and an evaluation.
constexpr const char* kGated =
    "name: tiny\ndevice: cpu\nseed: 3\n"
    "data: {type: digits, train_size: 512, test_size: 64}\n"
    "model: {type: mlp, hidden: [16], dropout: 0.1}\n"
    "optimizer: {type: sgd, lr: 0.1}\n"
    "train: {epochs: 1, batch_size: 64}\n";

std::string read(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}
void write(const fs::path& file, const std::string& text) {
  std::ofstream(file, std::ios::binary) << text;
}
std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from << " in\n" << text;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

class Gate : public ::testing::Test {
 protected:
  Gate() : dir_(fs::temp_directory_path() / concat_to_string("taper_gate_", getpid())) {
    fs::create_directories(dir_);
  }
  ~Gate() override { fs::remove_all(dir_); }

  // Trains kGated, with each first text of `changes` replaced by the second.
  fs::path run(const std::string& name,
               const std::vector<std::pair<std::string, std::string>>& changes = {}) const {
    std::string config = kGated;
    for (const auto& [from, to] : changes) config = replaced(config, from, to);
    write(dir_ / "config.yaml", config);
    train(load_config(dir_ / "config.yaml", {}), dir_ / name);
    return dir_ / name;
  }

  fs::path dir_;
};

void expect_says(const Verdict& verdict, bool passed, const std::vector<std::string>& parts) {
  EXPECT_EQ(verdict.passed, passed) << verdict.text;
  for (const std::string& part : parts) {
    EXPECT_NE(verdict.text.find(part), std::string::npos) << "expected '" << part << "' in:\n"
                                                          << verdict.text;
  }
}

TEST_F(Gate, ARecordingHasEveryStepAndTheRunMadeAgainAgrees) {
  const fs::path a = run("a"), golden = dir_ / "golden.json";
  expect_says(record(a, golden), true, {"recorded 9 steps and evaluations"});
  const Recording recording = load_recording(golden);
  ASSERT_EQ(recording.rows.size(), 9u);
  for (size_t i = 0; i < 8; ++i) {
    const Recording::Row& row = recording.rows[i];
    EXPECT_EQ(row.at("step"), concat_to_string(i + 1));
    EXPECT_EQ(row.at("state").size(), 8u);
    EXPECT_TRUE(row.at("loss").starts_with("0x1.")) << row.at("loss");
    EXPECT_TRUE(row.at("grad_norm").starts_with("0x1.")) << row.at("grad_norm");
  }
  EXPECT_NE(recording.rows[0].at("state"), recording.rows[1].at("state"));
  EXPECT_EQ(recording.rows[8].count("test.accuracy"), 1u);
  save_recording(recording, dir_ / "again.json");
  EXPECT_EQ(read(dir_ / "again.json"), read(golden));

  expect_says(check(a, golden), true, {"the same as recorded, up to step 8"});
  expect_says(check(golden, golden), true, {"the same as recorded, up to step 8"});
}

TEST_F(Gate, TheFirstSteps) {
  const fs::path a = run("a"), golden = dir_ / "golden.json";
  record(a, golden, {.steps = 5, .state_every = 2});
  const Recording recording = load_recording(golden);
  ASSERT_EQ(recording.rows.size(), 5u);
  EXPECT_EQ(recording.rows[0].count("state"), 0u);
  EXPECT_EQ(recording.rows[1].count("state"), 1u);
  EXPECT_EQ(recording.rows[4].count("state"), 1u)
      << "the state of the last step is always recorded";
  expect_says(check(a, golden), true, {"the same as recorded, up to step 5"});
}

TEST_F(Gate, AnotherLearningRateIsFoundInTheWeightsOfTheFirstStep) {
  const fs::path golden = dir_ / "golden.json";
  record(run("a"), golden);
  const fs::path b = run("b", {{"lr: 0.1", "lr: 0.11"}});
  expect_says(check(b, golden), false,
              {"step 1:\n  weights after the step: ", "config (the run | the recording):",
               "lr: 0.11 | 0.1"});
  // With a tolerance the hash of the weights is not compared. The numbers differ from step 2 on.
  expect_says(check(b, golden, {{"", 1e-6}}), false, {"step 2:\n  ", "(0x1.", "allowed 1e-06"});
  expect_says(check(b, golden, {{"", 1e9}}), true,
              {"the same as recorded, up to step 8",
               "the numbers are the same, but the config differs", "lr: 0.11 | 0.1"});
}

TEST_F(Gate, ARecordingKnowsTheDataAndTheProgram) {
  const std::string csv = "x,y\n1,2.5\n2,4\n3,6\n4,8\n5,10\n";
  write(dir_ / "x.csv", csv);
  const std::pair<std::string, std::string> data = {
      "{type: digits, train_size: 512, test_size: 64}",
      concat_to_string("{type: csv, path: ", (dir_ / "x.csv").string(),
                       ", label: y, task: regression}")};
  const fs::path golden = dir_ / "golden.json";
  record(run("a", {data}), golden);
  const std::vector<Recording::Row> original = load_recording(golden).rows;
  // The usual workflow: a new run for every check.
  write(dir_ / "x.csv", replaced(csv, "3,6", "3,7"));
  const fs::path b = run("b", {data});
  const Verdict changed = check(b, golden);
  expect_says(changed, false,
              {"data (the run | the recording):\n  ", "x.csv: 27 bytes, CRC-32 ", " | 27 bytes"});
  EXPECT_EQ(changed.text.find("config"), std::string::npos) << changed.text;
  write(dir_ / "x.csv", csv);
  const fs::path c = run("c", {data});
  Recording other = load_recording(golden);
  other.rows[0]["loss"] = "0x1p-9";
  save_recording(other, golden);
  expect_says(check(c, golden), false, {"are as recorded: the program's code has changed"});
  other.metadata.program["cpu"] = "Abacus";
  save_recording(other, golden);
  expect_says(check(c, golden), false, {"program or machine (the run | the recording): cpu: "});
  // A recording of an older version has one section and no program.
  const Recording now = load_recording(golden);
  write(golden, nlohmann::json({{"recording", 1},
                                {"config", now.config},
                                {"steps", now.steps},
                                {"state_every", now.state_every},
                                {"rtol", now.tolerances},
                                {"rows", original}})
                    .dump(1));
  expect_says(check(c, golden), true, {"the same as recorded"});
}

Recording two_steps() {
  Recording r;
  r.rows = {{{"step", "1"}, {"loss", "0x1.4p+1"}, {"grad_norm", "0x1p+0"}, {"state", "0000000a"}},
            {{"step", "2"}, {"loss", "0x1p-1"}, {"grad_norm", "0x0p+0"}},
            {{"step", "2"}, {"test.loss", "0x1p-2"}, {"test.accuracy", "0x1p-1"}}};
  return r;
}

struct Comparison {
  const char* name;
  std::function<void(Recording&)> change;  // changes the run's recording
  Tolerances tolerances;
  bool passes;
  const char* says;
};

TEST(Recordings, AreComparedStepByStep) {
  const auto set = [](size_t row, const char* metric, const char* to) {
    return [=](Recording& r) { r.rows[row][metric] = to; };
  };
  const auto drop = [](size_t row, const char* metric) {
    return [=](Recording& r) { r.rows[row].erase(metric); };
  };
  const Comparison rows[] = {
      {"same", [](Recording&) {}, {}, true, "the same as recorded, up to step 2"},
      {"loss",
       set(1, "loss", "0x1.8p-1"),
       {},
       false,
       "step 2:\n  loss is 0.75 (0x1.8p-1), recorded 0.5 (0x1p-1): relative difference 0.5, "
       "allowed 0\n"},
      {"the last bit", set(1, "loss", "0x1.0000000000001p-1"), {}, false, "step 2:\n  loss is 0.5"},
      {"nan", set(1, "loss", "nan"), {{"", 1}}, false, "step 2:\n  loss is nan"},
      {"infinite", set(1, "loss", "-inf"), {{"", 1}}, false, "loss is -inf"},
      {"within", set(1, "loss", "0x1.8p-1"), {{"loss", 0.5}}, true, "the same"},
      {"named wins", set(1, "loss", "0x1.8p-1"), {{"", 1}, {"loss", 0.1}}, false, "allowed 0.1"},
      {"evaluation", set(2, "test.accuracy", "0x1.8p-1"), {}, false, "step 2:\n  test.accuracy is"},
      {"evaluation within",
       set(2, "test.accuracy", "0x1.8p-1"),
       {{"test.accuracy", 0.5}},
       true,
       "the same"},
      {"zero", set(1, "grad_norm", "0x1p-40"), {{"", 0.5}}, false, "grad_norm is 9.0"},
      {"minus zero", set(1, "grad_norm", "-0x0p+0"), {}, true, "the same"},
      {"state",
       set(0, "state", "0000000c"),
       {},
       false,
       "step 1:\n  weights after the step: 0000000c, recorded 0000000a"},
      {"state skipped", set(0, "state", "0000000c"), {{"state", 1}}, true, "the same"},
      {"state and loss", set(0, "state", "0000000c"), {{"loss", 0.1}}, true, "the same"},
      {"state asked",
       set(0, "state", "0000000c"),
       {{"", 1}, {"state", 0}},
       false,
       "weights after the step"},
      {"no state", drop(0, "state"), {}, false, "step 1:\n  the run has no state"},
      {"no metric", drop(1, "grad_norm"), {}, false, "step 2:\n  the run has no grad_norm"},
      {"other step", set(1, "step", "3"), {}, false, "step 2:\n  step is 3, recorded 2"},
      {"short",
       [](Recording& r) { r.rows.resize(1); },
       {},
       false,
       "the lengths differ: the run ends after step 1, the recording after step 2"},
      {"long",
       [](Recording& r) {
         r.rows.push_back({{"step", "3"}});
       },
       {},
       false,
       "the lengths differ: the run ends after step 3, the recording after step 2"},
  };
  for (const Comparison& row : rows) {
    Recording got = two_steps();
    row.change(got);
    SCOPED_TRACE(row.name);
    expect_says(compare(got, two_steps(), row.tolerances), row.passes, {row.says});
  }
}

TEST(Recordings, DamagedFilesAreNamed) {
  const fs::path file =
      fs::temp_directory_path() / concat_to_string("taper_bad_", getpid(), ".json");
  EXPECT_TRUE(test::refuses<InputError>([&] { load_recording(file); }, file.string()));
  save_recording(two_steps(), file);
  const std::string whole = read(file);
  const std::string bad[] = {"",
                             "{}",
                             "[1]",
                             "null",
                             whole.substr(0, whole.size() / 2),
                             replaced(whole, "\"recording\": 2", "\"recording\": 3"),
                             replaced(whole, "\"rows\": [", "\"rows\": [{},"),
                             replaced(whole, "\"rows\": [", "\"rows\": [[],"),
                             replaced(whole, "\"step\":\"1\"", "\"step\":1"),
                             replaced(whole, "\"steps\":", "\"steps\": -1, \"more\":"),
                             std::string(100'000, '[')};
  for (const std::string& text : bad) {
    write(file, text);
    EXPECT_TRUE(test::refuses<InputError>([&] { load_recording(file); }, file.string() + ":"))
        << text;
  }
  write(file, replaced(whole, "0x1p-1", "0x1q-1"));
  EXPECT_TRUE(test::refuses<InputError>([&] { compare(two_steps(), load_recording(file), {}); },
                                        "damaged recording: loss is '0x1q-1'"));
  fs::remove(file);
}

TEST(Recordings, ToleranceWords) {
  EXPECT_EQ(parse_tolerances({"1e-5", "loss=0.1"}), (Tolerances{{"", 1e-5}, {"loss", 0.1}}));
  for (const char* bad : {"x", "loss=", "loss=-1", "nan"}) {
    EXPECT_TRUE(test::refuses<ConfigError>([&] { parse_tolerances({bad}); }, "tolerance '"));
  }
}

struct Difference {
  const char* from;
  const char* to;
  std::vector<std::string> says;
};

TEST_F(Gate, DiffNamesTheFirstThingThatDiffers) {
  const fs::path a = run("a");
  const Difference rows[] = {
      {"lr: 0.1",
       "lr: 0.11",
       {"optimizer", "0.1 | 0.11", "first difference, in step 1: 1.weight after the step"}},
      {"dropout: 0.1",
       "dropout: 0.2",
       {"first difference, in step 1: output of module 3 (Dropout), op ", "64 x 16"}},
      {"hidden: [16]",
       "hidden: [17]",
       {"in step 1: 1.weight before the step\n  float32 [16, 784] | float32 [17, 784]"}},
      {"hidden: [16]",
       "hidden: [16], activation: gelu",
       {"in step 1: different computations\n  output of module 2 (ReLU)"}},
      {"seed: 3",
       "seed: 4",
       {"seed: 3 | 4", "in step 1: 1.weight before the step\n  element [0, 0]: "}},
      {"test_size: 64",
       "test_size: 65",
       {"metrics.jsonl, line 9", "the evaluation after step 8 uses different data"}},
      {"test_size: 64", "test_size: 64, seed: 2", {"in step 1: the model's input"}},
  };
  for (const Difference& row : rows) {
    SCOPED_TRACE(row.to);
    std::vector<std::string> says = row.says;
    if (says.back() == "64 x 16") says.back() = "elements differ (float32 [64, 16])";
    expect_says(diff(a, run("b", {{row.from, row.to}})), false, says);
    fs::remove_all(dir_ / "b");
  }
}

TEST_F(Gate, DiffOfEqualRunsAndOfRunsFromElsewhere) {
  const fs::path a = run("a"), b = run("b");
  expect_says(diff(a, b), true, {"byte for byte"});
  // The recorded numbers differ, but those of the repeated runs do not.
  const std::string metrics = read(b / "metrics.jsonl");
  const size_t line3 = metrics.find('\n', metrics.find('\n') + 1) + 1;
  const size_t loss = metrics.find("\"loss\":", line3) + 7;
  write(b / "metrics.jsonl", metrics.substr(0, loss) + "9" + metrics.substr(loss + 1));
  write(b / "env.json", replaced(read(b / "env.json"), "\"cpu\": \"", "\"cpu\": \"Old "));
  fs::remove(b / "CRC32");  // as in a run of an older version
  expect_says(diff(a, b), false,
              {"environment (A | B):\n  cpu: ", "metrics.jsonl, line 3:",
               "repeated here, both runs have the same", "up to step 3: the machine"});
  expect_says(reproduce(b), false,
              {"environment (then | now):\n  cpu: Old ", "differs first in line 3:\n  then {"});
  write(b / "metrics.jsonl", metrics.substr(0, line3));
  expect_says(diff(a, b), false, {"one run is longer"});
  expect_says(reproduce(b), true, {"byte for byte; the run ended early"});
  write(b / "metrics.jsonl", metrics + "{}\n");
  expect_says(reproduce(b), false, {"but it ends early now"});
  write(b / "metrics.jsonl", "rubbish\n");
  EXPECT_TRUE(test::refuses<InputError>([&] { diff(a, b); }, "metrics.jsonl has a damaged line"));
}

TEST_F(Gate, ARunIsReproducedByteForByte) {
  const fs::path a = run("a");
  expect_says(reproduce(a), true, {"the same metrics, byte for byte\n"});
  EXPECT_EQ(reproduce(a).text.find("environment"), std::string::npos);
  EXPECT_TRUE(test::refuses<InputError>([&] { reproduce(dir_ / "none"); }, "not a run: '"));
}

TEST_F(Gate, EnvSaysWhatTheRunStoodOn) {
  write(dir_ / "points.csv", "x,y\n1,2.5\n2,4\n3,6\n4,8\n5,10\n");
  const fs::path a =
      run("a", {{"{type: digits, train_size: 512, test_size: 64}",
                 concat_to_string("{type: csv, path: ", (dir_ / "points.csv").string(),
                                  ", label: y, task: regression}")}});
  const auto env = nlohmann::json::parse(read(a / "env.json"));
  for (const char* key : {"taper", "commit", "compiler", "onednn", "cpu"}) {
    EXPECT_TRUE(env.at(key).is_string()) << key;
  }
  EXPECT_EQ(env.at("device"), "cpu");
  EXPECT_EQ(env.at("seed"), 3);
  EXPECT_GE(env.at("threads").get<int>(), 1);
  EXPECT_NE(env.at("command").at(0).get<std::string>().find("test_runner"), std::string::npos);
  ASSERT_EQ(env.at("data").size(), 1u);
  EXPECT_EQ(env["data"][0].at("bytes"), 27);
  EXPECT_EQ(env["data"][0].at("crc32").get<std::string>().size(), 8u);
  write(dir_ / "sum", "123456789");
  EXPECT_EQ(hex_crc32(file_crc32(dir_ / "sum")), "cbf43926");
  // Changed data are reported before differing numbers.
  write(dir_ / "points.csv", "x,y\n1,2.5\n2,4\n3,7\n4,8\n5,10\n");
  expect_says(reproduce(a), false, {"data.0.crc32: ", "metrics.jsonl differs first in line 1"});
}

}  // namespace
}  // namespace taper::v0::runner
