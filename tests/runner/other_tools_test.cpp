// Configs of Ludwig and files of data of Ultralytics are converted to Taper's keys, and what has no
// counterpart is refused by name.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "apps/runner/base/errors.h"
#include "apps/runner/settings/run_config.h"
#include "data/images/image_files.h"
#include "framework/factory/factories.h"
#include "tests/runner/run_process.h"
#include "tests/text.h"

namespace taper::v0::runner {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

// A key that a row of a test replaces is alone on its line.
constexpr const char* kLudwig =
    "input_features:\n"
    "  - {name: x, type: number}\n"
    "  - {name: kind, type: category}\n"
    "  - {name: day, type: date}\n"
    "output_features:\n"
    "  - {name: y, type: binary}\n"
    "preprocessing: {split: {type: random, probabilities: [0.7, 0.1, 0.2]}}\n"
    "trainer: {epochs: 3, batch_size: 16, learning_rate: 0.01}\n";

class OtherTools : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return (at_ / name).string(); }
  void put(const std::string& name, const std::string& text) const {
    fs::create_directories((at_ / name).parent_path());
    write_bytes(at_ / name, text);
  }
  RunConfig load(const std::string& text, const Words& settings = {}) const {
    put("c.yaml", text);
    return load_config(at_ / "c.yaml", settings);
  }
  // Returns the message with which the config is refused.
  std::string refusal(const std::string& text, const Words& settings = {}) const {
    try {
      (void)load(text, settings);
      return "accepted";
    } catch (const ConfigError& error) {
      return error.what();
    }
  }
  std::string table() const {
    std::string text = "id,x,kind,day,y,score,words\n";
    for (int i = 0; i < 120; ++i) {
      text += concat_to_string(i, ",", i % 7, ",", i % 3 ? "a" : "b", ",2024-01-", 10 + i % 20, ",",
                               i % 2 ? "yes" : "no", ",", i * 0.25, ",",
                               i % 2 ? "good fine film" : "bad dull film", "\n");
    }
    put("t.csv", text);
    return "data.path=" + path("t.csv");
  }

  RunDirectory at_;
};

std::string with_line(std::string text, int line, const std::string& now) {
  size_t from = 0;
  for (int i = 1; i < line; ++i) from = text.find('\n', from) + 1;
  return text.replace(from, text.find('\n', from) - from, now);
}

TEST_F(OtherTools, ALudwigConfigHasTheMeaningOfTapersKeys) {
  const std::string data = table();
  const RunConfig converted = load(kLudwig, {data});
  const RunConfig own = load(
      "data:\n"
      "  target: [y]\n"
      "  type: table\n"
      "  task: classification\n"
      "  columns: {x: number, kind: category, day: date, \"*\": ignore}\n"
      "  split: {validation: 0.1, test: 0.2, by: random}\n"
      "train: {epochs: 3, batch_size: 16}\n"
      "optimizer: {type: adamw, lr: 0.01}\n",
      {data});
  EXPECT_EQ(to_yaml(converted), to_yaml(own));
}

TEST_F(OtherTools, ALudwigConfigTrainsOnItsFeaturesOnly) {
  const std::string data = table();
  put("l.yaml", kLudwig);
  const RunDirectory::Outcome run =
      at_.taper({"train", "l.yaml", data, "device=cpu", "--out", "r"});
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_TRUE(contains(run.err, "84 training, 12 validation and 24 test")) << run.err;
  const std::string yaml = read_bytes(at_ / "r/config.yaml");
  for (const char* line : {"  epochs: 3\n", "  batch_size: 16\n", "  lr: 0.01\n", "  by: random\n"})
    EXPECT_TRUE(contains(yaml, line)) << line << yaml;
  const RunDirectory::Outcome printed = at_.taper({"train", "l.yaml", data, "--print-config"});
  EXPECT_TRUE(contains(printed.out, "  epochs: 3  # l.yaml:8:19\n")) << printed.out;
  EXPECT_FALSE(contains(printed.out, "input_features")) << printed.out;
}

