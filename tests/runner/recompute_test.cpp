// Runs with train.recompute: the same bytes as without it, less memory, and what is refused.
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "apps/runner/base/errors.h"
#include "apps/runner/components/components.h"
#include "apps/runner/train/train.h"
#include "apps/runner/train/validate.h"
#include "modules/models/gpt.h"
#include "tests/runner/run_process.h"
#include "tests/runner/same_runs.h"
#include "tests/text.h"

namespace taper::v0::runner {
namespace {

namespace fs = std::filesystem;

struct RecomputedCase {
  const char* name;
  std::vector<std::string> settings;
};

class RecomputedRun : public ::testing::Test {
 protected:
  RecomputedRun() {
    std::string text;
    for (int i = 0; i < 300; ++i) text += concat_to_string("line ", i * i % 97, " of a text\n");
    write_bytes(at_ / "text.txt", text);
    write_bytes(
        at_ / "text.yaml",
        concat_to_string("device: cpu\nthreads: 1\n"
                         "data: {type: text, path: ",
                         (at_ / "text.txt").string(),
                         ", block_size: 16}\n"
                         "model: {type: gpt, n_layer: 3, n_head: 2, n_embd: 16, dropout: 0.2}\n"
                         "optimizer: {type: adamw, lr: 0.01}\n"
                         "train:\n  steps: 6\n  batch_size: 8\n  eval_every: 3\n"
                         "checkpoint: {every: 2}\n"));
  }
  RunConfig config(std::vector<std::string> more) const {
    return load_config(at_ / "text.yaml", more);
  }
  static std::vector<std::string> recomputed(std::vector<std::string> settings) {
    settings.push_back("train.recompute=block");
    return settings;
  }
  void expect_same(const std::string& a, const std::string& b) const {
    expect_same_runs(at_ / a, at_ / b);
  }

  RunDirectory at_;
};

TEST_F(RecomputedRun, WritesTheBytesOfARunWithoutIt) {
  const RecomputedCase cases[] = {
      {"fp32", {}},
      {"bf16", {"train.precision=bf16", "train.clip_norm=1"}},
      {"fp16", {"train.precision=fp16", "train.on_nan=skip"}},
      {"averages", {"train.ema={decay: 0.9}", "train.accumulate=2"}},
      {"shards", {"train.shards=4"}},
      {"muon", {"optimizer={type: muon, lr: 0.01}", "model.n_layer=1"}},
  };
  for (const RecomputedCase& row : cases) {
    SCOPED_TRACE(row.name);
    train(config(row.settings), at_ / concat_to_string(row.name, "_kept"));
    train(config(recomputed(row.settings)), at_ / concat_to_string(row.name, "_again"));
    expect_same(concat_to_string(row.name, "_kept"), concat_to_string(row.name, "_again"));
  }
}

TEST_F(RecomputedRun, ResumesWithAndWithoutIt) {
  train(config({}), at_ / "whole");
  for (const bool first : {false, true}) {
    const std::string parts = first ? "first" : "second";
    train(config(first ? recomputed({}) : std::vector<std::string>{}), at_ / parts, {.stop_at = 3});
    train(config(first ? std::vector<std::string>{} : recomputed({})), at_ / parts,
          {.resume = "auto"});
    expect_same("whole", parts);
  }
}

// Returns the MiB of the line of that name.
double mib_of(const std::string& text, const std::string& name) {
  std::smatch found;
  const bool has_line = std::regex_search(text, found, std::regex(name + " +([0-9.]+) MiB"));
  return has_line ? std::stod(found[1]) : -1;
}

TEST_F(RecomputedRun, ValidateCountsLessMemoryForActivations) {
  const std::vector<std::string> larger = {"model.n_layer=8", "model.n_embd=64",
                                           "train.batch_size=64"};
  const std::string kept = validate(config(larger));
  const std::string again = validate(config(recomputed(larger)));
  EXPECT_GT(mib_of(kept, "activations"), 2 * mib_of(again, "activations")) << kept << again;
  EXPECT_GT(mib_of(again, "activations"), 0) << again;
  EXPECT_EQ(mib_of(kept, "parameters"), mib_of(again, "parameters"));
}

TEST_F(RecomputedRun, AModelWithoutBlocksIsRefusedByName) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"mlp", "{type: digits, train_size: 40, test_size: 20}"},
      {"cnn", "{type: digits, train_size: 40, test_size: 20}"},
      {"resnet18", "{type: digits, train_size: 40, test_size: 20}"},
  };
  for (const auto& [type, data] : cases) {
    write_bytes(at_ / "digits.yaml",
                concat_to_string("device: cpu\ndata: ", data, "\nmodel: {type: ", type,
                                 "}\noptimizer: {type: sgd, lr: 0.1}\n"
                                 "train:\n  steps: 1\n  recompute: block\n"));
    const std::string message = concat_to_string(
        "digits.yaml:7:14: train.recompute: block computes the blocks of a gpt again, but the "
        "model '",
        type, "' has none; use a model of type gpt, or remove the key");
    const auto refusal = [&](auto use) -> std::string {
      try {
        use(load_config(at_ / "digits.yaml"));
      } catch (const ConfigError& error) {
        return error.what();
      }
      return "accepted";
    };
    const std::string by_validate = refusal([](const RunConfig& c) { (void)validate(c); });
    EXPECT_TRUE(contains(by_validate, message)) << by_validate;
    const std::string by_train = refusal([&](const RunConfig& c) { train(c, at_ / "run"); });
    EXPECT_TRUE(contains(by_train, message)) << by_train;
    EXPECT_FALSE(fs::exists(at_ / "run"));
  }
}

// A model of a user's program with blocks of a GPT in it.
struct WrappedOptions {
  template <class V> void describe(V&) {}
};
struct WrappedGpt : Cloneable<WrappedGpt> {
  explicit WrappedGpt(const GPTOptions& options) : inner(*this, "inner", options) {}
  Tensor forward(const Tensor& tokens) override { return inner(tokens); }
  Child<GPT> inner;
};

TEST_F(RecomputedRun, AModelOfAProgramMayContainAGpt) {
  register_model<WrappedOptions>("wrapped_gpt", [](const WrappedOptions&, const ModelSite& at) {
    return std::make_unique<WrappedGpt>(GPTOptions{.vocab_size = at.data.vocab_size(),
                                                   .block_size = at.data.input_shape[0],
                                                   .n_layer = 2,
                                                   .n_head = 2,
                                                   .n_embd = 16,
                                                   .dropout = 0.1,
                                                   .device = at.device});
  });
  train(config({"model={type: wrapped_gpt}"}), at_ / "kept");
  train(config(recomputed({"model={type: wrapped_gpt}"})), at_ / "again");
  expect_same("kept", "again");
}

}  // namespace
}  // namespace taper::v0::runner
