// Runs whose model is placed on several devices: the bytes of a run on one device, resuming on
// another placement, the memory by device, and what is refused. The devices are two CPU devices
// and, where there are two GPUs, these.
#include "apps/runner/settings/placement.h"

#include <regex>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "apps/runner/base/errors.h"
#include "apps/runner/base/string_utils.h"
#include "apps/runner/commands/commands.h"
#include "apps/runner/train/train.h"
#include "apps/runner/train/validate.h"
#include "framework/cuda/cuda.h"
#include "modules/onnx/onnx.h"
#include "tests/runner/run_process.h"
#include "tests/runner/same_runs.h"
#include "tests/testing.h"
#include "tests/text.h"

namespace taper::v0::runner {
namespace {

namespace fs = std::filesystem;

// A config, and two placements of its model. FIRST and SECOND are replaced by devices.
struct PlacedCase {
  const char* name;
  const char* yaml;
  const char* placement;
  const char* other_placement;
};

// Covers every kind of state of a step that may be on several devices: dropout, running statistics,
// a loss scale, averages, clipping, accumulation, weights of classes, bad steps.
constexpr PlacedCase kPlacedCases[] = {
    {"digits",
     "data: {type: digits, train_size: 300, test_size: 50}\n"
     "model: {type: sequential, layers: [conv2d: {out_channels: 4, kernel_size: 3}, batch_norm2d,\n"
     "        relu, flatten, dropout: 0.2, linear: 16, batch_norm1d, linear: 10]}\n"
     "optimizer: {type: adamw, lr: 0.003}\n"
     "schedule: {type: cosine, warmup: 5}\n"
     "train: {epochs: 2, batch_size: 32, accumulate: 3, clip_norm: 1, precision: fp16,\n"
     "        ema: {decay: 0.9}, eval_every: 3, on_nan: skip}\n"
     "checkpoint: {every: 2}\n"
     "metrics: [accuracy, confusion]\n",
     "{'5-7': SECOND}", "{'0-1': SECOND, '6': SECOND}"},
    {"text",
     "data: {type: text, path: text.txt, block_size: 16}\n"
     "model: {type: gpt, n_layer: 4, n_head: 2, n_embd: 16, dropout: 0.1}\n"
     "optimizer: {type: muon, lr: 0.01}\n"
     "schedule: {type: plateau, patience: 0, warmup: 3}\n"
     "train: {steps: 10, batch_size: 8, eval_every: 4, eval_batches: 2, precision: bf16,\n"
     "        best: {metric: loss}, clip_value: 0.1}\n"
     "checkpoint: {every: 3}\n"
     "metrics: [perplexity, bpc]\n",
     "{transformer.h.2-3: SECOND}",
     "{transformer: SECOND, lm_head: SECOND, transformer.h: FIRST, transformer.h.1: SECOND}"},
    {"rows",
     "data: {type: table, path: rows.csv, target: kind}\n"
     "model: {type: tabular, hidden: [16, 16], dropout: 0.1}\n"
     "loss: {type: cross_entropy, label_smoothing: 0.1}\n"
     "optimizer: {type: sgd, lr: 0.02, momentum: 0.9}\n"
     "train: {epochs: 3, batch_size: 16, on_nan: rollback, clip_norm: 0.5}\n"
     "checkpoint: {every: 4}\n",
     "{embeddings: SECOND}", "{layers: SECOND, embeddings.0: SECOND}"},
};

std::string replaced(const std::string& text, const std::pair<Device, Device>& devices) {
  const std::string with_first =
      std::regex_replace(text, std::regex("FIRST"), to_string(devices.first));
  return std::regex_replace(with_first, std::regex("SECOND"), to_string(devices.second));
}

class PlacedRun : public ::testing::Test {
 protected:
  PlacedRun() {
    std::string text, rows = "size,colour,kind\n";
    for (int i = 0; i < 300; ++i) {
      text += concat_to_string("line ", i * i % 97, " of a text\n");
      rows += concat_to_string(i % 23, ",", i % 3 == 0 ? "red" : "blue", ",",
                               i % 23 < 8 ? "small" : "large", "\n");
    }
    write_bytes(at_ / "text.txt", text);
    write_bytes(at_ / "rows.csv", rows);
  }

  // The config of a case. placement: with FIRST and SECOND; empty: none.
  RunConfig config(const PlacedCase& row, const std::pair<Device, Device>& devices,
                   const std::string& placement, std::vector<std::string> more = {}) const {
    const std::string file = concat_to_string(row.name, ".yaml");
    const std::string path = concat_to_string("path: ", (at_ / "").string());
    const std::string yaml = std::regex_replace(row.yaml, std::regex("path: "), path);
    write_bytes(at_ / file,
                concat_to_string("threads: 1\nname: run\ndevice: ", devices.first, "\n", yaml));
    if (!placement.empty()) more.push_back("model.placement=" + replaced(placement, devices));
    return load_config(at_ / file, more);
  }
  void expect_same(const std::string& a, const std::string& b) const {
    expect_same_runs(at_ / a, at_ / b);
  }

