// Whole models compared with PyTorch. models.py writes the files, and reads those that are saved
// here.
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>

#include <gtest/gtest.h>
#include <unistd.h>

#include "autograd/node.h"
#include "autograd/ops/binary_ops.h"
#include "autograd/ops/nn/loss_ops.h"
#include "framework/factory/factories.h"
#include "framework/io/safetensors.h"
#include "modules/models/gpt.h"
#include "modules/models/resnet.h"
#include "modules/models/text_classifiers.h"
#include "optim/algorithms/adam.h"
#include "optim/algorithms/sgd.h"
#include "optim/clip.h"
#include "tests/testing.h"

namespace taper::v0::test {
namespace {

constexpr double kLossTolerance = 1e-3;

// Returns pseudorandom integers in [0, high) by the same hash as models.py.
Tensor draw(int64_t seed, const Shape& shape, int64_t high) {
  std::vector<int64_t> values;
  for (int64_t i = 0; i < shape.numel(); ++i) {
    uint32_t x = uint32_t((seed * 1000003 + i) * 2654435761);
    x = (x ^ x >> 15) * 2246822519u;
    values.push_back((x ^ x >> 13) % high);
  }
  return tensor_of(values.data(), shape);
}

struct Batch {
  Tensor x, y;
};
Batch images(int64_t batch) {
  const Tensor y = draw(batch + 50, {32}, 10);
  const Tensor pattern = draw(200, {10, 3, 32, 32}, 2001)[y];
  const Tensor x = 7 * pattern + 3 * draw(batch, {32, 3, 32, 32}, 2001) - 10000;
  return {(x.to(kFloat64) / 10000).to(kFloat32), y};
}
Batch text(int64_t batch) {
  const Tensor tokens = draw(batch, {4, 17}, 65);
  return {tokens.narrow(1, 0, 16), tokens.narrow(1, 1, 16)};
}
Batch sentences(int64_t batch) { return {draw(batch, {8, 12}, 50), draw(batch + 50, {8}, 4)}; }

using ModulePtr = std::unique_ptr<Module>;
using OptimizerPtr = std::unique_ptr<optim::Optimizer>;

OptimizerPtr sgd(const Module& m) {
  return std::make_unique<optim::SGD>(
      m.parameters(), optim::SGDOptions{.lr = 2e-4, .momentum = 0.9, .weight_decay = 5e-4});
}
OptimizerPtr adam(const Module& m) {
  return std::make_unique<optim::Adam>(m.parameters(), optim::AdamOptions{.lr = 1e-3});
}
OptimizerPtr adamw(const Module& m) {
  return std::make_unique<optim::AdamW>(
      m.parameters(), optim::AdamWOptions{.lr = 1e-3, .betas = {0.9, 0.95}, .weight_decay = 0.1});
}

// A row of models.py's table.
struct Row {
  const char* name;
  std::function<ModulePtr(Device)> make;
  Batch (*batch)(int64_t);
  OptimizerPtr (*optimizer)(const Module&);
  double clip = 0;  // the norm to which gradients are clipped; 0: no clipping
};

template <class M, class Options> std::function<ModulePtr(Device)> model(Options options) {
  return [options](Device device) mutable -> ModulePtr {
    options.device = device;
    return std::make_unique<M>(options);
  };
}

const Row rows[] = {
    {"resnet18",
     [](Device device) -> ModulePtr {
       return std::make_unique<ResNet>(resnet18({.num_classes = 10, .width = 4, .device = device}));
     },
     images, sgd},
    {"gpt",
     model<GPT>(
         GPTOptions{.vocab_size = 65, .block_size = 24, .n_layer = 4, .n_head = 4, .n_embd = 32}),
     text, adamw, 1},
    {"lstm",
     model<LSTMClassifier>(LSTMClassifierOptions{.vocab_size = 50,
                                                 .num_classes = 4,
                                                 .embedding_dim = 16,
                                                 .hidden_size = 24,
                                                 .num_layers = 2}),
     sentences, adam},
    {"encoder",
     model<EncoderClassifier>(EncoderClassifierOptions{.vocab_size = 50,
                                                       .num_classes = 4,
                                                       .max_len = 16,
                                                       .d_model = 32,
                                                       .dim_feedforward = 64,
                                                       .dropout = 0}),
     sentences, adam},
    {"resnet50",
     [](Device device) -> ModulePtr {
       return std::make_unique<ResNet>(resnet50({.num_classes = 10, .width = 2, .device = device}));
     },
     images, sgd},
};

std::string file_of(const Row& row, const char* suffix, const std::string& folder) {
  return concat_to_string(folder, "/models_", row.name, suffix, ".safetensors");
}
// Returns the model with PyTorch's weights, which safetensors.torch.save_model wrote.
ModulePtr loaded(const Row& row, Device device, const std::string& folder = TAPER_INTEROP_DIR) {
  ModulePtr m = row.make(device);
  m->load_state_dict(load_safetensors(file_of(row, "", folder)).tensors);
  return m;
}
Tensor stored(const Row& row, const char* name, const std::string& folder = TAPER_INTEROP_DIR) {
  for (const NamedTensor& t : load_safetensors(file_of(row, ".run", folder)).tensors) {
    if (t.name == name) return t.tensor;
  }
  throw Error(concat_to_string(row.name, ": no '", name, "' is stored"));
}

Tensor input_for(const Module& m, const Tensor& x) {
  const Tensor like = m.parameters()[0];
  return x.is_floating_point() ? x.to(like.device(), like.dtype()) : x.to(like.device());
}
Tensor eval_logits(Module& m, const Tensor& x) {
  const NoGradGuard no_grad;
  const Tensor logits = m.eval()(input_for(m, x));
  m.train();
  return logits;
}

// The largest difference, relative to the largest value.
double distance(const Tensor& got, const Tensor& want) {
  const std::vector<double> a = values_of(got), b = values_of(want);
  double difference = a.size() == b.size() ? 0 : INFINITY, largest = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const double d = std::abs(a[i] - b[i]);
    difference = d <= difference ? difference : d;  // keeps a NaN
    largest = std::max(largest, std::abs(b[i]));
  }
  return difference / largest;
}

double train_step(const Row& row, Module& m, optim::Optimizer& optimizer, int step) {
  const Batch batch = row.batch(step % 4);
  const Tensor logits = m(input_for(m, batch.x));
  const Tensor loss = cross_entropy(logits.flatten(0, -2), input_for(m, batch.y).flatten());
  optimizer.zero_grad();
  loss.backward();
  if (row.clip > 0) (void)optim::clip_grad_norm_(m.parameters(), row.clip);
  optimizer.step();
  return loss.item<double>();
}

using BeforeStep = std::function<void(Module&, int step)>;
std::vector<double> losses_of(const Row& row, Module& m, int steps, const BeforeStep& before = {}) {
  const OptimizerPtr optimizer = row.optimizer(m);
  std::vector<double> losses;
  for (int step = 0; step < steps; ++step) {
    if (before) before(m, step);
    losses.push_back(train_step(row, m, *optimizer, step));
  }
  return losses;
}

testing::AssertionResult within(const std::vector<double>& got, const std::vector<double>& want,
                                double tolerance) {
  double worst = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double off = std::abs(got.at(i) - want[i]) / want[i];
    worst = off <= worst ? worst : off;  // keeps a NaN
  }
  return (worst <= tolerance ? testing::AssertionSuccess() : testing::AssertionFailure())
         << "a loss is off by " << worst << ", " << tolerance << " is allowed";
}

