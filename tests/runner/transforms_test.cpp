// Random transforms of training images, selected in a config.
#include "data/transforms.h"

#include "apps/runner/base/errors.h"
#include "apps/runner/run/batches.h"
#include "apps/runner/train/train.h"
#include "autograd/ops/index/index_ops.h"
#include "framework/factory/factories.h"
#include "tests/data_files.h"

namespace taper::v0::runner {
namespace {

using Transforms = DataFiles;

RunConfig load(const std::string& file, const std::string& transforms, int64_t workers) {
  std::vector<std::string> words = {concat_to_string("data.workers=", workers)};
  if (!transforms.empty()) words.push_back(concat_to_string("data.transforms=", transforms));
  return load_config(file, words);
}

TEST_F(Transforms, ChangeTrainingImagesAloneWhateverTheWorkers) {
  const std::string file =
      write("run.yaml",
            "device: cpu\ndata: {type: digits, train_size: 60, test_size: 20}\nmodel: {type: mlp, "
            "hidden: [8]}\n"
            "optimizer: {type: sgd, lr: 0.1}\ntrain: {epochs: 2, batch_size: 16}\n");
  const auto trained = [&](const std::string& transforms, int64_t workers, const char* dir) {
    return train(load(file, transforms, workers), directory_ / dir).metrics["loss"];
  };
  const std::string all = "[random_crop: {padding: 3}, random_horizontal_flip, cutout: {size: 5}]";
  const double plain = trained("", 0, "plain"), changed = trained(all, 0, "changed");
  EXPECT_NE(plain, changed);
  EXPECT_EQ(trained(all, 3, "workers"), changed);
  EXPECT_EQ(trained("[random_horizontal_flip: {p: 0}]", 0, "none"), plain);

  const RunConfig config = load(file, "[random_horizontal_flip: {p: 1}]", 0);
  const data::Splits data = source_of(config.data)->load(0);
  Batches batches(config, data, distributed::Communicator::alone());
  batches.start(0, 0);
  const Batch b = batches.next();
  data::DataLoader as_they_are(data.train, {.batch_size = 16, .shuffle = true}, "cpu", config.seed);
  as_they_are.start(0);
  const Batch raw = *as_they_are.next();
  EXPECT_EQ(b.inputs.to_floats(), flip(raw.inputs, {3}).to_floats());
  EXPECT_EQ(b.targets.to_vector<int64_t>(), raw.targets.to_vector<int64_t>());
}

TEST_F(Transforms, AreForImages) {
  std::string rows = "a,y\n";
  for (int i = 0; i < 20; ++i) rows += concat_to_string(i, ",", i % 2, "\n");
  const std::string file = write(
      "run.yaml",
      concat_to_string("device: cpu\ndata: {type: csv, path: ", write("rows.csv", rows),
                       "}\nmodel: {type: mlp}\noptimizer: {type: sgd}\ntrain: {epochs: 1}\n"));
  EXPECT_EQ(refusal_of<ConfigError>([&] {
              train(load(file, "[cutout]", 0), directory_ / "run");
            }).find("data.transforms: expected images [C, H, W], got samples of shape [1]"),
            0u);
  EXPECT_NE(refusal_of<ConfigError>([&] {
              load(file, "[cutout: {size: 0}]", 0);
            }).find("data.transforms"),
            std::string::npos);
}

}  // namespace
}  // namespace taper::v0::runner
