// Runs on texts: from a file or folder alone to predictions.
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "apps/runner/base/string_utils.h"
#include "apps/runner/commands/commands.h"
#include "apps/runner/run/data_info.h"
#include "apps/runner/train/train.h"
#include "framework/factory/factories.h"
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