// GoogleTest prints the name of a failed instance with this function.
void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

class Models : public testing::TestWithParam<Row> {};
INSTANTIATE_TEST_SUITE_P(Interop, Models, testing::ValuesIn(rows),
                         [](const auto& row) { return std::string(row.param.name); });

TEST_P(Models, WeightsOfPyTorchGiveItsLogits) {
  const Tensor x = stored(GetParam(), "input");
  for (const Device device : all_devices()) {
    const ModulePtr m = loaded(GetParam(), device);
    EXPECT_LE(distance(eval_logits(*m, x), stored(GetParam(), "logits")), 1e-5)
        << to_string(device);
    m->to(kFloat64);
    EXPECT_LE(distance(eval_logits(*m, x), stored(GetParam(), "logits64")), 1e-10)
        << to_string(device);
  }
}

// `models.py check` loads the same files in PyTorch, from the folder TAPER_INTEROP_OUT.
TEST_P(Models, WeightsAreSavedForPyTorch) {
  namespace fs = std::filesystem;
  const char* wanted = std::getenv("TAPER_INTEROP_OUT");
  const fs::path folder =
      wanted ? fs::path(wanted)
             : fs::temp_directory_path() / concat_to_string("taper_models_", ::getpid());
  fs::create_directories(folder);
  manual_seed(11);
  const ModulePtr m = GetParam().make(Device());
  const OptimizerPtr optimizer = GetParam().optimizer(*m);
  for (int step = 0; step < 3; ++step) train_step(GetParam(), *m, *optimizer, step);
  save_safetensors(file_of(GetParam(), "", folder), m->state_dict(), {{"format", "pt"}});

  const Tensor x = stored(GetParam(), "input");
  const Tensor logits = eval_logits(*m, x);
  const Tensor logits64 = eval_logits(m->to(kFloat64), x);
  save_safetensors(file_of(GetParam(), ".run", folder),
                   {{"input", x}, {"logits", logits}, {"logits64", logits64}});

  const ModulePtr again = loaded(GetParam(), Device(), folder);
  EXPECT_TRUE(same_bits(eval_logits(*again, x), stored(GetParam(), "logits", folder)));
  if (!wanted) fs::remove_all(folder);
}

TEST_P(Models, AHundredStepsKeepToPyTorchsLosses) {
  const std::vector<double> want = values_of(stored(GetParam(), "losses"));
  ASSERT_EQ(want.size(), 100u);
  for (const Device device : all_devices()) {
    const ModulePtr m = loaded(GetParam(), device);
    EXPECT_TRUE(within(losses_of(GetParam(), *m, int(want.size())), want, kLossTolerance))
        << to_string(device);
  }
}