struct Converted {
  const char *inputs, *outputs;
  std::vector<std::string> has;
};

TEST_F(OtherTools, TheTypesOfFeaturesChooseTheTypeOfData) {
  const Converted rows[] = {
      {"{name: words, type: text}",
       "{name: y, type: category}",
       {"type: labeled_text", "text: words", "target: [\"y\"]", "task: classification"}},
      {"{name: words, type: text}", "{name: score, type: number}", {"task: regression"}},
      {"{name: words, type: text}, {name: x, type: numerical}",
       "{name: score, type: number}, {name: id, type: number}",
       {"type: table", "words: text", "x: number", "\"*\": ignore", "target: [score, id]"}},
      {"{name: words, type: image}",
       "{name: y, type: category}",
       {"type: images", "labels:\n", "    path: words", "    target: [\"y\"]"}},
  };
  for (const Converted& row : rows) {
    const bool has_image = contains(row.inputs, "image");
    Words settings = {has_image ? "data.path=photos" : table()};
    if (has_image) settings.emplace_back("data.labels.file=labels.csv");
    const std::string yaml =
        to_yaml(load(concat_to_string("input_features: [", row.inputs, "]\noutput_features: [",
                                      row.outputs, "]\n"),
                     settings));
    for (const std::string& part : row.has)
      EXPECT_TRUE(contains(yaml, part)) << part << "\n" << yaml;
  }
}

TEST_F(OtherTools, TheSplitAndTheTrainerOfLudwigAreConverted) {
  const std::string data = table();
  const auto yaml = [&](int line, const std::string& now) {
    return to_yaml(load(with_line(kLudwig, line, now), {data}));
  };
  EXPECT_TRUE(contains(yaml(7, "preprocessing: {split: {type: stratify, column: y}}"),
                       "    by: stratify\n"));
  const std::string by_time = yaml(7, "preprocessing: {split: {type: datetime, column: day}}");
  EXPECT_TRUE(contains(by_time, "    by: time\n    column: day\n")) << by_time;
  EXPECT_TRUE(contains(yaml(8, "trainer: {epochs: 1, batch_size: auto}"), "  batch_size: auto\n"));
}

struct Refused {
  int line;
  const char *now, *place;
  std::vector<std::string> says;
};

