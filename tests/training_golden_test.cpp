// Goldens of user-defined trainings and of tensors in JSON: sections, statistics, bless, and the
// messages of planted faults.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <unistd.h>

#include "autograd/ops/binary_ops.h"
#include "autograd/ops/nn/loss_ops.h"
#include "framework/factory/factories.h"
#include "framework/factory/generator.h"
#include "modules/layers/linear.h"
#include "optim/algorithms/sgd.h"
#include "tests/testing.h"
#include "tests/text.h"

namespace taper::v0::test {
namespace {

namespace fs = std::filesystem;

// What a training does, so that a test can change one thing.
struct Plan {
  float rate = 0.1F;
  std::string loss = "loss";
  uint64_t nan_seed = UINT64_MAX;
  int64_t steps = 12;
  bool forgets_the_seed = false;
};

// Fits a line to points with noise.
Metrics train_line(const Plan& plan, uint64_t seed) {
  if (!plan.forgets_the_seed) manual_seed(seed);
  Linear line(3, 1);
  const Tensor x = randn({32, 3}), y = x.sum(1, true) + randn({32, 1}) * 0.1;
  optim::SGD sgd(line.parameters(), {.lr = plan.rate});
  Metrics out;
  for (int64_t step = 1; step <= plan.steps; ++step) {
    sgd.zero_grad();
    const Tensor loss = mse_loss(line(x), y);
    loss.backward();
    sgd.step();
    const bool is_bad = seed == plan.nan_seed && step == 7;
    const double value = is_bad ? std::numeric_limits<double>::quiet_NaN() : loss.item<double>();
    out.add(step, {{plan.loss, value}});
  }
  out.add(plan.steps, {{"test.r2", 1 - mse_loss(line(x), y).item<double>()}});
  return out;
}

TrainingFunction training(const Plan& plan = {}) {
  return [plan](uint64_t seed) { return train_line(plan, seed); };
}

class VariableGuard {
 public:
  VariableGuard(const char* name, const std::string& value) : name_(name) {
    setenv(name, value.c_str(), 1);
  }
  ~VariableGuard() { unsetenv(name_); }
  VariableGuard& operator=(VariableGuard&&) = delete;

 private:
  const char* name_;
};

class TrainingGolden : public ::testing::Test {
 protected:
  TrainingGolden()
      : dir_(fs::temp_directory_path() / concat_to_string("taper_training_", getpid())),
        file_(dir_ / "net.json") {
    fs::create_directories(dir_);
  }
  ~TrainingGolden() override { fs::remove_all(dir_); }

  golden::Verdict record(const TrainingFunction& train, const GoldenOptions& options = {}) {
    const VariableGuard update("TAPER_UPDATE_GOLDEN", "1");
    return check_bits(train, file_, options);
  }
  golden::Verdict bless(const std::string& reason, const TrainingFunction& train,
                        const GoldenOptions& options = {}) {
    const VariableGuard variable("TAPER_BLESS", reason), author("GIT_AUTHOR_NAME", "Ada");
    return check_bits(train, file_, options);
  }
  std::string text() const {
    std::ifstream in(file_);
    std::ostringstream out;
    out << in.rdbuf();
    return out.str();
  }
  void write(const std::string& text) const { std::ofstream(file_) << text; }
  // Makes the file's only section one of another machine whose numbers differ a little.
  void move_to_another_machine() const {
    golden::Golden golden = golden::load_golden(file_);
    golden.sections[0].metadata.program["isa"] = "abacus";
    golden::Row& row = golden.sections[0].rows[0];
    (row.begin()->first == "step" ? std::next(row.begin()) : row.begin())->second = "0x1.8p+0";
    golden::save_golden(golden, file_);
  }
  // Expects that the check fails with all of the texts, and that the file keeps its contents.
  void expect_fails(const golden::Verdict& verdict, const std::vector<std::string>& texts) const {
    EXPECT_FALSE(verdict.passed) << verdict.text;
    for (const std::string& part : texts)
      EXPECT_TRUE(contains(verdict.text, part)) << part << " in\n" << verdict.text;
  }