// Moves the model after a third of the steps, and back after two thirds. The optimizer is created
// before.
testing::AssertionResult goes_on_when_moved(const Row& row, Device device, DType dtype) {
  constexpr int kSteps = 60;
  const ModulePtr moved = loaded(row, Device()), unmoved = loaded(row, Device());
  const auto move = [&](Module& m, int step) {
    if (step == kSteps / 3) m.to(device, dtype);
    if (step == kSteps / 3 * 2) m.to(Device(), kFloat32);
  };
  return within(losses_of(row, *moved, kSteps, move), losses_of(row, *unmoved, kSteps),
                kLossTolerance);
}

TEST_P(Models, TrainingGoesOnAfterMovesToTheGpuAndBack) {
  if (skip_without_cuda()) return;
  EXPECT_TRUE(goes_on_when_moved(GetParam(), DeviceType::kCuda, kFloat32));
}

TEST_P(Models, TrainingGoesOnAfterCastsToDoubleAndBack) {
  EXPECT_TRUE(goes_on_when_moved(GetParam(), Device(), kFloat64));
}

TEST(ModelOptions, WhatCannotBeIsRefused) {
  EXPECT_TRUE(refuses<ValueError>([] { return GPT({.vocab_size = 8, .n_head = 5}), 0; },
                                  "GPT: n_embd must be divisible by n_head (got 768 and 5)"));
  GPT gpt({.vocab_size = 8, .block_size = 4, .n_layer = 1, .n_head = 1, .n_embd = 4});
  EXPECT_TRUE(refuses<ValueError>(
      [&] {
        return gpt(zeros({1, 5}, {.dtype = kInt64}));
      },
      "Cannot forward sequence of length 5, block size is only 4"));
  EXPECT_TRUE(refuses<ValueError>([&] { return gpt(zeros({4}, {.dtype = kInt64})); },
                                  "GPT: expected tokens [B, T], got [4]"));
  EncoderClassifier encoder({.vocab_size = 8, .num_classes = 2, .max_len = 4});
  EXPECT_TRUE(refuses<ValueError>(
      [&] {
        return encoder(zeros({1, 5}, {.dtype = kInt64}));
      },
      "EncoderClassifier: expected at most 4 tokens, got 5"));
}

TEST(ModelOptions, TheFullSizesHaveTheirKnownNumberOfParameters) {
  EXPECT_EQ(resnet18().num_parameters(), 11'689'512);
  EXPECT_EQ(resnet34().num_parameters(), 21'797'672);
  EXPECT_EQ(resnet50().num_parameters(), 25'557'032);
  EXPECT_EQ(resnet101().num_parameters(), 44'549'160);
  EXPECT_EQ(resnet152().num_parameters(), 60'192'808);
  // The size of one of the twelve layers of GPT-2. Its 124,439,808 parameters are those of the
  // layers, the embeddings and the last norm.
  constexpr int64_t kWidth = 768, kNorm = 2 * kWidth;
  constexpr int64_t kLayer = (124'439'808 - (50257 + 1024) * kWidth - kNorm) / 12;
  EXPECT_EQ(GPT({.vocab_size = 1, .block_size = 1, .n_layer = 1}).num_parameters(),
            2 * kWidth + kLayer + kNorm);
}

TEST(ModelOptions, GptWithoutBiasHasNone) {
  const GPT gpt(
      {.vocab_size = 8, .block_size = 4, .n_layer = 1, .n_head = 1, .n_embd = 4, .bias = false});
  for (const NamedTensor& t : gpt.state_dict()) EXPECT_FALSE(t.name.ends_with("bias")) << t.name;
}

TEST(ModelOptions, GptDropsOutWhileTrainingOnly) {
  GPT gpt(
      {.vocab_size = 8, .block_size = 4, .n_layer = 1, .n_head = 1, .n_embd = 4, .dropout = 0.5});
  const Tensor tokens = draw(1, {2, 4}, 8);
  EXPECT_FALSE(same_bits(gpt(tokens), gpt(tokens)));
  gpt.eval();
  EXPECT_TRUE(same_bits(gpt(tokens), gpt(tokens)));
}

// nanoGPT's initialization: N(0, 0.02), and N(0, 0.02 / sqrt(2 n_layer)) for the projections to the
// residual stream.
TEST(ModelOptions, GptIsDrawnAsNanoGptDraws) {
  manual_seed(3);
  const GPT gpt({.vocab_size = 64, .block_size = 64, .n_layer = 2, .n_head = 2, .n_embd = 64});
  for (const auto& [name, p] : gpt.named_parameters()) {
    const std::vector<double> values = values_of(p);
    double square = 0;
    for (const double v : values) square += v * v / double(values.size());
    const double std = name.ends_with("c_proj.weight") ? 0.01 : p.dim() == 2 ? 0.02 : 0;
    const double expected = std > 0 ? std : name.ends_with("bias") ? 0 : 1;
    EXPECT_NEAR(std::sqrt(square), expected, 0.05 * expected) << name;
  }
}

}  // namespace
}  // namespace taper::v0::test