TEST_F(OtherTools, WhatLudwigHasAndTaperHasNotIsRefusedByNameWithTapersWay) {
  const Refused rows[] = {
      {8, "combiner: {type: concat}", "c.yaml:8:1", {"Ludwig's key 'combiner'", "Taper has model"}},
      {8, "model_type: ecd", "c.yaml:8:1", {"'model_type'", "Taper has model.type"}},
      {8, "hyperopt: {}", "c.yaml:8:1", {"'hyperopt'", "`taper sweep`"}},
      {8, "unheard_of: 1", "c.yaml:8:1", {"'unheard_of' is not converted; remove it"}},
      {8,
       "trainer: {learning_rate_scheduler: {decay: linear}}",
       "c.yaml:8:11",
       {"'trainer.learning_rate_scheduler'", "Taper has schedule"}},
      {8,
       "trainer: {early_stop: 5}",
       "c.yaml:8:11",
       {"'trainer.early_stop'", "train.early_stopping.patience"}},
      {8, "trainer: {learning_rate: auto}", "c.yaml:8:26", {"`taper lr-find` proposes one"}},
      {8, "trainer: 3", "c.yaml:8:10", {"trainer: expected a map, got '3'"}},
      {8, "trainer: {epochs: many}", "c.yaml:8:19", {"train.epochs: expected an integer"}},
      {7, "preprocessing: {sample_ratio: 0.5}", "c.yaml:7:17", {"'preprocessing.sample_ratio'"}},
      {7,
       "preprocessing: {split: {type: fixed, column: part}}",
       "c.yaml:7:31",
       {"Ludwig's type 'fixed'", "by: column, column: NAME"}},
      {7, "preprocessing: {split: {type: hash}}", "c.yaml:7:31", {"'hash'", "random, stratify"}},
      {7,
       "preprocessing: {split: {probabilities: [0.7, 0.3]}}",
       "c.yaml:7:40",
       {"expected three shares whose sum is 1"}},
      {7, "preprocessing: {split: {probabilities: [7, 1, 2]}}", "c.yaml:7:40", {"three shares"}},
      {7,
       "preprocessing: {split: {type: stratify, column: x}}",
       "c.yaml:7:49",
       {"stratifies by the target only"}},
      {2,
       "  - {name: x, type: timeseries}",
       "c.yaml:2:21",
       {"Ludwig's type 'timeseries'", "data.type: series", "converted are number, category"}},
      {2, "  - {name: x, type: nubmer}", "c.yaml:2:21", {"'nubmer'"}},
      {2, "  - {name: x}", "c.yaml:2:5", {"input_features: a feature needs a name and a type"}},
      {2,
       "  - {name: x, type: number, encoder: dense}",
       "c.yaml:2:29",
       {"'input_features.encoder'", "Taper has model"}},
      {2, "  - {name: x, type: number, column: X}", "c.yaml:2:29", {"the name of the column"}},
      {2, "  - {name: x, type: image}", "c.yaml:2:3", {"take an image alone"}},
      {6, "  - {name: y, type: text}", "c.yaml:6:5", {"'text' is not converted as an output"}},
      {6,
       "  - {name: y, type: number}\n  - {name: kind, type: category}",
       "c.yaml:6:3",
       {"Taper predicts values or classes, not both in one run"}},
      {6, "  []", "c.yaml:6:3", {"output_features: expected a list of {name: COLUMN, type: TYPE}"}},
      {8,
       "train: {epochs: 3}",
       "c.yaml:8:1",
       {"'train' is a key of Taper, and 'input_features' one of Ludwig", "include: THIS_FILE"}},
      {8, "data: {path: t.csv}", "c.yaml:8:1", {"'data' is a key of Taper"}},
      {8, "include: base.yaml", "c.yaml:8:1", {"'include' is a key of Taper"}},
  };
  const std::string data = table();
  for (const Refused& row : rows) {
    const std::string what = refusal(with_line(kLudwig, row.line, row.now), {data});
    EXPECT_TRUE(contains(what, concat_to_string(row.place, ": "))) << row.now << "\n" << what;
    for (const std::string& part : row.says)
      EXPECT_TRUE(contains(what, part)) << part << "\n" << what;
  }
  EXPECT_TRUE(
      contains(refusal("input_features: [{name: x, type: number}]\n"), "no 'output_features'"));
  EXPECT_TRUE(
      contains(refusal("output_features: [{name: x, type: number}]\n"), "no 'input_features'"));
}

TEST_F(OtherTools, AFileOfTaperMayIncludeOneOfLudwig) {
  (void)table();
  put("ludwig.yaml", kLudwig);
  const RunConfig c = load(concat_to_string("include: ludwig.yaml\ndata: {path: ", path("t.csv"),
                                            "}\ntrain: {batch_size: 8}\nseed: 7\n"));
  EXPECT_EQ(c.train.batch_size, 8);
  EXPECT_EQ(*c.train.epochs, 3);
  EXPECT_EQ(c.seed, 7u);
}

TEST_F(OtherTools, WithoutTheDataOfALudwigConfigThePathIsAskedFor) {
  const std::string what = refusal(kLudwig);
  EXPECT_TRUE(contains(what, "missing key 'path' in 'data'")) << what;
}

