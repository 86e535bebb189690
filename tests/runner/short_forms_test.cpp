// Short forms of a config, and data in place of one.
#include "apps/runner/settings/short_forms.h"

#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "apps/runner/base/errors.h"
#include "apps/runner/settings/data_path.h"
#include "apps/runner/settings/run_config.h"
#include "framework/base/log.h"
#include "tests/runner/run_process.h"
#include "tests/text.h"

namespace taper::v0::runner {
namespace {

namespace fs = std::filesystem;

class ShortForms : public ::testing::Test {
 protected:
  // Returns all values of a config.
  std::string values(const std::string& text,
                     const std::vector<std::string>& overrides = {}) const {
    write_bytes(at_ / "c.yaml", text);
    return to_yaml(load_config(at_ / "c.yaml", overrides));
  }

  RunDirectory at_;
};

TEST_F(ShortForms, MeanTheSameAsTheFullForms) {
  struct Row {
    const char *form, *full;
  };
  constexpr Row kRows[] = {
      {"data: digits\nmodel: mlp\noptimizer: sgd\ntrain: {epochs: 1}",
       "data: {type: digits}\nmodel: {type: mlp}\noptimizer: {type: sgd}\ntrain: {epochs: 1}"},
      {"data: digits\nloss: cross_entropy\nschedule: cosine\ntrain: {epochs: 1}",
       "data: {type: digits}\nmodel: {type: cnn}\noptimizer: {type: adamw}\n"
       "loss: {type: cross_entropy}\nschedule: {type: cosine}\ntrain: {epochs: 1}"},
      {"data: digits\nmodel: {type: mlp, hidden: 128}\ntrain: {epochs: 1}",
       "data: digits\nmodel: {type: mlp, hidden: [128]}\ntrain: {epochs: 1}"},
      {"data: digits\ntrain: {epochs: 1, early_stopping: true, best: true, ema: false}",
       "data: digits\ntrain: {epochs: 1, early_stopping: {}, best: {}}"},
      {"data: {path: words.txt, block_size: 8}\ntrain: {epochs: 1}",
       "data: {type: text, path: words.txt, block_size: 8}\nmodel: {type: gpt}\n"
       "optimizer: {type: adamw}\ntrain: {epochs: 1}"},
      {"data: {path: a.csv, target: y}",
       "data: {type: table, path: a.csv, target: y}\nmodel: tabular\noptimizer: adamw\n"
       "schedule: cosine\ntrain: {epochs: 100, batch_size: 32, early_stopping: {patience: 20}}"},
      {"data: {path: a.csv, target: y}\ntrain: {steps: 9, early_stopping: true}",
       "data: {path: a.csv, target: y}\ntrain: {steps: 9, batch_size: 32, early_stopping: {}}"},
      {"data: words.txt\ntrain: {epochs: 1}",
       "data: {type: text, path: words.txt}\ntrain: {epochs: 1}"}};
  for (const Row& row : kRows) EXPECT_EQ(values(row.form), values(row.full)) << row.form;
}

TEST_F(ShortForms, CanBeExtended) {
  const std::string text = "data: digits\noptimizer: adam\ntrain: {epochs: 1}";
  EXPECT_TRUE(contains(values(text, {"optimizer.lr=0.5"}), "  type: adam\n  lr: 0.5\n"));
  EXPECT_TRUE(contains(values(text, {"optimizer=sgd", "optimizer.lr=0.5"}), "  type: sgd\n"));
  EXPECT_TRUE(
      contains(values(text, {"train.early_stopping=true", "train.early_stopping.patience=9"}),
               "patience: 9\n"));
  write_bytes(at_ / "more.yaml", "include: c.yaml\noptimizer: {lr: 0.25}\n");
  write_bytes(at_ / "c.yaml", text);
  EXPECT_TRUE(contains(to_yaml(load_config(at_ / "more.yaml", {})), "  type: adam\n  lr: 0.25\n"));
}

// A config that says how to train keeps the model's own size.
TEST_F(ShortForms, ATextAloneHasASmallModelAndATraining) {
  write_bytes(at_ / "words.txt", "one two three");
  const std::string file = (at_ / "words.txt").string();
  const std::string alone = to_yaml(load_config(file, {}));
  for (const char* part : {"  n_layer: 4\n", "  n_embd: 128\n", "  steps: 1000\n",
                           "  batch_size: 16\n", "  sample_every: 200\n", "  type: cosine\n"}) {
    EXPECT_TRUE(contains(alone, part)) << part << alone;
  }
  const std::string given =
      values(concat_to_string("data: {path: \"", file, "\"}\ntrain: {steps: 3}"));
  EXPECT_TRUE(contains(given, "  n_layer: 12\n") && contains(given, "  steps: 3\n")) << given;
  const std::string own = to_yaml(load_config(file, {"model.n_layer=2"}));
  EXPECT_TRUE(contains(own, "  n_layer: 2\n") && contains(own, "  steps: 1000\n")) << own;
}

TEST_F(ShortForms, ATableMayHaveTheNameOfAText) {
  write_bytes(at_ / "t.txt", "review\tkind\na\tb\n");
  const std::string file = (at_ / "t.txt").string();
  EXPECT_TRUE(contains(to_yaml(load_config(file, {"target=kind"})), "  type: table\n"));
  EXPECT_TRUE(contains(to_yaml(load_config(file, {"target=kind", "text=review"})),
                       "  type: labeled_text\n"));
}

// A small table is read often, in small batches. What a config says is kept.
TEST_F(ShortForms, TablesHaveADefaultTraining) {
  write_bytes(at_ / "t.csv", "x,y\n1,2\n");
  const std::string file = (at_ / "t.csv").string();
  struct Row {
    std::string train;
    std::vector<const char*> parts;
    const char* not_part;
  };
  const Row rows[] = {
      {"", {"epochs: 100\n", "batch_size: 32\n", "patience: 20\n"}, "steps:"},
      {"train: {epochs: 50, early_stopping: true}",
       {"epochs: 50\n", "batch_size: 32\n", "patience: 20\n"},
       "steps:"},
      {"train: {epochs: 9}", {"epochs: 9\n", "batch_size: 32\n"}, "early_stopping:"},
      {"train: {steps: 9, batch_size: 4}", {"steps: 9\n", "batch_size: 4\n"}, "epochs:"},
      {"train: {early_stopping: {patience: 3}}", {"epochs: 100\n", "patience: 3\n"}, "steps:"},
      {"train: {early_stopping: false}", {"epochs: 100\n"}, "early_stopping:"}};
  for (const Row& row : rows) {
    const std::string yaml = values("data: {path: \"" + file + "\", target: y}\n" + row.train);
    for (const char* part : row.parts) EXPECT_TRUE(contains(yaml, part)) << row.train << yaml;
    EXPECT_FALSE(contains(yaml, row.not_part)) << row.train << yaml;
    EXPECT_TRUE(contains(yaml, "  type: tabular\n"));
    EXPECT_TRUE(contains(yaml, "  type: cosine\n"));
  }
}

TEST_F(ShortForms, AllFilesOfATableCountForItsTraining) {
  constexpr uintmax_t kBytes = 3 << 20;  // of two files, which together are a large table
  for (const char* name : {"a1.csv", "a2.csv"}) {
    write_bytes(at_ / name, "");
    fs::resize_file(at_ / name, kBytes);
  }
  const auto train_of = [&](const std::string& path) {
    return values(concat_to_string("data: {path: ", path, ", target: y}"));
  };
  const auto quoted = [&](const std::string& name) {
    return concat_to_string('"', (at_ / name).string(), '"');
  };
  for (const std::string& path :
       {quoted("a*.csv"), concat_to_string("[", quoted("a1.csv"), ", ", quoted("a2.csv"), "]")}) {
    EXPECT_TRUE(contains(train_of(path), "batch_size: 256\n")) << path;
  }
  for (const char* name : {"a1.*", "none*.csv"}) {
    EXPECT_TRUE(contains(train_of(quoted(name)), "batch_size: 32\n")) << name;
  }
}

TEST_F(ShortForms, TablesTakeTheKeysOfCsv) {
  std::vector<std::string> said;
  const LogGuard guard([&](LogLevel, const std::string& text) {
    said.push_back(text);
    return false;
  });
  struct Row {
    const char *old, *now, *says;
  };
  constexpr Row kRows[] = {
      {"csv: a.csv, target: y", "path: a.csv, target: y", "data.csv is an old name of data.path"},
      {"path: a.csv, label: y", "path: a.csv, target: y",
       "data.label is an old name of data.target"},
      {"path: a.csv, label: [y, z]", "path: a.csv, target: [y, z]",
       "data.label is an old name of data.target"},
      {"path: a.csv, target: y, test_fraction: 0.3", "path: a.csv, target: y, split: {test: 0.3}",
       "data.test_fraction is an old name of data.split.test"},
      {"path: a.csv, target: y, split: {seed: 3}, test_path: b.csv",
       "path: a.csv, target: y, split: {seed: 3, test: b.csv}",
       "data.test_path is an old name of data.split.test"},
      {"path: a.csv, target: y, header: absent", "path: a.csv, target: y, read: {header: absent}",
       "data.header is an old name of data.read.header"},
      {"path: a.csv, target: y, delimiter: ';'", "path: a.csv, target: y, read: {delimiter: ';'}",
       "data.delimiter is an old name of data.read.delimiter"},
      {"path: a.csv, target: y, missing: mean",
       "path: a.csv, target: y, missing: {numbers: median}",
       "data.missing: mean is an old form of data.missing.numbers: median"},
      {"path: a.csv, target: y, missing: refuse",
       "path: a.csv, target: y, missing: {numbers: refuse}",
       "data.missing: refuse is an old form of data.missing.numbers: refuse"},
      {"path: a.csv, target: y, categories: one_hot", "path: a.csv, target: y",
       "data.categories has no effect on a table"}};
  for (const Row& row : kRows) {
    const std::string now = values(concat_to_string("data: {type: table, ", row.now, "}"));
    EXPECT_TRUE(said.empty());
    EXPECT_EQ(values(concat_to_string("data: {type: table, ", row.old, "}")), now) << row.old;
    EXPECT_EQ(values(concat_to_string("data: {", row.old, "}")), now) << row.old;
    ASSERT_EQ(said.size(), 2u) << row.old;
    EXPECT_TRUE(contains(said[0], row.says)) << said[0];
    said.clear();
  }
  // The values of `type: csv` keep their names.
  EXPECT_TRUE(contains(values("data: {type: csv, path: a.csv, label: kind, missing: mean}\n"
                              "train: {epochs: 1}"),
                       "label: kind"));
  EXPECT_TRUE(said.empty());
  write_bytes(at_ / "c.yaml", "data: {path: a.csv, target: y, label: z, test_fraction: 2}");
  std::string refusal;
  try {
    (void)load_config(at_ / "c.yaml", {});
  } catch (const ConfigError& error) {
    refusal = error.what();
  }
  EXPECT_TRUE(contains(refusal,
                       "c.yaml:1:32: data.label is an old name of data.target, which is "
                       "given, too; remove it"))
      << refusal;
  EXPECT_TRUE(contains(refusal, "data.split.test: expected a number")) << refusal;
}

TEST_F(ShortForms, TargetsAndClassesOfATableMayBeMaps) {
  constexpr const char* kRows[][2] = {
      {"target: {name: y}", "target: y"},
      {"target: {name: y, log: false}", "target: [y]"},
      {"target: {name: y, log: true}", "target: y, log_targets: [y]"},
      {"target: [{name: y, log: true}, z]", "target: [y, z], log_targets: y"},
      {"target: [x, {name: y, log: true}, {name: z, log: true}]",
       "target: [x, y, z], log_targets: [y, z]"},
      {"target: y, balance: {yes: 3, 'no': 1}", "target: y, class_weights: {yes: 3, 'no': 1}"}};
  for (const auto& [brief, full] : kRows) {
    EXPECT_EQ(values(concat_to_string("data: {path: a.csv, ", brief, "}")),
              values(concat_to_string("data: {path: a.csv, ", full, "}")))
        << brief;
  }
}

TEST_F(ShortForms, TheTypeOfDataFollowsFromThePath) {
  fs::create_directories(at_ / "photos");
  struct Row {
    std::string path, type;
  };
  const Row rows[] = {{"a.csv", "table"},
                      {"a.CSV", "table"},
                      {"a.b.tsv", "table"},
                      {"a.csv.gz", "table"},
                      {"a.jsonl.zst", "table"},
                      {"a.zip", "table"},
                      {"a.ndjson", "table"},
                      {"a.txt", "text"},
                      {"a.txt.gz", "text"},
                      {(at_ / "photos"), "images"},
                      {"a.yaml", ""},
                      {"a", ""},
                      {"csv", ""},
                      {"", ""},
                      {"a.gz", ""}};
  for (const Row& row : rows) EXPECT_EQ(data_type_of(row.path), row.type) << row.path;
}

// The length of the training does not change the size of the model.
TEST_F(ShortForms, ATextInPlaceOfAConfigHasASmallModel) {
  write_bytes(at_ / "words.txt", "one two three");
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{}, {"train.steps=5"}, {"train.epochs=1"}}) {
    const std::string yaml = to_yaml(load_config(at_ / "words.txt", words));
    for (const char* part : {"  n_layer: 4\n", "  n_embd: 128\n", "  batch_size: 16\n"}) {
      EXPECT_TRUE(contains(yaml, part)) << yaml;
    }
    EXPECT_EQ(contains(yaml, "  steps: 1000\n"), words.empty()) << yaml;
  }
}

