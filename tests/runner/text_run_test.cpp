// Runs on texts: from a file or folder alone to predictions.
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <zlib.h>

#include "apps/runner/base/string_utils.h"
#include "apps/runner/commands/commands.h"
#include "apps/runner/run/data_info.h"
#include "apps/runner/train/train.h"
#include "framework/factory/factories.h"
#include "tests/runner/careless_inputs.h"
#include "tests/runner/run_process.h"
#include "tests/text.h"

namespace taper::v0::runner {
namespace {

class TextRun : public ::testing::Test {
 protected:
  TextRun() {
    const char* const kinds[][3] = {{"bad", "poor", "dull"}, {"good", "great", "warm"}};
    const char* const others[] = {"the", "film", "was", "and", "music"};
    std::string rows = "id,review,kind,stars\n";
    for (int i = 0; i < 300; ++i) {
      const int kind = i % 2;
      std::string text = kinds[kind][i % 3];
      for (int k = 0; k < i % 9; ++k) text += concat_to_string(" ", others[(i + k) % 5]);
      rows += concat_to_string(i, ",\"", text, ".\",", kind ? "pos" : "neg", ",",
                               kind * 4 + i % 5 * 0.1, "\n");
      const std::filesystem::path folder =
          at_ / concat_to_string("d/", i % 5 == 0 ? "test/" : "train/", kind ? "pos" : "neg");
      std::filesystem::create_directories(folder);
      write_bytes(folder / concat_to_string(i, ".txt"), text);
    }
    write_bytes(at_ / "t.csv", rows);
  }
  RunDirectory::Outcome taper(std::vector<std::string> words) const { return at_.taper(words); }

