// Bugs that are planted in parts of a program, and changes that are harmless: the gate must catch
// the first ones, with cause and step, and pass the others.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "apps/runner/gate/gate.h"
#include "apps/runner/runner.h"
#include "data/images/digits.h"
#include "framework/base/log.h"
#include "modules/layers/stateless.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "tests/runner/run_process.h"

namespace taper::v0::runner {
namespace {

namespace fs = std::filesystem;

// The bug that the program has at the moment.
enum class Plant {
  kNothing,
  kScheduleOffByOne,
  kDropoutInactive,
  kWrongDecayGroup,
  kWrongSplit,
  kNondeterministicKernel,
  kLogLine,
};
Plant planted = Plant::kNothing;

// Divides the learning rate by ten after four steps.
struct PlantedSchedule {
  template <class V> void describe(V&) {}
};
optim::Schedule planted_schedule(const PlantedSchedule&, const ScheduleSite&) {
  return {[](int64_t t, double base) {
    const int64_t step = planted == Plant::kScheduleOffByOne ? t + 1 : t;
    return step < 4 ? base : base / 10;
  }};
}

// Dropout, and a kernel whose result differs in each call if it is planted.
struct PlantedLayerOptions {
  template <class V> void describe(V&) {}
};
struct PlantedLayer : Module {
  Tensor forward(const Tensor& x) override {
    if (planted == Plant::kLogLine) log_info("a new line of the log");
    if (planted == Plant::kNondeterministicKernel && is_training()) {
      static int64_t calls = 0;  // as a kernel whose result depends on the time
      return dropout(x * (1 + 1e-4 * double(++calls)));
    }
    return planted == Plant::kDropoutInactive ? x : dropout(x);
  }
  Child<Dropout> dropout{*this, "dropout", 0.2};
};

// SGD that decays matrices only.
struct PlantedSgdOptions {
  double lr = 0.1;
  template <class V> void describe(V& v) { v("lr", lr, kPositive, "learning rate"); }
  optim::OptimizerTraits traits() const { return {"PlantedSGD", {}}; }
  void update(const optim::ParamStep& s) const {
    const bool is_matrix = s.param.dim() >= 2;
    const bool decays = is_matrix != (planted == Plant::kWrongDecayGroup);
    s.param.sub_((decays ? s.grad + s.param * 0.01 : s.grad) * s.lr);
  }
};

struct PlantedDigits : data::Digits {
  data::Splits load(uint64_t run_seed) const {
    data::Splits out = Digits::load(run_seed);
    if (planted == Plant::kWrongSplit) out.test = out.train;
    return out;
  }
};

constexpr const char* kPlanted =
    "name: planted\ndevice: cpu\nseed: 3\n"
    "data: {type: planted_digits, train_size: 512, test_size: 64}\n"
    "model: {type: sequential, layers: [flatten, linear: 16, relu, planted, linear: 10]}\n"
    "optimizer: {type: planted_sgd, lr: 0.1}\n"
    "schedule: planted\n"
    "train: {epochs: 1, batch_size: 64}\n";

// Records kPlanted once with the correct program.
class GateBugs : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    schedules().add<PlantedSchedule>("planted", planted_schedule);
    register_layer<PlantedLayerOptions>("planted",
                                        [](const PlantedLayerOptions&, const LayerSite&) {
                                          return std::make_unique<PlantedLayer>();
                                        });
    register_optimizer<PlantedSgdOptions>("planted_sgd");
    register_data<PlantedDigits>("planted_digits");
  }
  GateBugs() {
    planted = Plant::kNothing;
    write_bytes(at_ / "config.yaml", kPlanted);
    record(at_ / "config.yaml", at_ / "golden.json", {.seeds = 8});
  }
  ~GateBugs() override { planted = Plant::kNothing; }

  Verdict check_config(const std::string& yaml, const CheckOptions& options = {}) const {
    write_bytes(at_ / "now.yaml", yaml);
    return check(at_ / "now.yaml", at_ / "golden.json", {}, options);
  }

  RunDirectory at_;
};

struct BugRow {
  const char* name;
  Plant plant;
  std::vector<std::string> says;
};

TEST_F(GateBugs, EachIsCaughtWithItsCauseAndItsFirstStep) {
  const std::string code =
      "cause: config, data files, versions and machine are as recorded: the "
      "program's code has changed: ";
  const BugRow rows[] = {
      {"schedule off by one",
       Plant::kScheduleOffByOne,
       {"step 4:\n  weights after the step: ", code + "loss moved by up to ", "from step 4\n"}},
      {"dropout inactive",
       Plant::kDropoutInactive,
       {"step 1:\n  grad_norm is ", "  loss is ", code + "loss moved by up to ", "from step 1\n"}},
      {"wrong weight decay group",
       Plant::kWrongDecayGroup,
       {"step 1:\n  weights after the step: ", code + "loss moved by up to ", "from step 1\n"}},
      {"evaluation on the wrong split",
       Plant::kWrongSplit,
       {"step 8:\n  test.accuracy is ", code + "test.accuracy moved by up to ", "from step 8\n"}},
      {"nondeterministic kernel",
       Plant::kNondeterministicKernel,
       {"step 1:\n  ",
        "cause: the program is not deterministic: two runs of it differ first in "
        "step 1: loss moved by up to ",
        "from step 1\n"}},
  };
  for (const BugRow& row : rows) {
    SCOPED_TRACE(row.name);
    planted = row.plant;
    const Verdict verdict = check_config(kPlanted);
    EXPECT_FALSE(verdict.passed);
    EXPECT_FALSE(verdict.is_inconclusive);
    for (const std::string& part : row.says) {
      EXPECT_NE(verdict.text.find(part), std::string::npos) << part << " in\n" << verdict.text;
    }
  }
}