#ifdef TAPER_WITH_IMAGES
class UltralyticsFile : public OtherTools {
 protected:
  UltralyticsFile() {
    for (const char* part : {"train", "val", "test"}) {
      for (const char* name : {"cat", "dog"}) {
        for (int i = 0; i < 6; ++i) {
          const fs::path folder = at_ / "pets" / part / name;
          fs::create_directories(folder);
          data::write_png(full({3, 8, 8}, i * 30, {.dtype = kUInt8}),
                          folder / concat_to_string(i, ".png"));
        }
      }
    }
  }
  std::string file(const std::string& more) const {
    return concat_to_string("path: ", path("pets"), "\ntrain: train\n", more);
  }
};

TEST_F(UltralyticsFile, NamesTheFoldersOfTheParts) {
  const std::string with_test =
      to_yaml(load(file("val: val\ntest: test\nnames: {0: cat, 1: dog}\nnc: 2\n"), {"device=cpu"}));
  for (const std::string& part : {concat_to_string("path: ", path("pets/train")),
                                  concat_to_string("validation: ", path("pets/val")),
                                  concat_to_string("test: ", path("pets/test"))}) {
    EXPECT_TRUE(contains(with_test, part)) << with_test;
  }
  const std::string without = to_yaml(load(file("val: val\nnames: [dog, cat]\n")));
  EXPECT_TRUE(contains(without, concat_to_string("test: ", path("pets/val")))) << without;
  EXPECT_FALSE(contains(without, "validation: /")) << without;
}

TEST_F(UltralyticsFile, TrainsWithSettingsOfTheCommandLine) {
  put("pets.yaml", file("val: val\ntest:\nnames: [cat, dog]\n"));
  const RunDirectory::Outcome run = at_.taper({"train", "pets.yaml", "device=cpu", "threads=1",
                                               "model.width=4", "train.epochs=1", "--out", "r"});
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_TRUE(contains(run.err, "12 training and 12 test samples")) << run.err;
}

TEST_F(UltralyticsFile, OtherFormsAreRefusedWithTheLine) {
  struct Row {
    const char *more, *place;
    std::vector<std::string> says;
  };
  const Row rows[] = {
      {"val: val\ndownload: http://x\n",
       "c.yaml:4:1",
       {"Ultralytics' key 'download'", "nothing from the network"}},
      {"val: val\nkpt_shape: [17, 3]\n", "c.yaml:4:1", {"'kpt_shape' is not converted"}},
      {"val: [val, test]\n", "c.yaml:3:6", {"val: Taper reads one folder", "got a list"}},
      {"val: val.txt\n", "c.yaml:3:6", {"got 'val.txt'"}},
      {"val: val\nnames: [cat, fish]\n",
       "c.yaml:4:8",
       {"names of the classes from the folders", "which are cat, dog"}},
      {"val: val\nnames: [cat, dog]\nnc: 3\n", "c.yaml:5:5", {"expected the number of names, 2"}},
      {"val: val\nnc: 3\n", "c.yaml:4:5", {"nc: expected the number of class folders in ", ", 2"}},
      {"val: val\nmodel: resnet18\n",
       "c.yaml:4:1",
       {"'model' is a key of Taper, and 'val' one of Ultralytics"}},
  };
  for (const Row& row : rows) {
    const std::string what = refusal(file(row.more));
    EXPECT_TRUE(contains(what, concat_to_string(row.place, ": "))) << row.more << "\n" << what;
    for (const std::string& part : row.says)
      EXPECT_TRUE(contains(what, part)) << part << "\n" << what;
  }
  const std::string detection =
      refusal(concat_to_string("path: ", path("pets"), "\ntrain: train/cat\nval: val/cat\n"));
  EXPECT_TRUE(contains(detection, "has no class folders; Taper trains classification"))
      << detection;
}

TEST_F(UltralyticsFile, ATypingErrorInAConfigOfTaperIsNoFileOfUltralytics) {
  EXPECT_TRUE(contains(refusal("data: {type: digits}\ntrain: 5\n"), "train: expected a map"));
  EXPECT_TRUE(contains(refusal("data: {type: digits}\ntrain: {epochs: 1}\nnames: x\n"),
                       "unknown key 'names'"));
}
#endif

}  // namespace
}  // namespace taper::v0::runner
