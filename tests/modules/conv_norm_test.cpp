// Layers with parameters: initialization and training. (tests/interop tests what they compute.)
#include <cmath>

#include <gtest/gtest.h>

#include "autograd/autocast.h"
#include "autograd/ops/binary_ops.h"
#include "autograd/ops/nn/loss_ops.h"
#include "autograd/ops/shape_ops.h"
#include "framework/factory/factories.h"
#include "modules/layers/containers.h"
#include "modules/layers/conv_layers.h"
#include "modules/layers/linear.h"
#include "modules/layers/norm_layers.h"
#include "modules/layers/stateless.h"
#include "optim/algorithms/adam.h"
#include "tests/testing.h"

namespace taper::v0::test {
namespace {

void expect_uniform_within(const Module& layer, double bound) {
  for (const Tensor& t : layer.parameters()) {
    double largest = 0;
    for (const double v : values_of(t)) largest = std::max(largest, std::abs(v));
    EXPECT_LE(largest, bound);
    EXPECT_GT(largest, bound * 0.9);
  }
}

TEST(Conv2d, StartsUniformWithinOneOverTheRootOfItsInputs) {
  manual_seed(0);
  const Conv2d layer(16, 32, {5, 3}, {.groups = 2});
  EXPECT_EQ(layer.weight->shape(), (Shape{32, 8, 5, 3}));
  expect_uniform_within(layer, 1 / std::sqrt(8.0 * 5 * 3));
}

TEST(Conv3d, StartsUniformWithinOneOverTheRootOfItsInputs) {
  manual_seed(0);
  const Conv3d layer(16, 32, {5, 3, 2}, {.groups = 2});
  EXPECT_EQ(layer.weight->shape(), (Shape{32, 8, 5, 3, 2}));
  expect_uniform_within(layer, 1 / std::sqrt(8.0 * 5 * 3 * 2));
  const ConvTranspose3d transposed(32, 16, {1, 3, 2}, {.groups = 2});
  EXPECT_EQ(transposed.weight->shape(), (Shape{32, 8, 1, 3, 2}));
  expect_uniform_within(transposed, 1 / std::sqrt(8.0 * 3 * 2));
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
    // A refused batch is not counted.
    layer.train();
    EXPECT_THROW((void)layer(ones({2, 3, 1, 1}, {.device = device})), Error);
    EXPECT_EQ(layer.num_batches_tracked->item<int64_t>(), 1);
  }
}

TEST(BatchNorm, TakesItsStatisticsFromOnePassOverBatches) {
  for (const Device device : all_devices()) {
    Sequential net(BatchNorm1d(3, {.device = device}), Dropout(0.9));
    net.at<BatchNorm1d>(0).eval();
    std::vector<std::pair<Tensor, Tensor>> batches;
    Tensor mean, var;
    for (int i = 1; i <= 3; ++i) {
      const Tensor x = randn({8, 3}, {.device = device}) * double(i) + double(i);
      batches.push_back({x, x});
      const Tensor m = x.mean({0}), v = square(x - m).sum({0}) / 7;
      mean = i == 1 ? m : mean + m;
      var = i == 1 ? v : var + v;
    }
    (void)net(batches[0].first);
    update_bn(batches, net);
    const BatchNorm1d& norm = net.at<BatchNorm1d>(0);
    EXPECT_TRUE(close(norm.running_mean, mean / 3, 1e-5));
    EXPECT_TRUE(close(norm.running_var, var / 3, 1e-5));
    EXPECT_EQ(norm.num_batches_tracked->item<int64_t>(), 3);
    EXPECT_EQ(norm.momentum.value(), 0.1);
    EXPECT_FALSE(norm.is_training());
    EXPECT_TRUE(net.is_training() && net[1].is_training());
  }
}

// Volumes with a bright plane, whose position is the class, are told apart by a network of volumes
// that a Sequential runs with fused activations, in float32 and under autocast.
TEST(Conv3d, LearnsWhereAPlaneOfAVolumeIs) {
  for (const Device device : all_devices()) {
    for (const bool in_half : {false, true}) {
      manual_seed(3);
      Sequential net(Conv3d(1, 8, 3, {.padding = 1, .device = device}), ReLU(),
                     Conv3d(8, 8, 3, {.stride = {2, 1, 2}, .device = device}), GELU(),
                     ConvTranspose3d(8, 4, 2, {.stride = 2, .device = device}), Flatten(),
                     Linear(4 * 4 * 6 * 4, 4, {.device = device}));
      optim::Adam optimizer(net.parameters(), {.lr = 1e-2});
      Tensor x = randn({8, 1, 5, 5, 5}) * 0.1;
      for (int64_t i = 0; i < 8; ++i) x[i].select(1, i % 4).add_(1);
      x = x.to(device);
      const Tensor target = tensor({0, 1, 2, 3, 0, 1, 2, 3}).to(device);
      float loss_value = 0;
      for (int step = 0; step < 30; ++step) {
        optimizer.zero_grad();
        const AutocastGuard half(device.type(), kBFloat16, in_half);
        const Tensor loss = cross_entropy(net(x), target);
        loss.backward();
        optimizer.step();
        loss_value = loss.item<float>();
      }
      EXPECT_LT(loss_value, 0.05) << to_string(device);
    }
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
  const Embedding padded(4, 3, {.padding_idx = -1});
  EXPECT_TRUE(close((*padded.weight)[3], zeros({3}), 0));
  EXPECT_EQ(padded.padding_idx, 3);
}

// A small network of all of these layers learns one batch by heart on every device, also if it is
// moved halfway, after its optimizer was created.
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
}  // namespace taper::v0::test
