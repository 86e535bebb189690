// Runs that start from a file of weights, freeze parts of the model, and have learning rates by
// part.
#include <algorithm>
#include <cstdlib>

#include <gtest/gtest.h>

#include "apps/runner/base/errors.h"
#include "apps/runner/components/components.h"
#include "apps/runner/settings/run_config.h"
#include "apps/runner/train/train.h"
#include "framework/distributed/communicator.h"
#include "framework/factory/factories.h"
#include "framework/io/pt.h"
#include "framework/io/safetensors.h"
#include "modules/models/gpt.h"
#include "modules/models/names.h"
#include "modules/models/resnet.h"
#include "tests/runner/run_process.h"
#include "tests/testing.h"

namespace taper::v0::runner {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

constexpr const char* kBase =
    "device: cpu\n"
    "threads: 1\n"
    "data: {type: digits, train_size: 60, test_size: 20}\n"
    "log: {console: true}\n";

// A model with two batch norms, so that frozen statistics matter.
constexpr const char* kModel =
    "type: sequential, layers: [conv2d: {out_channels: 4, kernel_size: 3}, batch_norm2d, relu, "
    "conv2d: {out_channels: 4, kernel_size: 3}, batch_norm2d, relu, flatten, linear: 10]";

class PretrainedRuns : public ::testing::Test {
 protected:
  // Writes NAME.yaml with the common sections and `rest`.
  void write(const std::string& name, const std::string& rest) const {
    write_bytes(at_ / (name + ".yaml"), kBase + rest);
  }
  RunDirectory::Outcome train(const std::string& name, Words more = {}) const {
    Words words{"train", name + ".yaml", "--out", name};
    words.insert(words.end(), more.begin(), more.end());
    return at_.taper(words);
  }
  std::vector<NamedTensor> weights(const std::string& run) const {
    return load_safetensors((at_ / (run + "/model.safetensors")).string()).tensors;
  }
  void expect_same(const std::string& a, const std::string& b) const {
    for (const std::string file : {"metrics.jsonl", "model.safetensors"}) {
      const std::string x = read_bytes(at_ / concat_to_string(a, "/", file));
      EXPECT_NE(x, "") << a << "/" << file;
      EXPECT_TRUE(x == read_bytes(at_ / concat_to_string(b, "/", file))) << a << ", " << b << file;
    }
  }
  static bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  }

  RunDirectory at_;
};

TEST_F(PretrainedRuns, AResNetStartsFromTorchvisionsNames) {
  manual_seed(1);
  const ResNet made = resnet18({.num_classes = 1000, .in_channels = 1, .width = 4});
  save_pt((at_ / "resnet18.pth").string(), made.state_dict());
  write(
      "tune",
      "model: {type: resnet18, width: 4, init: resnet18.pth, freeze: [conv1, bn1, \"layer1.*\"]}\n"
      "optimizer: {type: adamw, lr: {\"fc.*\": 1e-2, \"*\": 1e-4}, weight_decay: 0.1}\n"
      "train: {epochs: 1, batch_size: 20}\n");
  const auto run = train("tune");
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_TRUE(has(run.err, "init: resnet18.pth: 120 of the model's 122 tensors loaded")) << run.err;
  EXPECT_TRUE(has(run.err, "new weights for fc: fc.weight is [1000, 32] in the file")) << run.err;
  EXPECT_TRUE(has(run.err, "frozen: conv1, bn1, layer1 (15 of 62 parameters")) << run.err;
  EXPECT_TRUE(has(run.err, "learning rates: 0.01 for fc.*, 1e-04 for all others")) << run.err;
  const std::string env = read_bytes(at_ / "tune/env.json");
  EXPECT_TRUE(has(env, "\"init\"") && has(env, "\"resnet18.pth\"") && has(env, "crc32")) << env;
  std::vector<NamedTensor> before = made.state_dict();
  for (const auto& [name, x] : weights("tune")) {
    const auto old = std::ranges::find(before, name, &NamedTensor::name);
    const bool is_frozen =
        name.starts_with("conv1") || name.starts_with("bn1") || name.starts_with("layer1");
    if (!is_frozen) continue;
    EXPECT_TRUE(test::same_bits(x, old->tensor)) << name;  // running statistics included
  }
  // The file is not needed any more.
  fs::remove(at_ / "resnet18.pth");
  const auto eval = at_.taper({"eval", "tune"});
  EXPECT_EQ(eval.code, 0) << eval.err;
  const auto again = train("tune", {"--resume", "last", "train.epochs=2"});
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(read_bytes(at_ / "tune/env.json").find("\"init\"") != std::string::npos, true);
  const auto fresh = at_.taper({"train", "tune.yaml", "--out", "fresh"});
  EXPECT_EQ(fresh.code, kExitInput) << fresh.err;
  EXPECT_TRUE(has(fresh.err, "there is no file 'resnet18.pth'")) << fresh.err;
}

