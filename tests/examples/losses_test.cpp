// Programs of apps/examples compared with PyTorch's. Their models and training steps, in float64
// and with the same initial weights, reproduce the first 30 losses that tests/examples/losses.py
// has stored.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <sstream>

#include <gtest/gtest.h>
#include <taper/data/images/digits.h>
#include <taper/data/loader.h>
#include <taper/taper.h>

// Includes each program with its main renamed. Only main may end without a return, which is why the
// warning is disabled. All headers were included above, outside of the namespaces.
#pragma GCC diagnostic ignored "-Wreturn-type"
#define main run
namespace gcn_example {
#include "apps/examples/gcn.cpp"
}
namespace mnist_example {
#include "apps/examples/mnist.cpp"
}
namespace time_sequence_example {
#include "apps/examples/time_sequence.cpp"
}
namespace vision_transformer_example {
#include "apps/examples/vision_transformer.cpp"
}
namespace word_language_model_example {
#include "apps/examples/word_language_model.cpp"
}
#undef main

using namespace taper;

namespace {

// Sums in another order differ by 1e-16. Training amplifies this to 1e-15 in 30 steps, to 4e-14 for
// the Transformer, and to 4e-12 for LBFGS, which divides by differences of gradients. (Measured
// values; the tolerances are below.)
constexpr int kSteps = 30;

const Tensor& stored(const std::string& name) {
  static const SafeTensors file = load_safetensors(TAPER_LOSSES);
  for (const NamedTensor& t : file.tensors) {
    if (t.name == name) return t.tensor;
  }
  throw Error(concat_to_string("losses.safetensors has no ", name));
}

// Initializes the parameters by the same rule as losses.py.
template <class Model> Model& by_rule(Model& model) {
  model.to(kFloat64).eval();
  const NoGradGuard no_grad;
  for (const auto& [name, p] : model.named_parameters()) {
    const Tensor i = remainder(arange(1, p.numel() + 1) * 2654435761, int64_t{1} << 32);
    const Tensor x = i.to(kFloat64).view(p.shape()) / double(int64_t{1} << 31) - 1;
    const bool scales = name.size() >= 6 && name.substr(name.size() - 6) == "weight";
    if (p.dim() > 1) {
      p.copy_(x * std::sqrt(double(p.size(0)) / double(p.numel())));
    } else {
      p.copy_(0.1 * x + (scales ? 1 : 0));
    }
  }
  return model;
}

void expect_losses(const std::string& name, const std::vector<double>& losses, double tolerance) {
  const std::vector<double> expected = stored(name + ".losses").to_vector<double>();
  ASSERT_EQ(expected.size(), size_t(kSteps));
  ASSERT_GE(losses.size(), expected.size());
  double worst = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    worst = std::max(worst, std::abs(losses[i] - expected[i]) / expected[i]);
    EXPECT_NEAR(losses[i], expected[i], tolerance * expected[i]) << "step " << i;
  }
  std::cout << name << ": relative difference at most " << worst << "\n";
}

// The four stored batches in turn, scaled like PyTorch's ToTensor.
template <class Model>
std::vector<double> losses_of_images(Model& model, optim::Optimizer& optimizer,
                                     Tensor (&step)(Model&, optim::Optimizer&, const Tensor&,
                                                    const Tensor&)) {
  std::vector<double> losses;
  for (int i = 0; i < kSteps; ++i) {
    const Tensor images = stored("images")[i % 4].to(kFloat64) / 255;
    const Tensor loss = step(model, optimizer, images, stored("labels")[i % 4]);
    losses.push_back(loss.item<double>());
  }
  return losses;
}

TEST(ExamplesBesidePyTorch, Mnist) {
  mnist_example::Net net;
  optim::Adadelta optimizer(by_rule(net).parameters(), {.lr = 1});
  expect_losses("mnist", losses_of_images(net, optimizer, mnist_example::train_step), 1e-13);
}

TEST(ExamplesBesidePyTorch, VisionTransformer) {
  vision_transformer_example::ViT vit(64, 4, 3, 10, 0);
  optim::Adam optimizer(by_rule(vit).parameters(), {.lr = 1e-3});
  expect_losses("vision_transformer",
                losses_of_images(vit, optimizer, vision_transformer_example::train_step), 1e-13);
}

std::vector<double> losses_of_text(Module& model, double lr) {
  const Tensor text = stored("text");
  std::vector<double> losses;
  for (int i = 0; i < kSteps; ++i) {
    losses.push_back(word_language_model_example::train_step(model, text.narrow(0, 10 * i, 10),
                                                             text.narrow(0, 10 * i + 1, 10), lr)
                         .item<double>());
  }
  return losses;
}

TEST(ExamplesBesidePyTorch, WordLanguageModelLSTM) {
  word_language_model_example::RNNModel model(20, 64, 2, 0);
  expect_losses("lstm", losses_of_text(by_rule(model), 20), 1e-13);
}

TEST(ExamplesBesidePyTorch, WordLanguageModelTransformer) {
  word_language_model_example::TransformerModel model(20, 64, 2, 64, 2, 0);
  expect_losses("transformer", losses_of_text(by_rule(model), 5), 1e-12);
}

TEST(ExamplesBesidePyTorch, TimeSequence) {
  time_sequence_example::Sequence seq;
  optim::LBFGS optimizer(by_rule(seq).parameters(), {.lr = 0.8});
  const Tensor waves = stored("waves");
  std::vector<double> losses;
  while (losses.size() < size_t(kSteps)) {
    time_sequence_example::train_step(seq, optimizer, waves.narrow(1, 0, 39),
                                      waves.narrow(1, 1, 39),
                                      [&](double loss) { losses.push_back(loss); });
  }
  expect_losses("time_sequence", losses, 1e-10);
}

TEST(ExamplesBesidePyTorch, Gcn) {
  gcn_example::GCN gcn(20, 16, 3, 0);
  optim::Adam optimizer(by_rule(gcn).parameters(), {.lr = 0.01, .weight_decay = 5e-4});
  const SparseTensor adj = gcn_example::normalized(stored("adjacency"));
  std::vector<double> losses;
  for (int i = 0; i < kSteps; ++i) {
    const Tensor loss = gcn_example::train_step(gcn, optimizer, stored("features"), adj,
                                                stored("classes"), stored("known"));
    losses.push_back(loss.item<double>());
  }
  expect_losses("gcn", losses, 1e-13);
}

}  // namespace