  const fs::path dir_, file_;
};

TEST_F(TrainingGolden, IsRecordedOnceAndThenCompared) {
  expect_fails(check_bits(training(), file_),
               {"there is no " + file_.string(), "TAPER_UPDATE_GOLDEN=1"});
  EXPECT_FALSE(fs::exists(file_));
  EXPECT_TRUE(record(training()).passed);
  const std::string before = text();
  EXPECT_TRUE(check_bits(training(), file_).passed);
  EXPECT_TRUE(check_statistics(training(), file_).passed);
  EXPECT_MATCHES_GOLDEN(training(), file_);
  EXPECT_TRAINS_AS_WELL(training(), file_, {.seeds = 5});
  EXPECT_TRUE(contains(record(training()).text, "nothing was written"));
  EXPECT_EQ(text(), before);
  const golden::Golden golden = golden::load_golden(file_);
  EXPECT_EQ(golden.sections[0].curves.seeds.size(), 8u);
  EXPECT_EQ(golden.sections[0].rows.size(), 12u);
  const golden::MetadataMap& program = golden.sections[0].metadata.program;
  for (const char* key : {"device", "isa", "compiler", "onednn", "taper", "test compiler"})
    EXPECT_FALSE(program.at(key).empty()) << key;
}

TEST_F(TrainingGolden, AWorseRateFailsInBitsAndInStatistics) {
  ASSERT_TRUE(record(training(), {.config = "rate: 0.1\n"}).passed);
  const GoldenOptions now = {.config = "rate: 0.02\n"};
  const golden::Verdict bits = check_bits(training({.rate = 0.02F}), file_, now);
  expect_fails(bits, {file_.string() + ", section 1 of 1: cpu", "step 2:\n  loss is ",
                      "cause: the config differs: loss moved by up to ", " from step 2\n",
                      "  rate: 0.02 | 0.1\n"});
  EXPECT_EQ(bits.step, "2");
  const golden::Verdict worse = check_statistics(training({.rate = 0.02F}), file_, now);
  expect_fails(
      worse, {"fail: mean of each curve, worse at p < 0.01 (Welch, Holm over 2 metrics)",
              "  loss: ", " over 8 seeds, recorded ", "worse by ", "(fail)", "the config differs"});
  EXPECT_FALSE(worse.is_inconclusive);
  // The better rate of two passes, whatever the bits.
  EXPECT_TRUE(check_statistics(training({.rate = 0.11F}), file_).passed);
}

TEST_F(TrainingGolden, ARenamedMetricIsNamed) {
  ASSERT_TRUE(record(training()).passed);
  const Plan renamed = {.loss = "train_loss"};
  expect_fails(check_bits(training(renamed), file_),
               {"step 1:\n  the run has no loss\n  the recording has no train_loss, which the run "
                "has\n"});
  expect_fails(check_statistics(training(renamed), file_),
               {"the run has no loss, which the recording has"});
  const auto reward = training({.loss = "score"});
  expect_fails(check_bits(reward, file_), {"the metric 'score' has no known direction: name it in "
                                           "GoldenOptions.larger_is_better"});
  EXPECT_TRUE(contains(check_bits(reward, file_, {.larger_is_better = {"score"}}).text,
                       "the run has no loss"));
}

TEST_F(TrainingGolden, SeedsWithNanAreNamedAndNothingIsWritten) {
  expect_fails(record(training({.nan_seed = 3})),
               {file_.string() + ": seed 3: loss is nan at step 7"});
  EXPECT_FALSE(fs::exists(file_));
  ASSERT_TRUE(record(training()).passed);
  expect_fails(check_statistics(training({.nan_seed = 3}), file_),
               {"seed 3: loss is nan at step 7; statistics need finite numbers"});
  expect_fails(check_bits(training({.nan_seed = 0}), file_), {"seed 0: loss is nan at step 7"});
}

TEST_F(TrainingGolden, TooFewSeedsAreRefusedOrInconclusive) {
  expect_fails(record(training(), {.seeds = 1}),
               {"GoldenOptions.seeds is 1; statistics need at least 3 seeds (0 records only the "
                "bits of the first one)"});
  EXPECT_FALSE(fs::exists(file_));
  ASSERT_TRUE(record(training(), {.seeds = 0}).passed);
  EXPECT_TRUE(check_bits(training(), file_, {.seeds = 0}).passed);
  expect_fails(check_statistics(training(), file_),
               {"the golden has curves of 0 seeds; statistics need at least 3"});
  ASSERT_TRUE(bless("curves", training()).passed) << "more seeds are a reason to record again";
  expect_fails(check_statistics(training(), file_, {.seeds = 2}), {"GoldenOptions.seeds is 2"});
  const golden::Verdict few = check_statistics(training(), file_, {.seeds = 3, .detect = 0.5});
  EXPECT_TRUE(few.is_inconclusive) << few.text;
  expect_fails(few, {"inconclusive: ", "exceeds GoldenOptions.detect 0.5: record and check with "});
  EXPECT_FALSE(trains_as_well(training(), file_, {.seeds = 3, .detect = 0.5}));
}

TEST_F(TrainingGolden, DamagedAndForeignFilesAreRefusedAndKept) {
  ASSERT_TRUE(record(training()).passed);
  const std::string whole = text(), name = file_.string();
  const auto replaced = [&](const std::string& from, const std::string& to) {
    std::string out = whole;
    return out.replace(out.find(from), from.size(), to);
  };
  const std::pair<std::string, std::string> rows[] = {
      {whole.substr(0, whole.size() / 2), ": not valid JSON"},
      {replaced("\"recording\": 2", "\"recording\": 9"),
       "has format 9 of a newer version of Taper; this program reads formats up to 2"},
      {replaced("0x1.", "0x2."), "section 1 was edited or is damaged"},
      {replaced("golden: training", "model: {type: mlp}"),
       "is a recording of `taper record`; `taper check` compares a run with it"},
      {replaced("\"recording\"", "\"recordings\""), "is not a recording of `taper record` or of "},
      {"", ": not valid JSON"},
  };
  for (const auto& [damaged, says] : rows) {
    // An edit of the config also changes the checksum, which is written again.
    write(damaged);
    if (contains(damaged, "model: {type")) {
      golden::Golden golden;
      golden.config = "model: {type: mlp}\n";
      golden.sections.emplace_back();
      golden::save_golden(golden, file_);
    }
    const std::string before = text();
    expect_fails(check_bits(training(), file_), {name, says});
    expect_fails(bless("try", training()), {name, says});
    expect_fails(record(training()), {name, says});
    EXPECT_EQ(text(), before) << says;
  }
  expect_fails(check_bits(training(), dir_), {dir_.string()});
}

TEST_F(TrainingGolden, BlessNeedsAReasonAndKeepsTheHistory) {
  ASSERT_TRUE(record(training()).passed);
  const std::string before = text();
  const auto better = training({.rate = 0.12F});
  for (const char* reason : {"", "  ", "1", "true"}) {
    expect_fails(bless(reason, better), {"TAPER_BLESS is ", "is no reason"});
  }
  expect_fails(record(better), {"it has other numbers. TAPER_UPDATE_GOLDEN=1 replaces none; "
                                "TAPER_BLESS=\"reason\" does"});
  EXPECT_TRUE(contains(bless("same", training()).text, "nothing was written"));
  EXPECT_EQ(text(), before);
  ASSERT_TRUE(bless("a better rate", better).passed);
  const golden::Golden golden = golden::load_golden(file_);
  ASSERT_EQ(golden.history.size(), 1u);
  const golden::HistoryEntry& entry = golden.history[0];
  EXPECT_EQ(entry.at("author"), "Ada");
  EXPECT_EQ(entry.at("reason"), "a better rate");
  EXPECT_EQ(entry.at("first different step"), "2");
  EXPECT_NE(entry.at("loss before"), entry.at("loss after"));
  EXPECT_TRUE(check_bits(better, file_).passed);
  EXPECT_FALSE(check_bits(training(), file_).passed);
}

TEST_F(TrainingGolden, AFileThatChangesDuringTheTrainingIsKept) {
  ASSERT_TRUE(record(training()).passed);
  const std::string others = text() + "\n";
  const TrainingFunction meanwhile = [&](uint64_t seed) {
    write(others);
    return training({.rate = 0.12F})(seed);
  };
  expect_fails(bless("a better rate", meanwhile), {"was changed by another process meanwhile"});
  EXPECT_EQ(text(), others);
}

TEST_F(TrainingGolden, AnotherMachineIsComparedByStatisticsUntilItHasASection) {
  ASSERT_TRUE(record(training()).passed);
  move_to_another_machine();
  const golden::Verdict verdict = check_bits(training(), file_);
  EXPECT_TRUE(verdict.passed) << verdict.text;
  EXPECT_TRUE(contains(verdict.text, "no section is for this machine; the nearest of 1 is "));
  EXPECT_TRUE(contains(verdict.text, "the curves of several seeds are compared instead"));
  expect_fails(check_bits(training({.rate = 0.02F}), file_), {"(fail)"});
  expect_fails(bless("new machine", training()), {"TAPER_UPDATE_GOLDEN=1 adds a section"});
  expect_fails(record(training(), {.config = "rate: 1"}),
               {"records something else (now | recorded):", "  rate: 1 | (none)"});
  EXPECT_TRUE(record(training()).passed);
  EXPECT_EQ(golden::load_golden(file_).sections.size(), 2u);
  EXPECT_TRUE(contains(check_bits(training({.rate = 0.02F}), file_).text, "section 2 of 2"));
}

TEST_F(TrainingGolden, ATrainingThatIgnoresItsSeedIsNamed) {
  manual_seed(1);
  ASSERT_TRUE(record(training({.forgets_the_seed = true})).passed);
  expect_fails(check_bits(training({.forgets_the_seed = true}), file_),
               {"cause: the training is not deterministic: two runs with seed 0 differ first in "
                "step 1; call manual_seed(seed) first"});
}

TEST_F(TrainingGolden, AnErrorOfATrainingNamesTheSeed) {
  const TrainingFunction throws = [](uint64_t) -> Metrics { throw ValueError("no such file"); };
  expect_fails(record(throws), {"seed 0: no such file"});
  const TrainingFunction foreign = [](uint64_t) -> Metrics { throw std::out_of_range("mine"); };
  EXPECT_THROW(record(foreign), std::out_of_range);
  const TrainingFunction reports_nothing = [](uint64_t) { return Metrics(); };
  expect_fails(record(reports_nothing), {"seed 0: the training reports no metric"});
  EXPECT_FALSE(fs::exists(file_));
  // A file that cannot be used is found before anything is trained.
  write("{");
  const TrainingFunction must_not_run = [](uint64_t) -> Metrics {
    ADD_FAILURE() << "trained";
    return {};
  };
  expect_fails(check_bits(must_not_run, file_), {"not valid JSON"});
  const fs::path nowhere = dir_ / "no_folder" / "net.json";
  const VariableGuard update("TAPER_UPDATE_GOLDEN", "1");
  expect_fails(check_bits(training(), nowhere), {nowhere.string()});
}

TEST(TrainingMetrics, RefuseWhatHasNoPlaceInACurve) {
  Metrics m = {{"loss", 0.5}, {"accuracy", 0.9}};
  EXPECT_EQ(m.rows().size(), 1u);
  m.add(3, {{"loss", 0.25}});
  EXPECT_THROW(m.add(2, {{"loss", 0.1}}), ValueError);
  EXPECT_THROW(m.add(3, {{"loss", 0.1}}), ValueError);
  EXPECT_THROW(m.add(4, {{"step", 0.1}}), ValueError);
  EXPECT_THROW(m.add(4, {{"", 0.1}}), ValueError);
  EXPECT_THROW(Metrics().add(0, {{"loss", 0.1}}), ValueError);
  EXPECT_EQ(m.rows()[1].at("loss"), "0x1p-2");
}

// --- tensors ---

TEST_F(TrainingGolden, TensorsInJsonHaveSections) {
  const std::vector<NamedTensor> tensors = {{"weight", tensor({{1.0, 2.0}, {3.0, -0.5}})},
                                            {"count", tensor(std::vector<int64_t>{7})}};
  const auto check = [&](const Tensor& weight, double rtol = 0, double atol = 0) {
    return matches_golden({{"weight", weight}, tensors[1]}, file_, rtol, atol).failure;
  };
  const Tensor& weight = tensors[0].tensor;
  EXPECT_TRUE(contains(check(weight), "there is no "));
  const auto update = [&] {
    const VariableGuard variable("TAPER_UPDATE_GOLDEN", "1");
    return check(weight);
  };
  EXPECT_EQ(update(), "");
  EXPECT_EQ(check(weight), "");
  EXPECT_TRUE(contains(text(), "{\"step\":\"1\",\"weight[0, 0]\":\"0x1p+0\",\"weight[0, 1]\":"));
  EXPECT_EQ(check(weight + 1e-6, 1e-5), "");
  EXPECT_EQ(check(weight + 1e-6, 0, 1e-5), "");
  const std::string moved = check(weight + 1e-6);
  EXPECT_TRUE(contains(moved, "section 1 of 1: cpu")) << moved;
  EXPECT_TRUE(contains(moved, "weight[0, 0] is 1.00000")) << moved;
  EXPECT_FALSE(contains(moved, "step 1:")) << moved;
  EXPECT_TRUE(contains(check(weight.to(kFloat64)), "  weight: float64 [2, 2] | float32 [2, 2]"));
  EXPECT_TRUE(contains(check(weight.view({4})), "  weight: float32 [4] | float32 [2, 2]"));
  expect_fails(check_bits(training(), file_), {"is a golden of tensors, and the test compares "
                                               "training"});
  {
    const VariableGuard variable("TAPER_BLESS", "shifted"), author("GIT_AUTHOR_NAME", "Ada");
    EXPECT_EQ(check(weight + 1), "");
  }
  EXPECT_EQ(check(weight + 1), "");
  EXPECT_EQ(golden::load_golden(file_).history.at(0).at("reason"), "shifted");
  move_to_another_machine();
  EXPECT_TRUE(contains(check(weight), "add a section for this one with TAPER_UPDATE_GOLDEN=1"));
  const Tensor large = zeros({100'001});
  EXPECT_TRUE(contains(matches_golden(large, file_).failure, "holds at most 100000 elements"));
}

TEST_F(TrainingGolden, ABlessedSafetensorsFileKeepsTheReason) {
  const fs::path file = dir_ / "x.safetensors";
  const Tensor x = tensor({1.0, 2.0});
  {
    const VariableGuard variable("TAPER_UPDATE_GOLDEN", "1");
    EXPECT_MATCHES_GOLDEN(x, file);
  }
  const VariableGuard variable("TAPER_BLESS", "shifted by one"), author("GIT_AUTHOR_NAME", "Ada");
  EXPECT_MATCHES_GOLDEN(x + 1, file);
  unsetenv("TAPER_BLESS");
  EXPECT_MATCHES_GOLDEN(x + 1, file);
  std::ifstream in(file, std::ios::binary);
  std::ostringstream bytes;
  bytes << in.rdbuf();
  EXPECT_TRUE(contains(bytes.str(), " Ada: shifted by one"));
}

}  // namespace
}  // namespace taper::v0::test
