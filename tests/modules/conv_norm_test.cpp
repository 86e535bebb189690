// Conv2d, BatchNorm2d, LayerNorm and Embedding: what PyTorch 2.11 computes and prints.
#include <cmath>

#include <gtest/gtest.h>

#include "autograd/ops/binary.h"
#include "autograd/ops/loss.h"
#include "autograd/ops/shape.h"
#include "framework/factories.h"
#include "modules/activation.h"
#include "modules/conv.h"
#include "modules/embedding.h"
#include "modules/linear.h"
#include "modules/norm.h"
#include "modules/sequential.h"
#include "optim/adam.h"
#include "tests/testing.h"

namespace taper::test {
namespace {

TEST(Layers, PrintAsInPyTorch) {
  EXPECT_EQ(to_string(Conv2d(
                4, 8, {3, 1},
                {.stride = 2, .padding = {1, 0}, .dilation = 2, .groups = 2, .bias = false})),
            "Conv2d(4, 8, kernel_size=(3, 1), stride=(2, 2), padding=(1, 0), dilation=(2, 2), "
            "groups=2, bias=False)");
  EXPECT_EQ(to_string(BatchNorm2d(
                3, {.eps = 1e-3, .momentum = 0.2, .affine = false, .track_running_stats = false})),
            "BatchNorm2d(3, eps=0.001, momentum=0.2, affine=False, track_running_stats=False)");
  EXPECT_EQ(to_string(LayerNorm({2, 3}, {.elementwise_affine = false})),
            "LayerNorm((2, 3), eps=1e-05, elementwise_affine=False)");
}

TEST(Layers, WrongSizesAreRefused) {
  EXPECT_TRUE(refuses<ValueError>([] { return Conv2d(3, 4, 1, {.groups = 2}).type_name(); },
                                  "in_channels must be divisible by groups"));
  EXPECT_TRUE(refuses<ValueError>([] { return Conv2d(4, 3, 1, {.groups = 2}).type_name(); },
                                  "out_channels must be divisible by groups"));
  EXPECT_TRUE(refuses<ValueError>([] { return Conv2d(1, 1, 0).type_name(); },
                                  "Conv2d: channels, kernel_size and groups must be positive"));
  EXPECT_TRUE(refuses<ValueError>([] { return BatchNorm2d(0).type_name(); },
                                  "BatchNorm2d: num_features must be positive, got 0"));
  EXPECT_TRUE(refuses<ValueError>(
      [] {
        BatchNorm2d layer(2);
        return layer(ones({2, 2}));
      },
      "expected 4D input (got 2D input)"));
}

TEST(Conv2d, StartsUniformWithinOneOverTheRootOfItsInputs) {
  manual_seed(0);
  const Conv2d layer(16, 32, {5, 3}, {.groups = 2});
  EXPECT_EQ(layer.weight->shape(), (Shape{32, 8, 5, 3}));
  const double bound = 1 / std::sqrt(8.0 * 5 * 3);
  for (const Tensor& t : layer.parameters()) {
    double largest = 0;
    for (const double v : values_of(t)) largest = std::max(largest, std::abs(v));
    EXPECT_LE(largest, bound);
    EXPECT_GT(largest, bound * 0.9);
  }
}

TEST(Conv2d, ComputesWhatPyTorchComputes) {
  for (const Device device : all_devices()) {
    Conv2d layer(1, 2, 2, {.stride = 2, .padding = 1, .device = device});
    layer.weight = ((arange(8.) - 3) / 4).view({2, 1, 2, 2});
    layer.bias = tensor({0.5, -1.});
    const Tensor y = layer(arange(1., 10.).view({1, 1, 3, 3}).to(device));
    EXPECT_TRUE(close(y, {1, 2, 2, 2}, {0.5, 0, -1.5, -8.25, 0, 3.5, 8, 18.25}, 1e-6));
  }
}

TEST(BatchNorm2d, TracksStatisticsWhileTrainingAndUsesThemAfterwards) {
  for (const Device device : all_devices()) {
    BatchNorm2d layer(2, {.device = device});
    const Tensor x = arange(1., 13.).view({2, 2, 3, 1}).to(device), squares = x * x;
    EXPECT_TRUE(close(layer(squares), {2, 2, 3, 1},
                      {-1.0695169, -0.97421342, -0.81537431, -1.1535897, -0.97354966, -0.7535008,
                       0.45533875, 0.93185616, 1.4719092, 0.52678376, 0.94687712, 1.4069793},
                      1e-6));
    EXPECT_TRUE(close(*layer.running_mean, {2}, {3.4666669, 7.3666663}, 1e-6));
    EXPECT_TRUE(close(*layer.running_var, {2}, {119.80666, 300.76667}, 1e-6));
    EXPECT_EQ(layer.num_batches_tracked->item<int64_t>(), 1);
    layer.eval();
    EXPECT_TRUE(close(layer(squares), {2, 2, 3, 1},
                      {-0.22535646, 0.048725694, 0.50552928, 0.4978101, 1.0167627, 1.6510381,
                       4.1599579, 5.5303688, 7.0835009, 5.3413677, 6.5522571, 7.878469},
                      1e-6));
    EXPECT_EQ(layer.num_batches_tracked->item<int64_t>(), 1);
  }
}

TEST(LayerNorm, NormalisesTheLastDimensions) {
  for (const Device device : all_devices()) {
    LayerNorm layer({3}, {.device = device});
    EXPECT_TRUE(close(layer(tensor({{1., 2., 4.}}, {.device = device})), {1, 3},
                      {-1.0690414, -0.26726028, 1.3363018}, 1e-6));
    EXPECT_EQ(LayerNorm({3}, {.bias = false}).parameters().size(), 1u);
    EXPECT_TRUE(LayerNorm({3}, {.elementwise_affine = false}).parameters().empty());
  }
}

TEST(Embedding, TakesRowsOfANormalTable) {
  manual_seed(3);
  Embedding layer(1000, 20);
  double sum = 0, squares = 0;
  for (const double v : values_of(*layer.weight)) sum += v, squares += v * v;
  EXPECT_NEAR(sum / 20'000, 0, 0.03);
  EXPECT_NEAR(squares / 20'000, 1, 0.03);
  const Tensor y = layer(tensor({{7, 7}, {999, 0}}));
  EXPECT_EQ(y.shape(), (Shape{2, 2, 20}));
  EXPECT_TRUE(same_bits(y[1][0], (*layer.weight)[999]));
}

// A small network of all of them learns one batch by heart on every device, also when it moves
// there in the middle, its optimizer made before.
TEST(Layers, LearnTogetherAcrossAMove) {
  for (const Device device : all_devices()) {
    manual_seed(5);
    Sequential net(Conv2d(1, 8, 3, {.padding = 1}), BatchNorm2d(8), ReLU(), Conv2d(8, 4, 3),
                   LayerNorm({4, 4}), Flatten(), Linear(64, 3));
    optim::Adam optimizer(net.parameters(), {.lr = 1e-2});
    Tensor x = randn({6, 1, 6, 6}), target = tensor({0, 1, 2, 2, 1, 0});
    float loss_value = 0;
    for (int step = 0; step < 40; ++step) {
      if (step == 10) {
        net.to(device);
        x = x.to(device);
        target = target.to(device);
      }
      optimizer.zero_grad();
      const Tensor loss = cross_entropy(net(x), target);
      loss.backward();
      optimizer.step();
      loss_value = loss.item<float>();
    }
    EXPECT_LT(loss_value, 0.02) << to_string(device);
  }
}

}  // namespace
}  // namespace taper::test
