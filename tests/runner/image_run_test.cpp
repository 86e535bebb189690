// Runs on folders of images: from a folder alone to predictions.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "apps/runner/base/errors.h"
#include "apps/runner/commands/commands.h"
#include "apps/runner/run/batches.h"
#include "apps/runner/run/data_info.h"
#include "apps/runner/settings/run_config.h"
#include "autograd/ops/index/index_ops.h"
#include "data/images/image_files.h"
#include "data/images/image_source.h"
#include "framework/base/log.h"
#include "framework/factory/factories.h"
#include "framework/io/text_utils.h"
#include "tests/data_files.h"
#include "tests/runner/careless_inputs.h"
#include "tests/runner/run_process.h"
#include "tests/text.h"

#ifdef TAPER_WITH_IMAGES

namespace taper::v0::runner {
namespace {

namespace fs = std::filesystem;

class ImageRun : public ::testing::Test {
 protected:
  // Draws bright and dark images of 12 x 16 pixels with noise.
  ImageRun() {
    Generator draws(1);
    for (int i = 0; i < 240; ++i) {
      const std::string folder = i % 2 == 0 ? "bright" : "dark";
      fs::create_directories(at_ / ("photos/" + folder));
      const int64_t base = i % 2 == 0 ? 120 : 40;
      const Tensor image = randint(base, base + 80, {3, 12, 16}, {}, &draws).to(kUInt8);
      data::write_png(image, at_ / concat_to_string("photos/", folder, "/", i, ".png"));
    }
  }
  RunDirectory::Outcome taper(const std::vector<std::string>& words) const {
    return at_.taper(words);
  }
  RunConfig config(const std::string& data, const std::string& rest = "") const {
    write_bytes(at_ / "c.yaml",
                concat_to_string("device: cpu\ndata: {path: \"", (at_ / "photos").string(), "\"",
                                 data, "}\n", rest));
    return load_config(at_ / "c.yaml", {});
  }