// The layout of the published weights: matrices [in, out], names without a prefix, masks, and more
// positions than the run.
TEST_F(PretrainedRuns, AGptStartsFromTheFileOfGpt2) {
  manual_seed(2);
  const GPT made({.vocab_size = 31,
                  .block_size = 12,
                  .n_layer = 2,
                  .n_head = 2,
                  .n_embd = 16,
                  .gelu = "tanh"});
  std::vector<NamedTensor> own = made.state_dict(), published;
  for (const auto& [name, x] : kHuggingFaceGpt2.from_taper(own)) {
    constexpr std::string_view kPrefix = "transformer.";
    if (!name.starts_with(kPrefix)) continue;
    published.push_back({name.substr(kPrefix.size()), x.contiguous()});
  }
  published.push_back({"h.0.attn.bias", ones({1, 1, 12, 12})});
  for (NamedTensor& t : own) {
    if (t.name == "transformer.wpe.weight") t.tensor = t.tensor.narrow(0, 0, 8).contiguous();
  }
  fs::create_directories(at_ / "gpt2");
  save_safetensors((at_ / "gpt2/model.safetensors").string(), published);
  save_safetensors((at_ / "own.safetensors").string(), own);
  std::string text;
  for (int i = 0; i < 400; ++i) text += "abcdefghijklmnopqrstuvwxyz \n.,!"[i * 7 % 31];
  write_bytes(at_ / "t.txt", text);
  const auto config = [&](const std::string& name, const std::string& init,
                          const std::string& gelu) {
    write_bytes(at_ / (name + ".yaml"),
                concat_to_string("device: cpu\nthreads: 1\n"
                                 "data: {type: text, path: t.txt, block_size: 8}\n"
                                 "model: {type: gpt, n_layer: 2, n_head: 2, n_embd: 16, gelu: ",
                                 gelu, ", init: ", init,
                                 "}\noptimizer: {type: sgd, lr: 1e-30}\n"
                                 "train: {steps: 1, batch_size: 4}\nlog: {console: true}\n"));
  };
  config("published", "gpt2/model.safetensors", "tanh");
  config("own", "own.safetensors", "tanh");
  config("other", "gpt2/model.safetensors", "none");
  const auto run = train("published"), same = train("own"), other = train("other");
  ASSERT_EQ(run.code, 0) << run.err;
  ASSERT_EQ(same.code, 0) << same.err;
  EXPECT_TRUE(has(run.err,
                  "the file has the layout of GPT-2 of Hugging Face's transformers: 8 "
                  "matrices were transposed"))
      << run.err;
  EXPECT_TRUE(has(run.err, "has 12 positions in the file, of which the first 8 are used"));
  EXPECT_FALSE(has(run.err, "not in the")) << run.err;
  EXPECT_FALSE(has(run.err, "gelu")) << run.err;
  EXPECT_TRUE(has(other.err, "the weights of GPT-2 were trained with `gelu: tanh`")) << other.err;
  expect_same("published", "own");
}

// With a rate of almost nothing everywhere, the evaluation is that of the file's weights.
TEST_F(PretrainedRuns, StartsWhereAnotherRunEnded) {
  write("first", concat_to_string("model: {", kModel, "}\ntrain: {epochs: 2, batch_size: 20}\n"));
  ASSERT_EQ(train("first").code, 0);
  write("second", concat_to_string("model: {", kModel,
                                   ", init: first/model.safetensors, freeze: [\"0-4\"]}\n"
                                   "optimizer: {type: sgd, lr: 1e-30}\n"
                                   "train: {epochs: 1, batch_size: 20}\n"));
  const auto run = train("second");
  ASSERT_EQ(run.code, 0) << run.err;
  const auto a = at_.taper({"eval", "first"}), b = at_.taper({"eval", "second"});
  const auto numbers = [](const std::string& out) { return out.substr(out.find("loss")); };
  EXPECT_EQ(numbers(a.out), numbers(b.out));
}

constexpr const char* kThaw =
    "freeze: [\"0-5\"], unfreeze: {\"3-4\": 2, \"0\": 3}}\n"
    "optimizer: {type: adamw, lr: {\"7\": 3e-3, \"*\": 1e-3}, weight_decay: 0.1, no_decay: true}\n"
    "schedule: {type: cosine, min_lr: 1e-5, warmup: 2}\n"
    "train: {epochs: 4, batch_size: 20, ema: {decay: 0.9}, clip_norm: 1}\n"
    "checkpoint: {every: 1, keep: 30}\n";

