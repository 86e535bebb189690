// Layers: what they compute, how they are initialized, how they print.
#include <cmath>
#include <memory>

#include <gtest/gtest.h>

#include "autograd/ops/matmul_ops.h"
#include "autograd/ops/reduce_ops.h"
#include "autograd/ops/unary_ops.h"
#include "framework/factory/factories.h"
#include "modules/layers/containers.h"
#include "modules/layers/linear.h"
#include "modules/layers/loss_layers.h"
#include "modules/layers/repr.h"
#include "modules/layers/stateless.h"
#include "tests/testing.h"

namespace taper::v0::test {
namespace {

TEST(Mish, GivesPyTorchsValuesAndGradients) {
  for (const Device device : all_devices()) {
    Mish layer;
    EXPECT_EQ(to_string(layer), "Mish()");
    const Tensor x = tensor({-20., -2., -0.5, 0., 1., 3.}, {.dtype = kFloat32, .device = device});
    x.requires_grad_();
    const Tensor y = layer(x);
    sum(y).backward();
    EXPECT_TRUE(close(
        y, {6}, {-4.12230747e-08, -0.252501458, -0.22074376, 0, 0.865098357, 2.98653507}, 1e-6));
    EXPECT_TRUE(close(
        x.grad(), {6},
        {-3.91619217e-08, -0.108355105, 0.289510638, 0.600000024, 1.04903626, 1.02110696}, 1e-6));
  }
}

TEST(Linear, StartsUniformWithinOneOverTheRootOfItsInputs) {
  manual_seed(0);
  const Linear layer(100, 300);
  EXPECT_EQ(layer.weight->shape(), (Shape{300, 100}));
  EXPECT_EQ(layer.bias->shape(), (Shape{300}));
  double largest = 0, sum = 0, squares = 0;
  const std::vector<double> values = values_of(*layer.weight);
  for (const double w : values) {
    largest = std::max(largest, std::abs(w));
    sum += w;
    squares += w * w;
  }
  const double n = double(values.size());
  EXPECT_LE(largest, 0.1);
  EXPECT_GT(largest, 0.0999);
  EXPECT_NEAR(sum / n, 0, 0.002);
  EXPECT_NEAR(squares / n, 0.1 * 0.1 / 3, 1e-4);  // the variance of U(-0.1, 0.1)
  for (const double b : values_of(*layer.bias)) EXPECT_LE(std::abs(b), 0.1);
}

TEST(Linear, EqualSeedsGiveEqualLayersOnEveryDevice) {
  manual_seed(42);
  const Linear first(7, 5);
  for (const Device device : all_devices()) {
    manual_seed(42);
    const Linear again(7, 5, {.device = device});
    EXPECT_EQ(again.weight->device(), device);
    EXPECT_TRUE(same_bits(*first.weight, *again.weight)) << to_string(device);
    EXPECT_TRUE(same_bits(*first.bias, *again.bias)) << to_string(device);
  }
  manual_seed(43);
  EXPECT_FALSE(same_bits(*first.weight, *Linear(7, 5).weight));
}

TEST(Linear, ComputesItsFormulaWithAndWithoutBias) {
  Linear layer(3, 1);
  layer.weight = tensor({{0.1344, -0.1416, 0.2403}});
  layer.bias = tensor({-0.2868});
  const Tensor y = layer(tensor({{1, 2, 3}}, {.dtype = kFloat32}));
  EXPECT_TRUE(close(y, {1, 1}, {0.1344 - 2 * 0.1416 + 3 * 0.2403 - 0.2868}, 1e-6));
  EXPECT_STREQ(y.grad_fn(), "AddmmBackward0");
  Linear bare(3, 1, {.bias = false});
  EXPECT_FALSE(bare.bias.defined());
  EXPECT_EQ(bare.parameters().size(), 1u);
}

TEST(Dropout, ScalesWhatItKeepsAndIsSeeded) {
  for (const Device device : all_devices()) {
    Dropout layer(0.25);
    const Tensor x = ones({10'000}, {.device = device});
    manual_seed(3);
    const Tensor y = layer(x);
    const Tensor other = layer(x);
    manual_seed(3);
    EXPECT_TRUE(same_bits(layer(x), y));
    EXPECT_FALSE(same_bits(other, y));
    double kept = 0;
    for (const double v : values_of(y)) {
      EXPECT_TRUE(v == 0 || std::abs(v - 1 / 0.75) < 1e-6);
      kept += v != 0;
    }
    EXPECT_NEAR(kept / 10'000, 0.75, 0.02);
  }
}

TEST(Dropout2d, KeepsOrZeroesWholeChannels) {
  for (const Device device : all_devices()) {
    Dropout2d layer(0.25);
    const Tensor x = ones({100, 50, 3, 2}, {.device = device});
    manual_seed(3);
    const Tensor y = layer(x);
    manual_seed(3);
    EXPECT_TRUE(same_bits(layer(x), y));
    const std::vector<double> values = values_of(y);
    double kept = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_EQ(values[i], values[i / 6 * 6]);
      kept += values[i] != 0;
    }
    EXPECT_NEAR(kept / double(values.size()), 0.75, 0.02);
    layer.eval();
    EXPECT_TRUE(layer(x).is_same(x));
  }
}

// Without a batch dimension, the first dimension counts the channels.
TEST(Dropout3d, KeepsOrZeroesWholeChannels) {
  for (const Device device : all_devices()) {
    Dropout3d layer(0.25);
    for (const Shape& shape : {Shape{50, 40, 3, 2, 1}, {2000, 3, 2, 1}}) {
      const Tensor x = ones(shape, {.device = device}), y = layer(x);
      const std::vector<double> values = values_of(y);
      double kept = 0;
      for (size_t i = 0; i < values.size(); ++i) {
        EXPECT_EQ(values[i], values[i / 6 * 6]);
        kept += values[i] != 0;
      }
      EXPECT_NEAR(kept / double(values.size()), 0.75, 0.04);
      layer.eval();
      EXPECT_TRUE(layer(x).is_same(x));
      layer.train();
    }
  }
}

TEST(Dropout, WithProbabilityOneDropsEverything) {
  Dropout layer(1);
  EXPECT_TRUE(close(layer(ones({5})), zeros({5}), 0));
}

TEST(Layers, PrintNumbersAsPythonDoes) {
  const std::vector<std::pair<double, const char*>> cases = {{1, "1.0"},
                                                             {0.1, "0.1"},
                                                             {1e-4, "0.0001"},
                                                             {1e-5, "1e-05"},
                                                             {-2.5, "-2.5"},
                                                             {0, "0.0"},
                                                             {1e15, "1000000000000000.0"},
                                                             {1e16, "1e+16"},
                                                             {1e-300, "1e-300"},
                                                             {1.0 / 3, "0.3333333333333333"},
                                                             {INFINITY, "inf"}};
  for (const auto& [value, text] : cases) EXPECT_EQ(py(value), text);
  EXPECT_EQ(py(Shape{}), "()");
  EXPECT_EQ(py(std::optional<double>()), "None");
}

TEST(Losses, MoveTheirWeightsButNotTheCallersTensor) {
  const Tensor weight = tensor({1., 2.});
  CrossEntropyLoss loss({.weight = weight});
  loss.to(kFloat64);
  EXPECT_EQ(loss.named_buffers()[0].name, "weight");
  EXPECT_EQ(loss.named_buffers()[0].tensor.dtype(), kFloat64);
  EXPECT_EQ(weight.dtype(), kFloat32);
  EXPECT_EQ(loss(ones({3, 2}, {.dtype = kFloat64}), tensor({0, 1, 1})).dtype(), kFloat64);
}

TEST(Sequential, NamesItsChildrenByNumberAndPrintsAsInPyTorch) {
  Sequential net(Linear(784, 512), ReLU(), Dropout(0.5));
  EXPECT_EQ(to_string(net),
            "Sequential(\n"
            "  (0): Linear(in_features=784, out_features=512, bias=True)\n"
            "  (1): ReLU()\n"
            "  (2): Dropout(p=0.5, inplace=False)\n"
            ")");
  std::vector<std::string> names;
  for (const NamedTensor& p : net.named_parameters()) names.push_back(p.name);
  EXPECT_EQ(names, (std::vector<std::string>{"0.weight", "0.bias"}));
  EXPECT_EQ(net.size(), 3u);
}

TEST(Sequential, PrintsItsChildrenIndented) {
  Sequential inner(Linear(2, 2, {.bias = false}));
  Sequential net(std::move(inner), Tanh());
  EXPECT_EQ(to_string(net),
            "Sequential(\n"
            "  (0): Sequential(\n"
            "    (0): Linear(in_features=2, out_features=2, bias=False)\n"
            "  )\n"
            "  (1): Tanh()\n"
            ")");
  EXPECT_EQ(net.named_parameters()[0].name, "0.0.weight");
}

TEST(Sequential, CallsItsChildrenInOrder) {
  manual_seed(1);
  Sequential net(Linear(3, 4), Tanh(), Linear(4, 2));
  const Tensor x = ones({5, 3});
  EXPECT_TRUE(same_bits(net(x), net[2](tanh(net[0](x)))));
  EXPECT_EQ(to_string(Sequential()), "Sequential()");
  net.add(std::make_unique<Softmax>(1));
  EXPECT_EQ(net.size(), 4u);
  EXPECT_TRUE(close(net(x).sum({1}), ones({5}), 1e-6));
}

}  // namespace
}  // namespace taper::v0::test