TEST_F(ShortForms, DataCanStandInPlaceOfAConfig) {
  write_bytes(at_ / "words.v2.txt", "one two three");
  const fs::path file = at_ / "words.v2.txt";
  ASSERT_TRUE(is_data_path(file));
  const RunConfig config = load_config(file, {"block_size=4", "train.steps=3", "model.n_layer=1"});
  EXPECT_EQ(config.name, "words");
  const std::string yaml = to_yaml(config);
  for (const char* part :
       {"  type: text\n", "  block_size: 4\n", "  steps: 3\n", "  type: gpt\n"}) {
    EXPECT_TRUE(contains(yaml, part)) << yaml;
  }
  EXPECT_TRUE(contains(to_yaml_with_origins(config), "type: gpt  # default\n"));
}

// A file of any name is data if an override says what it has. Without one, it is a config.
TEST_F(ShortForms, AFileOfAnyNameMayBeData) {
  const std::string table = "x,y\n1,2\n";
  for (const char* name : {"iris.data", "iris", "a.json", "a.dat", "a.txt"}) {
    write_bytes(at_ / name, table);
    for (const char* word : {"target=y", "target=1"}) {
      EXPECT_TRUE(contains(to_yaml(load_config(at_ / name, {word})), "  type: table\n")) << name;
    }
  }
  EXPECT_TRUE(contains(to_yaml(load_config(at_ / "iris", {"text=x", "target=y"})),
                       "  type: labeled_text\n"));
  EXPECT_TRUE(contains(to_yaml(load_config(at_ / "iris", {"type=text"})), "  type: text\n"));
  EXPECT_TRUE(contains(values("data: {path: iris.data, target: y}"), "  type: table\n"));
  EXPECT_FALSE(is_data_path(at_ / "iris"));
  EXPECT_FALSE(is_data_path(at_ / "iris", {"data.target=y", "train.epochs=1"}));
  EXPECT_FALSE(is_data_path(at_ / "c.yaml", {"target=y"}));
}

TEST_F(ShortForms, ARunAndAConfigAreNoData) {
  write_bytes(at_ / "config.yaml", "data: digits\n");
  EXPECT_FALSE(is_data_path(at_ / ""));
  EXPECT_FALSE(is_data_path(at_ / "config.yaml"));
}

TEST_F(ShortForms, AKeyOfNoSectionBelongsToTheData) {
  EXPECT_EQ(full_override("target=survived"), "data.target=survived");
  EXPECT_EQ(full_override("columns.id=keep"), "data.columns.id=keep");
  for (const char* full : {"data.target=y", "seed=1", "train.epochs=3", "optimizer=sgd"}) {
    EXPECT_EQ(full_override(full), full);
  }
}

}  // namespace
}  // namespace taper::v0::runner