TEST_F(PretrainedRuns, ThawingSurvivesResumeWithTheSameBits) {
  write("first", concat_to_string("model: {", kModel, "}\ntrain: {epochs: 1, batch_size: 20}\n"));
  ASSERT_EQ(train("first").code, 0);
  write("whole", concat_to_string("model: {", kModel, ", init: first/model.safetensors, ", kThaw));
  const auto whole = train("whole");
  ASSERT_EQ(whole.code, 0) << whole.err;
  EXPECT_TRUE(has(whole.err, "frozen: 0, 1, 3, 4 (8 of 10 parameters")) << whole.err;
  EXPECT_TRUE(has(whole.err, "epoch 2 begins to train 3-4; frozen: 0, 1 (4 of 10 parameters"));
  EXPECT_TRUE(has(whole.err, "epoch 3 begins to train 0; frozen: 1 (2 of 10 parameters"));
  // Steps 2 to 9 are within and at the ends of the epochs that thaw.
  for (int step = 2; step <= 10; ++step) {
    const std::string name = concat_to_string("part", step), out = concat_to_string("out", step);
    const fs::path checkpoint = at_ / concat_to_string("whole/checkpoints/step_", step);
    fs::path found;
    for (const auto& entry : fs::directory_iterator(at_ / "whole/checkpoints")) {
      const std::string file = entry.path().filename();
      const size_t digit = file.find_first_of("0123456789");
      if (digit != file.npos && std::stoi(file.substr(digit)) == step) found = entry.path();
    }
    ASSERT_FALSE(found.empty()) << step;
    const auto run = at_.taper({"train", "whole.yaml", "--out", out, "--resume", found.string()});
    ASSERT_EQ(run.code, 0) << run.err;
    expect_same("whole", out);
  }
  // What stays frozen has the file's values, and what was thawed does not.
  const std::vector<NamedTensor> before = weights("first"), after = weights("whole");
  for (size_t i = 0; i < before.size(); ++i) {
    const bool is_frozen = before[i].name.starts_with("1.");
    EXPECT_EQ(test::same_bits(before[i].tensor, after[i].tensor), is_frozen) << before[i].name;
  }
}

TEST_F(PretrainedRuns, RanksThawTogether) {
  if (!distributed::Communicator::unavailable_reason().empty() ||
      std::system("command -v mpirun >/dev/null") != 0) {
    GTEST_SKIP() << "needs MPI: " << distributed::Communicator::unavailable_reason();
  }
  write("ranks", concat_to_string("model: {", kModel,
                                  ", freeze: [\"0-4\"], unfreeze: {\"3-4\": 2, \"0\": 3}}\n"
                                  "train: {epochs: 4, batch_size: 20, shards: 2}\n"));
  ASSERT_EQ(at_.taper({"train", "ranks.yaml", "--out", "one"}).code, 0);
  for (const std::string sharded : {"false", "true"}) {
    const auto two = at_.taper({"train", "ranks.yaml", "--out", "two" + sharded, "--ranks", "2",
                                "distributed.shard_optimizer=" + sharded});
    ASSERT_EQ(two.code, 0) << two.err;
    expect_same("one", "two" + sharded);
  }
}

TEST_F(PretrainedRuns, SchedulesScaleEachRate) {
  const char* const schedules[] = {
      "cosine, min_lr: 1e-4",
      "one_cycle, max_lr: 0.01",
      "step, step_size: 2",
      "plateau, patience: 0, threshold: 1e6, threshold_mode: abs, min_lr: 1e-3",
      "cyclic, base_lr: 1e-4, step_size_up: 2",
      "linear, warmup: 3"};
  for (const std::string schedule : schedules) {
    const auto rates = [&](const std::string& lr) {
      const std::string yaml = concat_to_string(
          kBase, "model: {type: mlp, hidden: [4]}\noptimizer: {type: sgd, lr: ", lr,
          "}\nschedule: {type: ", schedule,
          "}\ntrain: {epochs: 2, batch_size: 20, eval_every: 1}\n",
          "checkpoint: {every: 1, keep: 9}\n");
      RunConfig config = load_config_text(yaml);
      config.log.console = false;
      const fs::path out = at_ / "rates";
      fs::remove_all(out);
      (void)runner::train(config, out);
      std::vector<std::vector<double>> all;
      for (int step = 1; step <= 6; ++step) {
        for (const auto& entry : fs::directory_iterator(out / "checkpoints")) {
          const std::string file = entry.path().filename();
          const size_t digit = file.find_first_of("0123456789");
          if (digit == file.npos || std::stoi(file.substr(digit)) != step) continue;
          for (const NamedTensor& t :
               load_safetensors((entry.path() / "optimizer.safetensors").string()).tensors) {
            if (t.name == "schedule._last_lr") all.push_back(t.tensor.to_vector<double>());
          }
        }
      }
      return all;
    };
    const auto one = rates("0.01"), two = rates("{\"3.*\": 0.1, \"*\": 0.01}");
    ASSERT_EQ(one.size(), 6u) << schedule;
    ASSERT_EQ(two.size(), 6u) << schedule;
    for (size_t i = 0; i < one.size(); ++i) {
      ASSERT_EQ(two[i].size(), 2u);
      EXPECT_NEAR(two[i][0], one[i][0], 1e-12) << schedule << " step " << i + 1;
      EXPECT_NEAR(two[i][1], 10 * one[i][0], 1e-11) << schedule << " step " << i + 1;
    }
  }
}