TEST_F(GateBugs, HarmlessChangesPass) {
  const auto passes = [&](const char* name, const std::string& yaml) {
    SCOPED_TRACE(name);
    const Verdict verdict = check_config(yaml);
    EXPECT_TRUE(verdict.passed) << verdict.text;
    EXPECT_NE(verdict.text.find("the same as recorded, up to step 8"), std::string::npos)
        << verdict.text;
  };
  const std::string config = kPlanted;
  passes("another number of threads", config + "threads: 2\n");
  passes("a renamed run", "name: other\n" + config.substr(config.find('\n') + 1));
  const size_t data = config.find("data:"), model = config.find("model:");
  passes("reordered keys",
         config.substr(data, model - data) + config.substr(0, data) + config.substr(model));
  planted = Plant::kLogLine;
  passes("an added log line", config);
}

TEST_F(GateBugs, TheSectionOfAnotherMachineIsNotCompared) {
  Golden golden = load_golden(at_ / "golden.json");
  GoldenSection other = golden.sections[0];
  other.metadata.program["isa"] = "abacus";
  other.rows[0]["loss"] = "0x1p+9";
  golden.sections.insert(golden.sections.begin(), other);
  save_golden(golden, at_ / "golden.json");
  const Verdict verdict = check_config(kPlanted);
  EXPECT_TRUE(verdict.passed) << verdict.text;
  EXPECT_NE(verdict.text.find("section 2 of 2: cpu, isa "), std::string::npos) << verdict.text;
}

// Makes the golden's only section one of another machine with slightly different numbers.
void move_elsewhere(const fs::path& file) {
  Golden golden = load_golden(file);
  golden.sections[0].metadata.program["isa"] = "abacus";
  golden.sections[0].rows[0]["loss"] = "0x1.26p+1";
  save_golden(golden, file);
}

TEST_F(GateBugs, OnANewMachineTheCurvesAreCompared) {
  move_elsewhere(at_ / "golden.json");
  const Verdict same = check_config(kPlanted);
  EXPECT_TRUE(same.passed) << same.text;
  for (const char* part :
       {"no section is for this machine; the nearest of 1 is section 1: cpu, isa abacus",
        "the numbers differ from it, so the curves of several seeds are compared instead",
        "pass: mean of each curve, worse at p < 0.01 (Welch, Holm over 3 metrics)",
        "  loss: ", "  test.accuracy: ", " over 8 seeds, recorded ", "detects 1.",
        "cause: same code, isa abacus -> "}) {
    EXPECT_NE(same.text.find(part), std::string::npos) << part << " in\n" << same.text;
  }
  // A bug that slows the convergence is found on any machine.
  planted = Plant::kScheduleOffByOne;
  std::string slow = kPlanted;
  slow.replace(slow.find("lr: 0.1"), 7, "lr: 0.02");
  const Verdict worse = check_config(slow);
  EXPECT_FALSE(worse.passed);
  EXPECT_FALSE(worse.is_inconclusive);
  EXPECT_NE(worse.text.find("fail: mean of each curve"), std::string::npos) << worse.text;
  EXPECT_NE(worse.text.find(" (fail)"), std::string::npos) << worse.text;
}

TEST_F(GateBugs, FewSeedsAreInconclusiveAndFewerAreRefused) {
  const Verdict few = check_config(kPlanted, {.seeds = 3});
  EXPECT_FALSE(few.passed);
  EXPECT_TRUE(few.is_inconclusive) << few.text;
  EXPECT_NE(few.text.find("exceeds --detect 2: record and check with 6 seeds each"),
            std::string::npos)
      << few.text;
  const Verdict wide = check_config(kPlanted, {.seeds = 3, .detect = 10});
  EXPECT_TRUE(wide.passed) << wide.text;
  for (const int64_t seeds : {1, 2}) {
    EXPECT_THROW(check_config(kPlanted, {.seeds = seeds}), ConfigError);
    EXPECT_THROW(record(at_ / "config.yaml", at_ / "new.json", {.seeds = seeds}), ConfigError);
  }
  EXPECT_FALSE(fs::exists(at_ / "new.json"));
}

}  // namespace
}  // namespace taper::v0::runner
