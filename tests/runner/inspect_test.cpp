// `taper inspect`: the report, and a config that trains on the columns as they were found.
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "apps/runner/base/errors.h"
#include "apps/runner/commands/commands.h"
#include "apps/runner/settings/run_config.h"
#include "framework/base/log.h"
#include "tests/runner/run_process.h"
#include "tests/text.h"

namespace taper::v0::runner {
namespace {

namespace fs = std::filesystem;

class Inspect : public ::testing::Test {
 protected:
  // Returns the path of a table with a header, 40 rows, and the given first lines.
  std::string table(const std::string& first = "") const {
    std::string text = first + "row,age,\"city, state\",notes.en,sold on,survived\n";
    for (int i = 0; i < 40; ++i) {
      text += concat_to_string(i + 1, ",", i % 9 == 0 ? "" : concat_to_string(20 + i % 9), ",",
                               i % 3 ? "Rome" : "Paris", ",note ", i, ",2024-01-", 10 + i % 20, ",",
                               i % 2, "\n");
    }
    write_bytes(at_ / "t.csv", text);
    return (at_ / "t.csv").string();
  }
  // Returns the config that `taper inspect` prints, and sets what it logs.
  std::string inspect(const std::string& file, const std::vector<std::string>& overrides) {
    log_.clear();
    const LogGuard guard([&](LogLevel, const std::string& text) {
      log_ += text + "\n";
      return false;
    });
    return inspect_data(file, overrides);
  }

  RunDirectory at_;
  std::string log_;
};

TEST_F(Inspect, WritesAConfigWithAllColumns) {
  const std::string file = table();
  const std::string yaml = inspect(file, {"data.target=survived", "train.epochs=3"});
  EXPECT_EQ(yaml, concat_to_string("# Written by `taper inspect`. Values that are left out have "
                                   "their defaults.\n"
                                   "data:\n  type: table\n  path: [",
                                   file,
                                   "]\n  target: [survived]\n"
                                   "  columns:\n"
                                   "    age: number\n"
                                   "    \"city, state\": category\n"
                                   "    notes.en: ignore\n"
                                   "    row: ignore\n"
                                   "    \"sold on\": date\n"
                                   "train:\n  epochs: 3\n"));
  EXPECT_TRUE(contains(log_, "t.csv: 40 rows, 6 columns")) << log_;
  EXPECT_TRUE(contains(log_, "survived")) << log_;
}

// The config means the same as the command line that it was written from, and is found again.
TEST_F(Inspect, TheConfigGivesTheSameRun) {
  const std::vector<std::string> overrides = {"data.target=survived", "read.skip=1", "rare=2",
                                              "columns.row=keep", "optimizer.lr=0.5"};
  const std::string file = table("a comment about the table\n");
  const std::string yaml = inspect(file, overrides);
  EXPECT_TRUE(contains(yaml, "    row: keep\n")) << yaml;
  EXPECT_TRUE(contains(yaml, "  read:\n    skip: 1\n")) << yaml;
  EXPECT_TRUE(contains(yaml, "optimizer:\n  type: adamw\n  lr: 0.5\n")) << yaml;
  write_bytes(at_ / "t.yaml", yaml);
  EXPECT_EQ(inspect((at_ / "t.yaml").string(), {}), yaml);
  const RunConfig config = load_config(at_ / "t.yaml", {});
  EXPECT_EQ(to_yaml(config), to_yaml(load_config(file, [&] {
              auto all = overrides;
              all.push_back(
                  "data.columns={age: number, \"city, state\": category, "
                  "notes.en: ignore, row: keep, sold on: date}");
              return all;
            }())));
}

TEST_F(Inspect, DescribesTextsAndTheirClasses) {
  std::string rows = "id,review,kind\n";
  for (int i = 0; i < 40; ++i) {
    rows += concat_to_string(i, ",", i % 4 ? "good film" : "bad",
                             i == 7 ? " a b c d e f g h i j" : "", ",", i % 4 ? "yes" : "no", "\n");
  }
  write_bytes(at_ / "r.csv", rows);
  const std::string file = (at_ / "r.csv").string();
  const std::string yaml = inspect(file, {"data.text=review", "data.target=kind", "data.length=3"});
  EXPECT_TRUE(contains(log_, "r.csv: 40 rows, 3 columns")) << log_;
  EXPECT_TRUE(contains(log_, "median 2 tokens, longest ")) << log_;
  EXPECT_TRUE(contains(log_, "classes: no 10 (25.0 %), yes 30 (75.0 %)")) << log_;
  EXPECT_TRUE(contains(yaml, "  type: labeled_text\n")) << yaml;
  EXPECT_TRUE(contains(yaml, "  text: review\n") && contains(yaml, "  length: 3\n")) << yaml;
  write_bytes(at_ / "r.yaml", yaml);
  EXPECT_EQ(inspect((at_ / "r.yaml").string(), {}), yaml);
  const RunDirectory::Outcome done =
      at_.taper({"inspect", file, "--text", "review", "--target", "kind"});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_TRUE(contains(done.err, "classes: no 10 (25.0 %)")) << done.err;
}

TEST_F(Inspect, OtherDataAreRefused) {
  write_bytes(at_ / "c.yaml", "data: digits\ntrain: {epochs: 1}\n");
  try {
    inspect((at_ / "c.yaml").string(), {});
    FAIL() << "nothing was thrown";
  } catch (const ConfigError& error) {
    EXPECT_TRUE(contains(error.what(), "c.yaml: only tables can be inspected")) << error.what();
  }
}

TEST_F(Inspect, TheCommandPrintsTheConfigOnly) {
  const std::string file = table();
  const RunDirectory::Outcome done = at_.taper({"inspect", file, "--target", "-1"});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_TRUE(done.out.starts_with("# Written by `taper inspect`.")) << done.out;
  EXPECT_TRUE(contains(done.out, "  target: [\"-1\"]\n")) << done.out;
  EXPECT_TRUE(contains(done.err, "t.csv: 40 rows, 6 columns")) << done.err;
  const RunDirectory::Outcome none = at_.taper({"inspect", file});
  EXPECT_EQ(none.code, 2);
  EXPECT_TRUE(contains(none.err, "target")) << none.err;
}

}  // namespace
}  // namespace taper::v0::runner