struct RefusedConfig {
  const char* rule;
  std::string rest;
  int code;
  const char* message;
};

TEST_F(PretrainedRuns, RefusesWhatDoesNotFit) {
  save_pt((at_ / "other.pt").string(), {{"a.weight", ones({2})}});
  save_pt((at_ / "fits.pt").string(), {{"1.weight", ones({4, 784})}});
  write_bytes(at_ / "text.pt", "not a file of weights");
  write_bytes(at_ / "empty.pt", "");
  const std::string train = "\ntrain: {epochs: 1}\n";
  const auto model = [&](const std::string& keys) {
    return "model: {type: mlp, hidden: [4], " + keys + "}" + train;
  };
  const RefusedConfig rows[] = {
      {"a missing file", model("init: none.pt"), kExitInput, "there is no file 'none.pt'"},
      {"a folder", model("init: ."), kExitInput, "there is no file '.'"},
      {"no weights", model("init: text.pt"), kExitInput, "text.pt"},
      {"an empty file", model("init: empty.pt"), kExitInput, "empty.pt"},
      {"nothing fits", model("init: other.pt"), kExitInput, "nothing could be loaded"},
      {"an unused map", model("init: fits.pt, map: {\"x.*\": y}"), kExitConfig, "matches \"x.*\""},
      {"a map alone", model("map: {x: y}"), kExitConfig, "give model.init, too"},
      {"thawing alone", model("unfreeze: {\"1\": 2}"), kExitConfig, "needs model.freeze"},
      {"an unused pattern", model("freeze: [\"9.*\"]"), kExitConfig,
       "model.freeze: no parameter matches the pattern \"9.*\"; the model has 1, 3"},
      {"an unused thawing", model("freeze: [\"1\"], unfreeze: {\"3\": 2}"), kExitConfig,
       "the pattern \"3\" names no parameter that is frozen"},
      {"a shadowed thawing", model("freeze: [\"1\"], unfreeze: {\"1\": 2, \"1.*\": 3}"),
       kExitConfig, "the pattern \"1\" names no parameter"},
      {"epoch 0", model("freeze: [\"1\"], unfreeze: {\"1\": 0}"), kExitConfig, "at least 1"},
      {"everything", model("freeze: [\"*\"]"), kExitConfig, "would train nothing"},
      {"everything at first", model("freeze: [\"*\"], unfreeze: {\"3\": 2}"), kExitConfig,
       "would train nothing"},
      {"a rate", "model: {type: mlp}\noptimizer: {type: sgd, lr: {\"1\": 0}}" + train, kExitConfig,
       "a number above 0"},
      {"a word as rate", "model: {type: mlp}\noptimizer: {type: sgd, lr: {\"*\": high}}" + train,
       kExitConfig, "optimizer.lr"},
      {"an unused rate", "model: {type: mlp}\noptimizer: {type: sgd, lr: {\"9\": 0.1}}" + train,
       kExitConfig, "optimizer.lr: the pattern \"9\" names no parameter"},
      {"a frozen rate",
       "model: {type: mlp, freeze: [\"1\"]}\noptimizer: {type: sgd, lr: {\"1\": 0.1}}" + train,
       kExitConfig, "names no parameter that is trained"},
  };
  for (const auto& [rule, rest, code, message] : rows) {
    write("bad", rest);
    for (const bool validates : {false, true}) {
      const auto run = validates ? at_.taper({"train", "bad.yaml", "--validate"})
                                 : at_.taper({"train", "bad.yaml", "--out", "bad"});
      EXPECT_EQ(run.code, code) << rule << ": " << run.err;
      EXPECT_TRUE(has(run.err, message)) << rule << ": " << run.err;
      EXPECT_FALSE(fs::exists(at_ / "bad")) << rule;
    }
  }
}

}  // namespace
}  // namespace taper::v0::runner