  RunDirectory at_;
};

TEST_F(ImageRun, OneLineTrainsEvaluatesAndPredicts) {
  const auto trained =
      taper({"train", "photos", "train.epochs=3", "model.width=4", "device=cpu", "--out", "r"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  for (const char* part :
       {"photos: 240 images, 2 classes, 16x12, read in ", "  bright        84          12    24\n",
        "samples: 16x12 RGB, cut to the middle, normalized by the training images\n",
        "split: 168 training, 24 validation, 48 test, stratified by class, seed 0\n"}) {
    EXPECT_TRUE(contains(trained.err, part)) << trained.err;
  }
  EXPECT_TRUE(contains(trained.out, "test accuracy:   100.00 %")) << trained.out;
  const auto evaluated = taper({"eval", "r"});
  EXPECT_EQ(evaluated.code, 0) << evaluated.err;
  EXPECT_TRUE(contains(evaluated.out, "samples:         48\n")) << evaluated.out;
  EXPECT_TRUE(contains(evaluated.out, "test accuracy:   100.00 %")) << evaluated.out;
  const auto more = taper({"eval", "r", "--data", "photos"});
  EXPECT_TRUE(contains(more.out, "samples:         240\n")) << more.out << more.err;
  const auto predicted = taper({"predict", "r", "photos"});
  EXPECT_EQ(predicted.code, 0) << predicted.err;
  EXPECT_TRUE(contains(predicted.out, "file,prediction,p_bright,p_dark\nbright/0.png,bright,"))
      << predicted.out.substr(0, 200);
  const auto one = taper({"predict", "r", "photos/dark/1.png"});
  EXPECT_TRUE(contains(one.out, "\nphotos/dark/1.png,dark,")) << one.out << one.err;
}

// The same limit as in training. Other images are predicted in any case, and a script sees from the
// exit code whether more are broken than it allows.
TEST_F(ImageRun, BrokenImagesArePredictedAsEmptyCells) {
  const auto trained =
      taper({"train", "photos", "train.epochs=1", "model.width=4", "device=cpu", "--out", "r"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  const auto whole = taper({"predict", "r", "photos"});
  write_bytes(at_ / "photos/bright/0.png", "no image");  // the first one
  write_bytes(at_ / "photos/dark/99.png", "");           // the last one
  const auto some = taper({"predict", "r", "photos"});
  EXPECT_EQ(some.code, 0) << some.err;
  EXPECT_TRUE(contains(some.err,
                       "photos: 2 of 240 images are broken or missing: photos/bright/0.png: "
                       "neither PNG nor JPEG"))
      << some.err;
  EXPECT_TRUE(contains(some.err, "; photos/dark/99.png: ")) << some.err;
  const std::vector<std::string> all = detail::lines_of(whole.out),
                                 rest = detail::lines_of(some.out);
  ASSERT_EQ(all.size(), 241u);
  ASSERT_EQ(rest.size(), all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    const bool is_broken = i == 1 || i == 240;
    const std::string file = all[i].substr(0, all[i].find(','));
    EXPECT_EQ(rest[i], is_broken ? file + ",,," : all[i]);
  }
  write_bytes(at_ / "photos/dark/1.png", "no image");
  const auto many = taper({"predict", "r", "photos"});
  EXPECT_EQ(many.code, kExitInput) << many.err;
  EXPECT_EQ(count(many.out, ",,,\n"), 3) << many.out;
  EXPECT_EQ(count(many.out, "\n"), 241);
  EXPECT_TRUE(contains(many.err,
                       "photos: 3 of 240 images are broken or missing, more than `broken: 1%` "
                       "allows: photos/bright/0.png: "))
      << many.err;
  const auto allowed = taper({"predict", "r", "photos", "data.broken=3"});
  EXPECT_EQ(allowed.code, 0) << allowed.err;
  EXPECT_TRUE(allowed.out == many.out);
  // Pixels that are not kept in memory are decoded twice, with the same result.
  const auto again = taper({"predict", "r", "photos", "data.broken=3", "data.in_memory=never"});
  EXPECT_TRUE(again.out == many.out) << again.err;
}

TEST_F(ImageRun, AnEvaluationLeavesOutBrokenImages) {
  const auto trained =
      taper({"train", "photos", "train.epochs=1", "model.width=4", "device=cpu", "--out", "r"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  write_bytes(at_ / "photos/dark/1.png", "no image");
  const auto one = taper({"eval", "r", "--data", "photos"});
  EXPECT_EQ(one.code, 0) << one.err;
  EXPECT_TRUE(contains(one.out, "samples:         239\n")) << one.out;
  EXPECT_TRUE(contains(one.err, "1 of 240 images is broken or missing: photos/dark/1.png: "));
  const auto none = taper({"eval", "r", "--data", "photos", "data.broken=0"});
  EXPECT_EQ(none.code, kExitInput) << none.out;
  EXPECT_TRUE(contains(none.err, "more than `broken: 0` allows")) << none.err;
}

TEST_F(ImageRun, PredictTakesWhatPeopleGive) {
  const auto trained =
      taper({"train", "photos", "train.epochs=1", "model.width=4", "device=cpu", "--out", "r"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  const std::string image = read_bytes(at_ / "photos/dark/1.png");
  for (const char* folder : {"empty", "texts", "parts/train/dark", "all_broken", "new/deep/er"}) {
    fs::create_directories(at_ / folder);
  }
  write_bytes(at_ / "texts/a.txt", "no image");
  write_bytes(at_ / "parts/train/dark/1.png", image);
  write_bytes(at_ / "new/deep/er/x.png", image);
  write_bytes(at_ / "new/y.PNG", image);
  write_bytes(at_ / "all_broken/1.png", "");
  write_bytes(at_ / "all_broken/2.png", "no image");
  write_bytes(at_ / "bad.png", "no image");
  write_bytes(at_ / "bad.webp", "RIFF____WEBP");
  write_bytes(at_ / "nothing.png", "");
  write_bytes(at_ / "list.csv", "file\nphotos/dark/1.png\n");
  expect_predictions(
      at_,
      {
          {"one image", "photos/dark/1.png", 0, "\nphotos/dark/1.png,", ""},
          {"a folder of a class", "photos/dark", 0, "\n1.png,", ""},
          {"a folder with train/", "parts", 0, "\ntrain/dark/1.png,", ""},
          {"folders within a folder", "new", 0, "\ndeep/er/x.png,", ""},
          {"an extension in upper case", "new", 0, "\ny.PNG,", ""},
          {"a missing file", "none.png", kExitInput, "", "none.png"},
          {"a missing folder", "none", kExitInput, "", "none"},
          {"an empty folder", "empty", kExitInput, "", "empty: no PNG and JPEG files"},
          {"a folder of texts", "texts", kExitInput, "", "no PNG and JPEG files; left out: 1 .txt"},
          {"only broken ones", "all_broken", kExitInput, "", "2 of 2 images are broken"},
          {"a broken image", "bad.png", kExitInput, "", "bad.png: neither PNG nor JPEG"},
          {"another format", "bad.webp", kExitInput, "", "bad.webp: "},
          {"no bytes", "nothing.png", kExitInput, "", "nothing.png: "},
          {"a table for a model of folders", "list.csv", kExitInput, "", "list.csv: "},
          {"a device", "/dev/null", kExitInput, "", "/dev/null"},
      });
}

TEST_F(ImageRun, ValidationReadsNoPixels) {
  write_bytes(at_ / "photos/dark/1.png", "no image");
  const auto outcome = taper({"train", "photos", "device=cpu", "--validate"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(contains(outcome.out + outcome.err, "not checked: the pixels of the images"))
      << outcome.out;
}

TEST_F(ImageRun, BrokenImagesEndTheRunBeforeItsFirstStep) {
  for (int i = 1; i < 9; i += 2) {
    write_bytes(at_ / concat_to_string("photos/dark/", i, ".png"), "no image");
  }
  const auto refused = taper({"train", "photos", "device=cpu", "--out", "r"});
  EXPECT_EQ(refused.code, kExitInput);
  EXPECT_TRUE(contains(refused.err,
                       "photos: 4 of 240 images are broken or missing, more than "
                       "`broken: 1%` allows; the first: photos/dark/"))
      << refused.err;
  EXPECT_FALSE(fs::exists(at_ / "r"));
  const auto allowed = taper({"train", "photos", "device=cpu", "broken=2%", "train.epochs=1",
                              "model.width=4", "--out", "r"});
  EXPECT_EQ(allowed.code, 0) << allowed.err;
  EXPECT_TRUE(contains(allowed.err, "broken: 4 left out: photos/dark/")) << allowed.err;
}

TEST_F(ImageRun, ATableOfLabelsTrainsOnValues) {
  std::string text = "file,light\n";
  for (int i = 0; i < 240; ++i) {
    text += concat_to_string(i % 2 == 0 ? "bright/" : "dark/", i, ",", (i % 2 == 0 ? 160 : 80), ".",
                             i, "\n");
  }
  write_bytes(at_ / "labels.csv", text);
  const auto trained = taper({"train", "photos", "labels={file: labels.csv, target: light}",
                              "device=cpu", "train.epochs=3", "model.width=4", "--out", "r"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_TRUE(contains(trained.err, "  light: values, 80.1 to 160.98\n")) << trained.err;
  EXPECT_TRUE(contains(trained.out, "test r2:")) << trained.out;
  const auto predicted = taper({"predict", "r", "labels.csv"});
  EXPECT_TRUE(contains(predicted.out, "file,prediction\nbright/0,")) << predicted.out;
}

// Predictions need no labels, so they ignore unknown ones. An evaluation refuses these, and leaves
// out images without a label.
TEST_F(ImageRun, PredictionsIgnoreLabels) {
  std::string text = "file,kind\n";
  for (int i = 0; i < 240; ++i) {
    text += concat_to_string(i % 2 == 0 ? "bright/" : "dark/", i, ".png,", i % 2, "\n");
  }
  write_bytes(at_ / "labels.csv", text);
  for (const std::vector<std::string>& data :
       {std::vector<std::string>{"folders"},
        {"table", "labels={file: labels.csv, target: kind, task: classification}"}}) {
    std::vector<std::string> words = {"train",          "photos",        "device=cpu",
                                      "train.epochs=1", "model.width=4", "--out"};
    words.insert(words.end(), data.begin(), data.end());
    const auto trained = taper(words);
    ASSERT_EQ(trained.code, 0) << trained.err;
  }
  fs::create_directories(at_ / "new/zebra");
  fs::copy(at_ / "photos/dark", at_ / "new/dark");
  fs::copy(at_ / "photos/dark/1.png", at_ / "new/zebra");
  fs::copy(at_ / "photos/dark/1.png", at_ / "new/alone.png");
  const auto folder = taper({"predict", "folders", "new"});
  EXPECT_EQ(count(folder.out, "\n"), 123) << folder.out << folder.err;
  EXPECT_TRUE(contains(folder.out, "\nzebra/1.png,")) << folder.out;
  EXPECT_TRUE(contains(folder.out, "\nalone.png,")) << folder.out;
  write_bytes(at_ / "known.csv", "file,kind\ndark/1.png,1\nbright/0.png,0\n");
  write_bytes(at_ / "some.csv", "file,kind\ndark/1.png,1\ndark/3.png,\nbright/0.png,0\n");
  write_bytes(at_ / "mixed.csv", "file,kind\ndark/1.png,zebra\nbright/0.png,0\n");
  EXPECT_EQ(count(taper({"predict", "table", "some.csv"}).out, "\n"), 4);
  const auto mixed = taper({"predict", "table", "mixed.csv"});
  EXPECT_EQ(mixed.out, taper({"predict", "table", "known.csv"}).out) << mixed.err;
  const auto some = taper({"eval", "table", "--data", "some.csv"});
  EXPECT_TRUE(contains(some.err, "some.csv: 1 row without a target left out")) << some.err;
  EXPECT_EQ(some.out, taper({"eval", "table", "--data", "known.csv"}).out);
  for (const auto& [run, file] : {std::pair("folders", "new"), {"table", "mixed.csv"}}) {
    const auto refused = taper({"eval", run, "--data", file});
    EXPECT_EQ(refused.code, kExitInput) << refused.out;
    EXPECT_TRUE(contains(refused.err, "class 'zebra' is not ")) << refused.err;
  }
}

// The description of the data is stored in data.json.
TEST_F(ImageRun, TheEncodingIsStored) {
  const RunConfig c = config("");
  const data::Splits data = source_of(c.data)->load(0);
  const DataInfo again = data_info_from_json(to_json(data), "data.json");
  ASSERT_TRUE(again.images);
  EXPECT_EQ(again.images->mean, data.images->mean);
  EXPECT_EQ(again.images->std, data.images->std);
  EXPECT_TRUE(are_same_data(data, again));
  std::string text = to_json(data);
  const size_t at = text.find("\"height\":12");
  text.replace(at, 11, "\"height\":13");
  EXPECT_THROW((void)data_info_from_json(text, "data.json"), InputError);
}

// --- short forms and old keys ---

TEST_F(ImageRun, TheDefaultsFitFolders) {
  const std::string yaml = to_yaml(config(""));
  for (const char* part :
       {"  type: images\n", "  size: auto\n", "  fit: crop\n", "  normalize: auto\n",
        "  broken: \"1%\"\n", "  - auto\n", "  type: convnet\n", "  epochs: 30\n",
        "  patience: 10\n", "  type: cosine\n"}) {
    EXPECT_TRUE(contains(yaml, part)) << part << yaml;
  }
  EXPECT_FALSE(contains(to_yaml(config(", transforms: none")), "  - auto\n"));
  EXPECT_EQ(to_yaml(config(", transforms: auto")), yaml);
  EXPECT_EQ(to_yaml(config(", transforms: [auto]")), yaml);
}

TEST_F(ImageRun, OldKeysMeanWhatTheyMeant) {
  std::vector<std::string> said;
  const LogGuard guard([&](LogLevel, const std::string& text) {
    said.push_back(text);
    return false;
  });
  const std::string root = (at_ / "photos").string();
  write_bytes(at_ / "old.yaml",
              concat_to_string("seed: 7\ndata: {type: images, root: \"", root,
                               "\", test_fraction: 0.25, size: 8}\ntrain: {epochs: 1}\n"));
  const RunConfig old = load_config(at_ / "old.yaml", {});
  EXPECT_TRUE(contains(said.at(0), "data.root is an old name of data.path"));
  write_bytes(at_ / "new.yaml",
              concat_to_string("seed: 7\ndata: {type: images, path: \"", root,
                               "\", size: 8, grey: false, fit: squash, normalize: none, broken: 0, "
                               "split: {validation: 0, test: 0.25, seed: 7}, transforms: none}\n"
                               "model: cnn\noptimizer: adamw\nschedule: constant\n"
                               "train: {epochs: 1, batch_size: 128, early_stopping: false}\n"));
  RunConfig now = load_config(at_ / "new.yaml", {});
  now.name = old.name;
  EXPECT_EQ(to_yaml(old), to_yaml(now));
  // The same config as an earlier version saved it in a run or a recording.
  const std::string saved = concat_to_string(
      "name: ", old.name, "\nseed: 7\ndata:\n  type: images\n  root: \"", root,
      "\"\n  test_fraction: 0.25\n  size: 8\n  grey: false\n  workers: 0\n  on_device: auto\n"
      "model:\n  type: cnn\noptimizer:\n  type: adamw\nschedule:\n  type: constant\n"
      "train:\n  epochs: 1\n  batch_size: 128\n");
  said.clear();
  EXPECT_EQ(with_defaults(saved), to_yaml(old));
  EXPECT_TRUE(said.empty()) << said[0];
  // The parts are those of random_split() with the seed of the run.
  const data::Splits parts = source_of(old.data)->load(0);
  EXPECT_EQ(parts.test->size(), 60);
  EXPECT_FALSE(parts.validation);
}

// --- transforms ---

Batch first_batch(const RunConfig& c) {
  const data::Splits data = source_of(c.data)->load(0);
  Batches batches(c, data, distributed::Communicator::alone());
  batches.start(0, 0);
  return batches.next();
}

TEST_F(ImageRun, TransformsSeeValuesInZeroToOne) {
  const Batch plain = first_batch(config(", transforms: none"));
  const Batch same =
      first_batch(config(", transforms: [cutout: {size: 1}, random_crop: {padding: 0}]"));
  const Batch jittered = first_batch(config(", transforms: [color_jitter: {brightness: 0.01}]"));
  const std::vector<float> a = plain.inputs.to_floats(), b = jittered.inputs.to_floats();
  ASSERT_EQ(a.size(), b.size());
  // A jitter of normalized values would cut the negative half of them to 0.
  for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 0.1) << i;
  EXPECT_EQ(same.inputs.shape(), plain.inputs.shape());
}

TEST_F(ImageRun, MixupMakesProbabilities) {
  const std::string size = "train: {batch_size: 16, epochs: 1}\n";
  const Batch mixed = first_batch(config(", transforms: [mixup: {alpha: 1}]", size));
  EXPECT_EQ(mixed.targets.shape(), (Shape{16, 2}));
  const std::vector<float> sums = mixed.targets.sum({1}).to_floats();
  for (const float sum : sums) EXPECT_NEAR(sum, 1, 1e-5);
  const auto trained = taper({"train", "photos", "transforms=[auto, random_resized_crop, mixup]",
                              "device=cpu", "train.epochs=1", "model.width=4", "--out", "r"});
  EXPECT_EQ(trained.code, 0) << trained.err;
}

TEST_F(ImageRun, NormalizeAppliesToAllImages) {
  write_bytes(at_ / "d.yaml",
              "device: cpu\ndata: {type: digits, train_size: 40, test_size: 20, transforms: "
              "[color_jitter: {brightness: 0}, normalize: {mean: [0.5], std: [0.25]}]}\n"
              "train: {epochs: 1, batch_size: 40, shuffle: false}\n");
  const RunConfig c = load_config(at_ / "d.yaml", {});
  RunConfig without = c;
  without.data.transforms.clear();
  const auto source = source_of(c.data);
  const data::Splits data = source->load(0), raw = source_of(without.data)->load(0);
  const auto expect_normalized = [](const Tensor& got, const Tensor& from) {
    const std::vector<float> a = got.to_floats(), b = from.to_floats();
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], (b[i] - 0.5F) / 0.25F, 1e-5);
  };
  const Tensor rows = arange(20);
  expect_normalized(data.test->get(rows).inputs, raw.test->get(rows).inputs);
  expect_normalized(first_batch(c).inputs, raw.train->get(arange(40)).inputs);
  const Tensor bytes = full({1, 1, 28, 28}, 255, {.dtype = kUInt8});
  EXPECT_NEAR(source->prepared(data, bytes).mean().item<float>(), 2, 1e-5);
  for (const char* wrong :
       {"normalize: {mean: [1, 2, 3], std: [1, 1, 1]}", "normalize: {mean: [1], std: [1, 1]}",
        "normalize: {mean: [1]}", "normalize: {mean: [1], std: [0]}"}) {
    EXPECT_THROW(
        (void)source_of(
            load_config(at_ / "d.yaml", {concat_to_string("data.transforms=[", wrong, "]")}).data)
            ->load(0),
        ConfigError)
        << wrong;
  }
  const std::string twice = refusal_of<ConfigError>([&] {
    (void)source_of(config(", transforms: [normalize: {mean: [0, 0, 0], std: [1, 1, 1]}]").data)
        ->load(0);
  });
  EXPECT_TRUE(contains(twice, "data.normalize normalizes image files; remove this entry")) << twice;
}

}  // namespace
}  // namespace taper::v0::runner

#endif
