// Runs whose tokens are those of a model of sentencepiece need the model file only for training.
#include <algorithm>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "apps/runner/encodings/base64.h"
#include "data/tokenizer.h"
#include "framework/base/error.h"
#include "tests/runner/run_process.h"
#include "tests/sentencepiece_model.h"
#include "tests/text.h"

namespace taper::v0::runner {
namespace {

namespace fs = std::filesystem;

TEST(Base64, ReturnsTheBytes) {
  const struct {
    std::string bytes, text;
  } rows[] = {{"", ""},        {"f", "Zg=="},        {"fo", "Zm8="},
              {"foo", "Zm9v"}, {"foob", "Zm9vYg=="}, {std::string("\0\xff\x80", 3), "AP+A"}};
  for (const auto& row : rows) {
    EXPECT_EQ(to_base64(row.bytes), row.text);
    EXPECT_EQ(from_base64(row.text), row.bytes);
  }
  for (const char* bad : {"Z", "Zg", "Zg=", "Zg==Zg==", "Zh==", "====", "Zm9\n", "Zm 9"}) {
    EXPECT_EQ(from_base64(bad), std::nullopt) << bad;
  }
}

class SentencePieceRuns : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!test::has_sentencepiece_programs()) GTEST_SKIP() << "needs Debian's package sentencepiece";
    model_ = test::train_sentencepiece(at_ / ".", "m", "--vocab_size=80");
    try {
      (void)data::Tokenizer::sentencepiece(model_);
    } catch (const Error& error) {
      if (!contains(error.what(), "built without sentencepiece")) throw;
      GTEST_SKIP() << "built without sentencepiece (TAPER_SENTENCEPIECE)";
    }
  }

  RunDirectory at_;
  std::string model_;
};

TEST_F(SentencePieceRuns, ALanguageModelGeneratesWithoutTheModelFile) {
  write_bytes(at_ / "c.yaml",
              "device: cpu\n"
              "data: {type: text, path: m.txt, tokenizer: sentencepiece, vocabulary: m.model, "
              "block_size: 16}\n"
              "model: {type: gpt, n_layer: 1, n_head: 2, n_embd: 32}\n"
              "optimizer: {type: adamw, lr: 0.01}\n"
              "train: {steps: 60, batch_size: 16}\n");
  const auto run = at_.taper({"train", "c.yaml", "--out", "run"});
  ASSERT_EQ(run.code, 0) << run.err;
  fs::remove(at_ / "m.model");
  const auto text = at_.taper({"generate", "run", "--prompt", "the cat", "--tokens", "30"});
  ASSERT_EQ(text.code, 0) << text.err;
  // Words stay apart, although each token is printed by itself.
  EXPECT_TRUE(text.out.starts_with("the cat")) << text.out;
  EXPECT_GT(std::ranges::count(text.out, ' '), 3) << text.out;
  EXPECT_FALSE(contains(text.out, "\xe2\x96\x81")) << text.out;
  const auto start = at_.taper({"generate", "run", "--start", "<s>", "--tokens", "5"});
  EXPECT_EQ(start.code, 0) << start.err;
  const auto eval = at_.taper({"eval", "run", "--data", "m.txt"});
  EXPECT_EQ(eval.code, 0) << eval.err;
}

TEST_F(SentencePieceRuns, AClassifierPredictsWithoutTheModelFile) {
  std::string rows = "text,y\n";
  for (int i = 0; i < 60; ++i) rows += i % 2 ? "the cat sat,cat\n" : "the dog ran,dog\n";
  write_bytes(at_ / "t.csv", rows);
  const auto run = at_.taper({"train", "t.csv", "text=text", "target=y", "tokenizer=sentencepiece",
                              "vocabulary=m.model", "train.epochs=20", "--out", "run"});
  ASSERT_EQ(run.code, 0) << run.err;
  fs::remove(at_ / "m.model");
  write_bytes(at_ / "new.csv", "text\nthe cat sat\nthe dog ran\n");
  const auto found = at_.taper({"predict", "run", "new.csv"});
  ASSERT_EQ(found.code, 0) << found.err;
  EXPECT_TRUE(contains(found.out, "\ncat,") && contains(found.out, "\ndog,")) << found.out;
}

TEST_F(SentencePieceRuns, WhatIsNoModelIsRefusedWithItsPath) {
  write_bytes(at_ / "bad.model", "");
  const auto run = at_.taper(
      {"train", "m.txt", "tokenizer=sentencepiece", "vocabulary=bad.model", "--out", "run"});
  EXPECT_EQ(run.code, 66) << run.err;
  EXPECT_TRUE(contains(run.err, "bad.model: not a model of sentencepiece")) << run.err;
  const auto none = at_.taper({"train", "m.txt", "tokenizer=sentencepiece", "--out", "run2"});
  EXPECT_TRUE(contains(none.err, "needs a 'vocabulary': the model file of sentencepiece"))
      << none.err;
}

}  // namespace
}  // namespace taper::v0::runner
