// Steps that run as CUDA graphs give the same bytes as steps without graphs.
#include <gtest/gtest.h>

#include "tests/runner/run_process.h"
#include "tests/testing.h"

namespace taper::v0::runner {
namespace {

struct GraphCase {
  const char* name;
  const char* yaml;
};

// Covers every kind of state of a step, and smaller batches at the end of an epoch. Averages with
// bfloat16 swap weights whose low-precision copies are cached.
constexpr GraphCase kGraphCases[] = {
    {"images",
     "data: {type: digits, train_size: 500, test_size: 50}\n"
     "model: {type: sequential, layers: [conv2d: {out_channels: 4, kernel_size: 3}, batch_norm2d,\n"
     "        relu, flatten, dropout: 0.2, linear: 10]}\n"
     "optimizer: {type: adamw, lr: 0.003}\n"
     "schedule: {type: cosine, warmup: 5}\n"
     "train: {epochs: 9, batch_size: 32, accumulate: 3, clip_norm: 1, precision: fp16,\n"
     "        ema: {decay: 0.9}, eval_every: 7}\n"},
    {"averages",
     "data: {type: digits, train_size: 500, test_size: 50}\n"
     "model: {type: mlp, hidden: [32, 16], dropout: 0.1}\n"
     "optimizer: {type: sgd, lr: 0.05, momentum: 0.9}\n"
     "train: {epochs: 6, batch_size: 64, precision: bf16, ema: {decay: 0.8}, eval_every: 3,\n"
     "        on_nan: skip, clip_value: 0.1}\n"},
    {"text",
     "data: {type: text, path: text.txt, block_size: 16, workers: 1}\n"
     "model: {type: gpt, n_layer: 2, n_head: 2, n_embd: 16, dropout: 0.1}\n"
     "optimizer: {type: adamw, lr: 0.01}\n"
     "schedule: {type: plateau, patience: 0, warmup: 3}\n"
     "train: {steps: 40, batch_size: 8, eval_every: 9, eval_batches: 2, precision: bf16,\n"
     "        best: {metric: loss}, log_every: 2}\n"},
    {"recomputed",
     "data: {type: text, path: text.txt, block_size: 16}\n"
     "model: {type: gpt, n_layer: 2, n_head: 2, n_embd: 16, dropout: 0.1}\n"
     "optimizer: {type: adamw, lr: 0.01}\n"
     "train: {steps: 20, batch_size: 8, precision: bf16, recompute: block}\n"},
    {"rows",
     "data: {type: csv, path: rows.csv, task: regression, on_device: never}\n"
     "model: {type: mlp, hidden: [64], dropout: 0.1}\n"
     "optimizer: {type: sgd, lr: 0.02, momentum: 0.9}\n"
     "train: {epochs: 8, batch_size: 8, on_nan: rollback}\n"},
};

class Graph : public ::testing::TestWithParam<GraphCase> {
 protected:
  Graph() {
    std::string text, rows = "a,b,y\n";
    for (int i = 0; i < 400; ++i) {
      text += concat_to_string("line ", i * i % 97, " of a text\n");
      rows += concat_to_string(i % 13, ",", i % 7 - 3, ",", (i % 13) * 2 - (i % 7) + 5, "\n");
    }
    write_bytes(at_ / "text.txt", text);
    write_bytes(at_ / "rows.csv", rows);
    write_bytes(at_ / "run.yaml", concat_to_string("device: cuda\n", GetParam().yaml));
  }

  void train(const std::string& out, std::vector<std::string> more) const {
    more.insert(more.begin(), {"train", "run.yaml", "--out", out});
    const RunDirectory::Outcome end = at_.taper(more);
    ASSERT_EQ(end.code, 0) << end.err;
  }
  void expect_same(const std::string& a, const std::string& b) const {
    for (const std::string file : {"metrics.jsonl", "model.safetensors"}) {
      const std::string x = read_bytes(at_ / concat_to_string(a, "/", file));
      EXPECT_NE(x, "");
      EXPECT_TRUE(x == read_bytes(at_ / concat_to_string(b, "/", file)))
          << a << " and " << b << ": " << file;
    }
  }
  bool log_has(const std::string& out, const std::string& part) const {
    return read_bytes(at_ / (out + "/log.txt")).find(part) != std::string::npos;
  }

  RunDirectory at_;
};

constexpr const char* kRuns = "steps run as a CUDA graph for batches [";

TEST_P(Graph, GivesTheBytesOfStepsThatRunAsTheyAre) {
  if (test::skip_without_cuda()) return;
  train("eager", {"train.graph=off"});
  train("graph", {});
  EXPECT_FALSE(log_has("eager", kRuns));
  EXPECT_TRUE(log_has("graph", kRuns)) << read_bytes(at_ / "graph/log.txt");
  expect_same("eager", "graph");
}

TEST_P(Graph, ARunThatIsResumedGoesOnWithTheSameBytes) {
  if (test::skip_without_cuda()) return;
  const std::vector<std::string> saves = {"checkpoint.every=5", "checkpoint.keep=100"};
  train("whole", saves);
  std::vector<std::string> resumed = saves;
  resumed.insert(resumed.end(), {"--resume", "whole/checkpoints/step-00000015"});
  train("parts", resumed);
  EXPECT_TRUE(log_has("parts", kRuns));
  expect_same("whole", "parts");
}

TEST_P(Graph, ProfiledStepsRunAsTheyAreWithTheSameBytes) {
  if (test::skip_without_cuda()) return;
  train("graph", {});
  train("profiled", {"train.profile={steps: [12, 14]}"});
  EXPECT_TRUE(log_has("profiled", kRuns));
  EXPECT_NE(read_bytes(at_ / "profiled/trace.json").find("\"GPU 0\""), std::string::npos);
  expect_same("graph", "profiled");
}

INSTANTIATE_TEST_SUITE_P(Cases, Graph, ::testing::ValuesIn(kGraphCases),
                         [](const auto& instance) { return std::string(instance.param.name); });

}  // namespace
}  // namespace taper::v0::runner