  RunDirectory at_;
};

TEST_F(TextRun, OneLineTrainsEvaluatesAndPredicts) {
  const auto trained = taper({"train", "t.csv", "text=review", "target=kind", "train.epochs=20",
                              "columns={id: keep}", "--out", "r"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_TRUE(contains(trained.err, "review  text ")) << trained.err;
  EXPECT_TRUE(contains(trained.out, "test accuracy:   100.00 %")) << trained.out;
  const auto evaluated = taper({"eval", "r"});
  EXPECT_TRUE(contains(evaluated.out, "test accuracy:   100.00 %")) << evaluated.out;
  write_bytes(at_ / "new.csv", "review,id\nThis is GREAT!,7\n\"A dull, dull film\",8\n");
  const auto predicted = taper({"predict", "r", "new.csv"});
  EXPECT_TRUE(contains(predicted.out, "id,prediction,p_neg,p_pos\n7,pos,")) << predicted.out;
  EXPECT_TRUE(contains(predicted.out, "\n8,neg,")) << predicted.out;
}

TEST_F(TextRun, AFolderTrainsAndASingleTextIsPredicted) {
  const auto trained = taper({"train", "d", "train.epochs=20", "--out", "r"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_TRUE(contains(trained.out, "test accuracy:   100.00 %")) << trained.out;
  write_bytes(at_ / "one.txt", "a warm film");
  const auto predicted = taper({"predict", "r", "one.txt"});
  EXPECT_TRUE(contains(predicted.out, "file,prediction,p_neg,p_pos\none.txt,pos,"))
      << predicted.out << predicted.err;
  const auto evaluated = taper({"eval", "r", "--data", "d/test"});
  EXPECT_TRUE(contains(evaluated.out, "samples:         60\n")) << evaluated.out;
}

TEST_F(TextRun, PredictTakesWhatPeopleGive) {
  const auto trained = taper({"train", "d", "train.epochs=1", "--out", "r"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  for (const char* folder : {"empty", "images", "only/train/pos", "new/deep/er", "flat"}) {
    std::filesystem::create_directories(at_ / folder);
  }
  for (const char* file : {"only/train/pos/a.txt", "new/deep/er/a.txt", "new/b/c.txt", "flat/a.txt",
                           "d/train/pos/.hidden.txt"}) {
    std::filesystem::create_directories((at_ / file).parent_path());
    write_bytes(at_ / file, "a warm film");
  }
  write_bytes(at_ / "images/a.png", "no text");
  write_bytes(at_ / "zero.txt", "");
  write_bytes(at_ / "blank.txt", " \n");
  write_bytes(at_ / "flat/zero.txt", "");
  write_bytes(at_ / "latin.txt", "caf\xe9");
  write_bytes(at_ / "zero.csv", "");
  write_bytes(at_ / "header.csv", "text\n");
  write_bytes(at_ / "other.csv", "words\nwarm\n");
  write_bytes(at_ / "cut.txt.gz", "\x1f\x8b\x08");
  const gzFile packed = gzopen((at_ / "one.txt.gz").c_str(), "wb");
  gzputs(packed, "a warm film");
  gzclose(packed);
  expect_predictions(
      at_,
      {
          {"a compressed text", "one.txt.gz", 0, "\none.txt.gz,", ""},
          {"a folder of texts", "flat", 0, "\nflat/a.txt,",
           "flat: 1 of 2 texts is empty; the model"},
          {"a folder of a class", "d/train/pos", 0, "\nd/train/pos/1.txt,", ""},
          {"a part", "d/train", 0, "\nd/train/neg/102.txt,", ""},
          {"a folder with train/ and test/", "d", 0, "\nd/test/neg/0.txt,", ""},
          {"a folder with train/ alone", "only", 0, "\nonly/train/pos/a.txt,", ""},
          {"folders that are no classes", "new", 0, "\nnew/deep/er/a.txt,", ""},
          {"no bytes", "zero.txt", 0, "\nzero.txt,", "zero.txt: 1 of 1 text is empty"},
          {"blanks", "blank.txt", 0, "\nblank.txt,", "blank.txt: 1 of 1 text is empty"},
          {"an empty folder", "empty", kExitInput, "", "empty: no .txt files; expected a folder"},
          {"other files", "images", kExitInput, "", "images: no .txt files; left out: 1 .png"},
          {"another encoding", "latin.txt", kExitInput, "", "latin.txt:1: not UTF-8"},
          {"a damaged file", "cut.txt.gz", kExitInput, "", "cut.txt.gz: "},
          {"an empty table", "zero.csv", kExitInput, "", "zero.csv: expected rows"},
          {"a header", "header.csv", kExitInput, "", "header.csv:2: expected rows"},
          {"another column", "other.csv", kExitInput, "", "other.csv: no column 'text'"},
          {"a missing file", "none.txt", kExitInput, "", "none.txt: "},
          {"a device", "/dev/null", kExitInput, "", "/dev/null: "},
      });
  // An evaluation uses the test part, and needs classes.
  const auto evaluated = taper({"eval", "r", "--data", "d"});
  EXPECT_TRUE(contains(evaluated.out, "samples:         60\n")) << evaluated.out << evaluated.err;
  const auto refused = taper({"eval", "r", "--data", "new"});
  EXPECT_EQ(refused.code, kExitInput) << refused.out;
  EXPECT_TRUE(contains(refused.err, "has no labels")) << refused.err;
}

// Predictions need no classes, so they ignore unknown ones. An evaluation refuses these, and leaves
// out texts without a class.
TEST_F(TextRun, PredictionsIgnoreLabels) {
  ASSERT_EQ(
      taper({"train", "t.csv", "text=review", "target=kind", "train.epochs=1", "--out", "t"}).code,
      0);
  ASSERT_EQ(taper({"train", "d", "train.epochs=1", "--out", "d_run"}).code, 0);
  const std::string known = "review,kind\nwarm,pos\ndull,neg\n";
  write_bytes(at_ / "known.csv", known);
  write_bytes(at_ / "some.csv", known + "poor,\n");
  write_bytes(at_ / "mixed.csv", known + "poor,zebra\n");
  for (const char* folder : {"mixed/pos", "mixed/zebra"}) {
    std::filesystem::create_directories(at_ / folder);
    write_bytes(at_ / folder / "a.txt", "warm");
  }
  for (const char* file : {"some.csv", "mixed.csv"}) {
    const auto predicted = taper({"predict", "t", file});
    EXPECT_EQ(count(predicted.out, "\n"), 4) << file << predicted.err;
  }
  const auto some = taper({"eval", "t", "--data", "some.csv"});
  EXPECT_TRUE(contains(some.err, "some.csv: 1 row without a target left out")) << some.err;
  EXPECT_EQ(some.out, taper({"eval", "t", "--data", "known.csv"}).out);
  const auto folder = taper({"predict", "d_run", "mixed"});
  EXPECT_TRUE(contains(folder.out, "\nmixed/zebra/a.txt,")) << folder.out << folder.err;
  for (const auto& [run, file] : {std::pair("t", "mixed.csv"), {"d_run", "mixed"}}) {
    const auto refused = taper({"eval", run, "--data", file});
    EXPECT_EQ(refused.code, kExitInput) << file << refused.out;
    EXPECT_TRUE(contains(refused.err, "class 'zebra' is not in the training data")) << refused.err;
  }
}

TEST_F(TextRun, EveryModelOfTextsLearns) {
  for (const char* model : {"{type: bag_classifier, hidden: []}",
                            "{type: lstm_classifier, embedding_dim: 16, hidden_size: 16}",
                            "{type: encoder_classifier, d_model: 16, nhead: 2, num_layers: 1, "
                            "dim_feedforward: 32}"}) {
    const RunConfig config =
        load_config(at_ / "t.csv", {"text=review", "target=kind", "optimizer.lr=0.01",
                                    "train.epochs=10", concat_to_string("model=", model)});
    const TrainResult result = train(config, at_ / "r");
    EXPECT_GE(result.test_metrics["accuracy"], 0.95) << model;
    std::filesystem::remove_all(at_ / "r");
  }
}

TEST_F(TextRun, ValuesAreReportedInTheirUnit) {
  const RunConfig config =
      load_config(at_ / "t.csv", {"text=review", "target=stars", "train.epochs=20"});
  const TrainResult result = train(config, at_ / "r");
  EXPECT_LT(result.test_metrics["mae"], 0.5);
  const std::vector<std::string> lines = lines_of(predict(open_run(at_ / "r", {}), at_ / "t.csv"));
  EXPECT_EQ(lines.size(), 301u);
  EXPECT_LT(std::stod(lines[1]), 1);
  EXPECT_GT(std::stod(lines[2]), 3);
}

TEST_F(TextRun, ItsDescriptionRestoresTheTokenizer) {
  const RunConfig config =
      load_config(at_ / "t.csv", {"text=review", "target=kind", "train.epochs=1"});
  train(config, at_ / "r");
  const std::string text = read_bytes(at_ / "r/data.json");
  EXPECT_EQ(to_json(data_info_from_json(text, "data.json")), text);
  std::string broken = text;
  broken.replace(broken.find("\"<unk>\""), 7, "\"<pad>\"");
  EXPECT_THROW((void)data_info_from_json(broken, "data.json"), InputError);
  const SavedRun run = open_run(at_ / "r", {});
  const int64_t length = run.info.input_shape[0];
  EXPECT_EQ(run.predict(zeros({2, length}, {.dtype = kInt64})).shape(), (Shape{2, 2}));
}

}  // namespace
}  // namespace taper::v0::runner
