// `taper diff CONFIG --program OLD --program NEW`. Instead of programs with other code there are
// scripts that change the config before they start the program.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/runner/run_process.h"

namespace taper::v0::runner {
namespace {

constexpr const char* kConfig =
    "device: cpu\nseed: 3\n"
    "data: {type: digits, train_size: 256, test_size: 64}\n"
    "model: {type: mlp, hidden: [16], dropout: 0.1}\n"
    "optimizer: {type: sgd, lr: 0.1}\n"
    "schedule: {type: step, step_size: 2, gamma: 0.5}\n"
    "train: {epochs: 1, batch_size: 64}\n";

class DiffPrograms : public ::testing::Test {
 protected:
  DiffPrograms() { write_bytes(at_ / "c.yaml", kConfig); }

  // Writes a program that differs from taper as a config differs from kConfig.
  std::string changed(const std::string& name, const std::string& from,
                      const std::string& to) const {
    const std::string file = (at_ / (name + ".yaml")).string();
    return at_.write_program(
        name, "sed 's/" + from + "/" + to + "/' $config > " + file + "; config=" + file);
  }
  RunDirectory::Outcome diff(const std::string& a, const std::string& b) const {
    return at_.taper({"diff", "c.yaml", "--program", a, "--program", b});
  }

  RunDirectory at_;
};

struct ProgramRow {
  const char *from, *to;
  std::vector<std::string> says;
};

TEST_F(DiffPrograms, TheFirstModuleAndTensorAreNamed) {
  const std::string old = at_.write_program("old", "");
  const ProgramRow rows[] = {
      {"dropout: 0.1",
       "dropout: 0.3",
       {"first difference, in step 1: output of module 3 (Dropout)"}},
      {"step_size: 2", "step_size: 1", {"first difference, in step 2: ", "after the step"}},
      {"lr: 0.1", "lr: 0.2", {"first difference, in step 1: 1.weight after the step"}},
  };
  for (const ProgramRow& row : rows) {
    SCOPED_TRACE(row.to);
    const RunDirectory::Outcome end = diff(old, changed("new", row.from, row.to));
    EXPECT_EQ(end.code, 1) << end.out << end.err;
    for (const std::string& part : row.says) {
      EXPECT_NE(end.out.find(part), std::string::npos) << part << " in\n" << end.out << end.err;
    }
  }
  const RunDirectory::Outcome same = diff(old, TAPER_PROGRAM);
  EXPECT_EQ(same.code, 0) << same.out << same.err;
  EXPECT_NE(same.out.find("both programs give the same numbers and weights"), std::string::npos);
}

TEST_F(DiffPrograms, OldProgramsAndMistakesAreNamed) {
  const std::string old =
      at_.write_program("old",
                        "[ $verb = trace ] && { echo \"unknown command 'trace'\"; "
                        "exit 2; }");
  const RunDirectory::Outcome end = diff(old, changed("new", "lr: 0.1", "lr: 0.2"));
  EXPECT_EQ(end.code, 1) << end.err;
  EXPECT_NE(end.out.find("in step 1: " + old + " is too old to name the tensor"), std::string::npos)
      << end.out;
  const RunDirectory::Outcome missing = diff(old, "./no-such-program");
  EXPECT_EQ(missing.code, 66) << missing.err;
  EXPECT_NE(missing.err.find("cannot run the program './no-such-program'"), std::string::npos);
  const RunDirectory::Outcome failing = diff(old, at_.write_program("bad", "echo broken; exit 70"));
  EXPECT_EQ(failing.code, 70) << failing.err;
  EXPECT_NE(failing.err.find("failed with exit code 70:\nbroken"), std::string::npos)
      << failing.err;
  EXPECT_EQ(at_.taper({"diff", "c.yaml", "--program", old}).code, 2);
  EXPECT_EQ(at_.taper({"diff", "c.yaml"}).code, 2);
  EXPECT_EQ(at_.taper({"diff", "none.yaml", "--program", old, "--program", old}).code, 66);
}

}  // namespace
}  // namespace taper::v0::runner
