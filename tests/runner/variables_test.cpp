// Variables in configs: the values that they get, what is refused, and that a run's config has the
// values themselves.
#include <cstdlib>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "apps/runner/base/errors.h"
#include "apps/runner/settings/run_config.h"
#include "tests/runner/run_process.h"
#include "tests/text.h"

namespace taper::v0::runner {
namespace {

constexpr const char* kHead = "data: {type: digits}\ntrain: {epochs: 2}\n";

TEST(Variables, TakeValuesOfTheConfigAndOfTheEnvironment) {
  ::setenv("TAPER_TEST_RATE", "0.25", 1);
  ::setenv("TAPER_TEST_NAME", "from: here # not a comment", 1);
  struct Row {
    std::string yaml;
    std::vector<std::string> overrides;
    std::string written;  // a part of the loaded config as YAML
  };
  const Row rows[] = {
      {"model: {type: mlp, hidden: [\"${train.batch_size}\", 3]}\ntrain: {epochs: 2, batch_size: "
       "7}",
       {},
       "hidden: [7, 3]"},
      // An override is seen by the variables of the file, and may have variables itself.
      {"train: {epochs: 2, batch_size: 7, log_every: \"${train.batch_size}\"}",
       {"train.batch_size=9"},
       "log_every: 9"},
      {kHead, {"train.log_every=${train.epochs}"}, "log_every: 2"},
      {"train: {epochs: 2}\noptimizer: {type: sgd, lr: \"${env:TAPER_TEST_RATE}\"}",
       {},
       "lr: 0.25"},
      {"train: {epochs: 2}\nname: ${env:TAPER_TEST_NAME}", {}, "\"from: here # not a comment\""},
      {"train: {epochs: 2}\nname: lr${optimizer.lr}-${train.epochs}\noptimizer: {type: sgd, lr: "
       "0.5}",
       {},
       "name: lr0.5-2"},
      // A chain, an entry of a list, and a value that is quoted where it is written.
      {"train: {epochs: \"${seed}\"}\nseed: ${model.hidden.1}\n"
       "model: {type: mlp, hidden: [4, 5]}",
       {},
       "epochs: 5"},
      {"train: {epochs: 2}\nname: \"$${seed}\"", {}, "name: \"$${seed}\""},
      {"train: {epochs: 2}\nname: a$${b$c}", {}, "name: \"a$${b$c}\""},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.yaml);
    const std::string data = row.yaml.starts_with("data") ? "" : "data: {type: digits}\n";
    const RunConfig config = load_config_text(data + row.yaml, row.overrides);
    const std::string yaml = to_yaml(config);
    EXPECT_TRUE(contains(yaml, row.written)) << yaml;
    EXPECT_EQ(to_yaml(load_config_text(yaml)), yaml) << "a written config must load as it is";
  }
}

TEST(Variables, RefuseWhatHasNoValue) {
  ::unsetenv("TAPER_TEST_NONE");
  std::string doubling = "data: {type: digits}\ntrain: {epochs: 1}\nname: ${x.39}\nx:\n  - aa\n";
  for (int i = 0; i < 40; ++i) doubling += concat_to_string("  - \"${x.", i, "}${x.", i, "}\"\n");
  const std::pair<std::string, std::string> rows[] = {
      {"name: ${data.path}", "name: ${data.path}: the config does not set 'data.path'"},
      {"name: ${nothing}", "the config does not set 'nothing'"},
      {"name: ${}", "${}: expected a path"},
      {"name: ${train}", "${train}: expected one value, got a map"},
      {"name: ${env:TAPER_TEST_NONE}", "the environment has no variable 'TAPER_TEST_NONE'"},
      {"name: a${seed", "'${' has no closing '}'; write $${ for the text itself"},
      {"name: ${name}", "the values refer to each other: name -> name"},
      {"name: ${seed}\nseed: ${device}\ndevice: ${name}",
       "the values refer to each other: name -> seed -> device -> name"},
      {"seed: ${env:HOME}", "seed: expected an integer"},
  };
  for (const auto& [yaml, message] : rows) {
    try {
      load_config_text(kHead + yaml);
      ADD_FAILURE() << yaml << " was accepted";
    } catch (const ConfigError& error) {
      EXPECT_TRUE(contains(error.what(), message)) << error.what();
      EXPECT_TRUE(contains(error.what(), "config text:3:")) << error.what();
    }
  }
  try {
    load_config_text(doubling);
    ADD_FAILURE() << "a value of 2^40 bytes was accepted";
  } catch (const ConfigError& error) {
    EXPECT_TRUE(contains(error.what(), "more than 65536 bytes")) << error.what();
  }
}

TEST(Variables, ARunsConfigHasTheValues) {
  const RunDirectory at;
  write_bytes(at / "c.yaml",
              "data: {type: digits, train_size: 64, test_size: 32}\n"
              "seed: ${env:TAPER_TEST_SEED}\n"
              "train: {epochs: 1, batch_size: 16, log_every: \"${train.epochs}\"}\n");
  ASSERT_EQ(at.taper({"train", "c.yaml", "--out", "r"}, "TAPER_TEST_SEED=41").code, 0);
  EXPECT_TRUE(contains(read_bytes(at / "r/config.yaml"), "seed: 41\n"));
  EXPECT_EQ(at.taper({"eval", "r"}).code, 0) << "the variable is not needed any more";
  EXPECT_EQ(at.taper({"train", "c.yaml", "--out", "s"}).code, kExitConfig);
}

}  // namespace
}  // namespace taper::v0::runner
