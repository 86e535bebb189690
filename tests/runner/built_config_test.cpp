// Configs from a text, and configs that a program built or changed.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>

#include <gtest/gtest.h>
#include <unistd.h>

#include "apps/runner/base/errors.h"
#include "apps/runner/settings/run_config.h"
#include "apps/runner/train/train.h"
#include "framework/base/describe.h"
#include "tests/data_files.h"

namespace taper::v0::runner {
namespace {

namespace fs = std::filesystem;

std::string text_with(const std::string& train, const std::string& more = "") {
  return concat_to_string(
      "data: {type: digits}\nmodel: {type: mlp}\noptimizer: {type: sgd}\ntrain: ", train, "\n",
      more);
}

TEST(ConfigText, IsReadLikeAFile) {
  const std::string text = text_with("{epochs: 2, batch_size: 7}");
  const RunConfig config = load_config_text(text, {"seed=5"});
  EXPECT_EQ(config.train.batch_size, 7);
  EXPECT_EQ(config.seed, 5u);
  EXPECT_EQ(config.name, "run");
  EXPECT_EQ(load_config_text(text + "name: other\n").name, "other");
  EXPECT_EQ(to_yaml(load_config_text(to_yaml(config))), to_yaml(config));
  const fs::path file =
      fs::temp_directory_path() / concat_to_string("taper_text_", getpid()) / "run";
  fs::create_directories(file.parent_path());
  std::ofstream(file) << text;
  EXPECT_EQ(to_yaml(config), to_yaml(load_config(file, {"seed=5"})));
  const fs::path including = file.parent_path() / "base.yaml";
  std::ofstream(including) << text;
  EXPECT_EQ(load_config_text(concat_to_string("include: ", including.string(), "\n")).train.epochs,
            2);
  fs::remove_all(file.parent_path());
}

TEST(ConfigText, IsRefusedWithItsPlace) {
  const auto refused = [](const std::string& text, const std::string& part,
                          const std::vector<std::string>& overrides = {}) {
    const std::string message =
        refusal_of<ConfigError>([&] { (void)load_config_text(text, overrides); });
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  refused(text_with("{epochs: 1, batch_size: 0}"),
          "config text:4:32: train.batch_size: expected an integer, at least 1");
  refused(text_with("{epochs: 1, batchsize: 4}"), "did you mean 'batch_size'?");
  refused(text_with("{epochs: 1"), "config text:");
  refused("", "missing key 'train'");
  refused(text_with("{epochs: 1}", "include: no_such_file.yaml\n"), "no_such_file.yaml");
  refused(text_with("{epochs: 1}"), "train.epochs", {"train.epochs=0"});
  refused(std::string((1 << 20) + 1, ' '), "config text: more than 1048576 bytes");
}

RunConfig built() {
  RunConfig config;
  config.data = {data_types().component("digits")};
  config.model = models().component("mlp");
  config.train.epochs = 1;
  return config;
}

struct WrongRow {
  std::function<void(RunConfig&)> change;
  std::string message;
};
const WrongRow kWrong[] = {
    {[](RunConfig& c) { c.train.batch_size = 0; },
     "train.batch_size: expected an integer, at least 1 and at most 10000000, or auto, got '0'"},
    {[](RunConfig& c) { c.train.clip_norm = std::nan(""); }, "train.clip_norm: expected a number"},
    {[](RunConfig& c) { c.train.clip_norm = -kInfinity; }, "train.clip_norm: expected a number"},
    {[](RunConfig& c) { c.train.steps = 5; }, "train.steps: give either epochs or steps"},
    {[](RunConfig& c) { c.train.epochs.reset(); }, "train.epochs: give the run's length"},
    {[](RunConfig& c) { c.train.ema = EmaConfig{.decay = 1}; }, "train.ema.decay: expected"},
    {[](RunConfig& c) { c.train.time_limit = "soon"; }, "train.time_limit: expected a time"},
    {[](RunConfig& c) { c.device = "gpu"; }, "device: expected auto, cpu, cuda"},
    {[](RunConfig& c) { c.name = "a/b"; }, "name: expected a name fit for a directory"},
    {[](RunConfig& c) { c.name = "a\nb: 1"; }, "name: expected a name fit for a directory"},
    {[](RunConfig& c) { c.metrics = {"acuracy"}; }, "did you mean 'accuracy'?"},
    {[](RunConfig& c) { c.metrics = {"mae"}; }, "metrics: not all fit the data"},
    {[](RunConfig& c) { c.loss = losses().component("mse"); }, "loss.type: does not fit the data"},
    {[](RunConfig& c) { c.include = {"base.yaml"}; }, "include: can only be used in a file"},
    {[](RunConfig& c) { c.model.type = "resnt"; }, "model.type: expected one of "},
    {[](RunConfig& c) { c.optimizer.type = "adam"; },
     "optimizer: the options do not belong to the type 'adam'"},
    {[](RunConfig& c) { c.schedule.options.reset(); },
     "schedule: the options do not belong to the type"},
    {[](RunConfig& c) { c.data.transforms = {{.type = "flip"}}; },
     "data.transforms.0.type: expected one of "},
};

TEST(BuiltConfig, IsCheckedLikeYaml) {
  EXPECT_NO_THROW(check_config(built()));
  for (const WrongRow& row : kWrong) {
    RunConfig config = built();
    row.change(config);
    const std::string message = refusal_of<ConfigError>([&] { check_config(config); });
    EXPECT_NE(message.find(row.message), std::string::npos)
        << "expected " << row.message << "\ngot " << message;
  }
}

TEST(BuiltConfig, IsCheckedBeforeTraining) {
  RunConfig config = built();
  config.train.batch_size = 0;
  config.threads = -1;
  const fs::path dir = fs::temp_directory_path() / concat_to_string("taper_built_", getpid());
  const std::string message = refusal_of<ConfigError>([&] { (void)train(config, dir); });
  EXPECT_NE(message.find("train.batch_size: "), std::string::npos) << message;
  EXPECT_NE(message.find("threads: "), std::string::npos) << message;
  EXPECT_FALSE(fs::exists(dir));
}

TEST(BuiltConfig, ThatAFileOfTheRepositoryGaveIsAccepted) {
  int count = 0;
  for (const auto& entry : fs::directory_iterator(fs::path(TAPER_SOURCE_DIR) / "configs")) {
    if (entry.path().extension() != ".yaml") continue;
    EXPECT_NO_THROW(check_config(load_config(entry.path()))) << entry.path();
    ++count;
  }
  EXPECT_GT(count, 3);
}

}  // namespace
}  // namespace taper::v0::runner