  RunDirectory at_;
};

TEST_F(PlacedRun, WritesTheBytesOfOneDevice) {
  for (const auto& devices : test::device_pairs()) {
    for (const PlacedCase& row : kPlacedCases) {
      SCOPED_TRACE(concat_to_string(row.name, " on ", devices.second));
      const std::string name = concat_to_string(row.name, devices.second.type());
      train(config(row, devices, ""), at_ / (name + "one"));
      train(config(row, devices, row.placement), at_ / (name + "two"));
      expect_same(name + "one", name + "two");
    }
  }
}

TEST_F(PlacedRun, ResumesOnAnotherPlacement) {
  for (const auto& devices : test::device_pairs()) {
    for (const PlacedCase& row : kPlacedCases) {
      SCOPED_TRACE(concat_to_string(row.name, " on ", devices.second));
      const std::string name = concat_to_string(row.name, devices.second.type());
      train(config(row, devices, row.placement), at_ / (name + "whole"));
      for (const std::string next : {row.other_placement, ""}) {
        const std::string parts = concat_to_string(name, "parts", next.size());
        train(config(row, devices, row.placement), at_ / parts, {.stop_at = 3});
        train(config(row, devices, next), at_ / parts, {.resume = "auto"});
        expect_same(name + "whole", parts);
      }
    }
  }
}

TEST_F(PlacedRun, CommandsOpenItOnItsDevices) {
  for (const auto& devices : test::device_pairs()) {
    const RunConfig text = config(kPlacedCases[1], devices, kPlacedCases[1].other_placement);
    train(text, at_ / "text");
    const SavedRun placed = open_run(at_ / "text", {});
    const SavedRun whole = open_run(at_ / "text", {"model.placement=null"});
    EXPECT_TRUE(placed.model->is_placed());
    EXPECT_FALSE(whole.model->is_placed());
    EXPECT_EQ(evaluate_run(placed), evaluate_run(whole));
    const GenerateOptions options{.prompt = "line", .tokens = 12, .seed = 3};
    EXPECT_EQ(generate(placed, options), generate(whole, options));

    train(config(kPlacedCases[2], devices, kPlacedCases[2].placement), at_ / "rows");
    const SavedRun rows = open_run(at_ / "rows", {});
    write_bytes(at_ / "new.csv", "size,colour\n3,red\n20,blue\n");
    EXPECT_EQ(predict(rows, at_ / "new.csv"),
              predict(open_run(at_ / "rows", {"model.placement=null"}), at_ / "new.csv"));
    if (has_onnx()) {
      EXPECT_TRUE(contains(export_run(rows, "onnx", at_ / "model.onnx"), "wrote"));
    }
    fs::remove_all(at_ / "text");
    fs::remove_all(at_ / "rows");
  }
}

// --- memory by device ---

// Returns the MiB on each device in the line of that name, after its total.
std::vector<double> mib_of(const std::string& text, const std::string& name) {
  std::vector<double> out;
  for (const std::string& line : lines_of(text)) {
    if (!line.starts_with(name)) continue;
    const std::string rest = line.substr(line.find("  on ") + 1);
    const std::regex number("([0-9.]+) MiB");
    for (std::sregex_iterator it(line.begin(), line.end(), number), end; it != end; ++it) {
      const bool is_note = std::size_t(it->position()) > 40 &&
                           std::size_t(it->position()) < line.size() - rest.size();
      if (!is_note) out.push_back(std::stod((*it)[1]));
    }
  }
  return out;
}

TEST_F(PlacedRun, ValidatePrintsTheMemoryOfEachDevice) {
  const auto devices = test::device_pairs().front();
  const std::string text = validate(config(kPlacedCases[1], devices, "{transformer.h.1-3: SECOND}",
                                           {"model.n_embd=256", "optimizer.type=adamw"}));
  for (const std::string name :
       {"parameters", "gradients", "optimizer state", "activations", "total"}) {
    const std::vector<double> mib = mib_of(text, name + "  ");
    ASSERT_EQ(mib.size(), 3u) << name << " in\n" << text;
    EXPECT_NEAR(mib[0], mib[1] + mib[2], 0.02) << name;
    // Three of four blocks are on the second device, and the logits on the first one.
    EXPECT_GT(mib[2], (name == "activations" ? 0.3 : 2) * mib[1]) << name;
  }
  EXPECT_TRUE(contains(text, "  on cpu ")) << text;
  EXPECT_TRUE(contains(text, ", cpu:1 ")) << text;
}

TEST_F(PlacedRun, TakesTheMemoryThatWasEstimated) {
  const auto devices = test::device_pairs().front();
  const RunConfig placed =
      config(kPlacedCases[1], devices, "{transformer.h.1-3: SECOND}",
             {"model.n_embd=256", "optimizer.type=adamw", "train.precision=fp32", "train.steps=4"});
  train(placed, at_ / "run");
  for (const std::string& line : lines_of(read_bytes(at_ / "run/timing.jsonl"))) {
    if (!contains(line, "\"memory\"")) continue;
    const double ratio = nlohmann::json::parse(line)["ratio"];
    EXPECT_GT(ratio, 0.8) << line;
    EXPECT_LT(ratio, 1.1) << line;
    return;
  }
  FAIL() << "no line about memory";
}

// --- refusals ---

struct RefusedPlacement {
  const char* placement;
  const char* message;
  std::vector<std::string> more = {};
};

TEST_F(PlacedRun, IsRefusedByNameBeforeItBegins) {
  const auto devices = test::device_pairs().front();
  const std::vector<RefusedPlacement> table = {
      {"{transformer.h.0-1: auto}",
       "model.placement.transformer.h.0-1: expected cpu, cuda, cpu:N or cuda:N with N from 0 to "
       "63"},
      {"{transformer.h.0-1: [cpu]}", "model.placement.transformer.h.0-1: expected cpu, cuda"},
      {"cuda:1", "model.placement: expected a map from names to cpu, cuda"},
      {"{transformer.h.0-1: SECOND}",
       "model.placement: cannot be used with train.shards",
       {"train.shards=2"}},
      {"{transformer.blocks.0-1: SECOND}",
       "model.placement: the pattern \"transformer.blocks.0-1\" matches no module: transformer has "
       "no module \"blocks\", but wte, wpe, drop, h, ln_f"},
      {"{transformer.h.2-4: SECOND}",
       "model.placement: the pattern \"transformer.h.2-4\" names a module with the number 4, which "
       "does not exist"},
      {"{transformer.h.0-1: SECOND, transformer.h.1-2: SECOND}",
       "model.placement: the patterns \"transformer.h.0-1\" and \"transformer.h.1-2\" both name "
       "transformer.h.1"},
      {"{lm_head: SECOND}",
       "model.placement: \"lm_head.weight\" belongs to two modules but is one tensor: "
       "transformer.wte is left on cpu, and lm_head is placed on cpu:1"},
  };
  for (const RefusedPlacement& row : table) {
    const auto refusal = [&](auto use) -> std::string {
      try {
        use(config(kPlacedCases[1], devices, row.placement, row.more));
      } catch (const ConfigError& error) {
        return error.what();
      }
      return "accepted";
    };
    const std::string by_validate = refusal([](const RunConfig& c) { (void)validate(c); });
    EXPECT_TRUE(contains(by_validate, row.message)) << by_validate;
    const std::string by_train = refusal([&](const RunConfig& c) { train(c, at_ / "run"); });
    EXPECT_TRUE(contains(by_train, row.message)) << by_train;
    EXPECT_FALSE(fs::exists(at_ / "run"));
  }
}

TEST_F(PlacedRun, SeveralRanksAreRefused) {
  const auto devices = test::device_pairs().front();
  const RunConfig placed = config(kPlacedCases[1], devices, kPlacedCases[1].placement);
  try {
    (void)validate(placed, 2);
    FAIL() << "accepted";
  } catch (const ConfigError& error) {
    EXPECT_TRUE(contains(error.what(),
                         "model.placement: a run on 2 ranks trains the whole model on each rank"))
        << error.what();
  }
}

TEST_F(PlacedRun, ADeviceThatDoesNotExistIsNamed) {
  const auto devices = test::device_pairs().front();
  const RunConfig placed = config(kPlacedCases[1], devices, "{transformer.h.0-1: cuda:63}");
  EXPECT_TRUE(contains(validate(placed), "cuda:63 "));  // it need not exist there
  try {
    train(placed, at_ / "run");
    FAIL() << "accepted";
  } catch (const DeviceUnavailable& error) {
    const std::string text = error.what();
    EXPECT_TRUE(contains(text,
                         "model.placement: cuda:63 of the pattern 'transformer.h.0-1' cannot "
                         "be used: "))
        << text;
  }
}

TEST_F(PlacedRun, RunsWithoutACudaGraphAndSaysSo) {
  if (cuda::device_count() < 2) GTEST_SKIP() << "needs two GPUs";
  const auto devices = test::device_pairs().back();
  train(config(kPlacedCases[1], devices, kPlacedCases[1].placement), at_ / "run");
  EXPECT_TRUE(contains(read_bytes(at_ / "run/log.txt"),
                       "steps run without a CUDA graph: model.placement puts the model on several "
                       "devices"));
}

TEST_F(PlacedRun, ItsConfigIsReadBack) {
  const auto devices = test::device_pairs().front();
  const RunConfig placed = config(kPlacedCases[1], devices, kPlacedCases[1].other_placement);
  const std::string yaml = to_yaml(placed);
  EXPECT_EQ(to_yaml(load_config_text(yaml)), yaml);
  EXPECT_EQ(load_config_text(yaml).model.placement, placed.model.placement);
  EXPECT_FALSE(contains(to_yaml(config(kPlacedCases[1], devices, "")), "placement"));
}

}  // namespace
}  // namespace taper::v0::runner
