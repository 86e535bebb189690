// Trainings on batches of texts of similar length.
#include <string>

#include <gtest/gtest.h>

#include "tests/runner/run_process.h"
#include "tests/runner/same_runs.h"

namespace taper::v0::runner {
namespace {

class LengthGroupingRuns : public ::testing::Test {
 protected:
  // Writes 300 texts of 1 to 24 words and a config that trains on them.
  LengthGroupingRuns() {
    std::string rows = "text,y\n";
    for (int i = 0; i < 300; ++i) {
      for (int k = 0; k <= i * 7 % 24; ++k) rows += concat_to_string("w", (i + k) % 11, " ");
      rows += concat_to_string(",", i % 2, "\n");
    }
    write_bytes(at_ / "t.csv", rows);
    write_bytes(at_ / "c.yaml",
                "device: cpu\n"
                "data: {path: t.csv, text: text, target: y, length: 24}\n"
                "model: {type: lstm_classifier, embedding_dim: 8, hidden_size: 8}\n"
                "train: {epochs: 2, batch_size: 8}\n"
                "checkpoint: {every: 5, keep: 100}\n");
  }
  void train(const std::string& out, std::vector<std::string> more = {}) const {
    std::vector<std::string> words{"train", "c.yaml", "--out", out};
    words.insert(words.end(), more.begin(), more.end());
    const auto run = at_.taper(words);
    ASSERT_EQ(run.code, 0) << run.err;
  }

  RunDirectory at_;
};

TEST_F(LengthGroupingRuns, AResumedRunAndWorkersGiveTheSameBits) {
  train("whole");
  for (const char* steps : {"3", "17", "40"}) {
    const std::string name = concat_to_string("part", steps);
    train(name, {"--stop-after-steps", steps});
    train(name, {"--resume", "last"});
    expect_same_runs(at_ / "whole", at_ / name);
  }
  train("workers", {"data.workers=3"});
  expect_same_runs(at_ / "whole", at_ / "workers");
}

TEST_F(LengthGroupingRuns, TheOptionChangesTheBatches) {
  train("grouped");
  train("random", {"data.group_by_length=false"});
  EXPECT_NE(read_bytes(at_ / "grouped/model.safetensors"),
            read_bytes(at_ / "random/model.safetensors"));
  // The mean of embeddings gains nothing from it.
  for (const char* value : {"true", "false"}) {
    train(concat_to_string("bag_", value),
          {"model={type: bag_classifier}", concat_to_string("data.group_by_length=", value)});
  }
  EXPECT_EQ(read_bytes(at_ / "bag_true/model.safetensors"),
            read_bytes(at_ / "bag_false/model.safetensors"));
}

}  // namespace
}  // namespace taper::v0::runner
