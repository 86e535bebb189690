// Mixed precision (https://pytorch.org/docs/stable/amp.html): scopes, gradients, and the cached
// low-precision weights. tests/interop/autocast_test.cpp tests the dtype of each op.
#include "autograd/autocast.h"

#include <gtest/gtest.h>

#include "autograd/activation_checkpoint.h"
#include "autograd/ops/binary_ops.h"
#include "autograd/ops/matmul_ops.h"
#include "autograd/ops/nn/conv_ops.h"
#include "autograd/ops/random_ops.h"
#include "autograd/ops/reduce_ops.h"
#include "autograd/ops/shape_ops.h"
#include "autograd/ops/unary_ops.h"
#include "framework/cuda/precision.h"
#include "framework/factory/factories.h"
#include "framework/factory/low_precision_cache.h"
#include "modules/layers/linear.h"
#include "optim/algorithms/adam.h"
#include "tests/testing.h"

namespace taper::v0::test {
namespace {

TEST(Autocast, EndsWithItsScopeAndCanBeOffForAPart) {
  const Tensor x = ones({2, 2});
  {
    const AutocastGuard guard(DeviceType::kCpu);
    EXPECT_EQ(mm(x, x).dtype(), kBFloat16);
    {
      const AutocastGuard off(DeviceType::kCpu, kBFloat16, false);
      EXPECT_EQ(mm(x, x).dtype(), kFloat32);
    }
    const AutocastGuard other(DeviceType::kCuda);
    EXPECT_EQ(mm(x, x).dtype(), kBFloat16);
  }
  EXPECT_EQ(mm(x, x).dtype(), kFloat32);
  EXPECT_TRUE(
      refuses<ValueError>([] { const AutocastGuard guard(DeviceType::kCpu, kFloat32); },
                          "Autocast only supports dtypes of bfloat16 and float16, got float32"));
}

TEST(Autocast, GivesFloat32GradientsOfTheProductsInHalf) {
  for (const Device device : all_devices()) {
    manual_seed(0);
    Linear layer(8, 4, {.device = device});
    const Tensor x = randn({3, 8}, {.device = device});
    Tensor y;
    {
      const AutocastGuard guard(device.type(), kBFloat16);
      y = layer(x);
      EXPECT_EQ(y.dtype(), kBFloat16);
      sum(y).backward();
    }
    const Tensor w = layer.weight->detach().to(kBFloat16), b = layer.bias->detach().to(kBFloat16);
    EXPECT_TRUE(same_bits(y.detach(), linear(x.to(kBFloat16), w, b)));
    EXPECT_EQ(layer.weight->grad().dtype(), kFloat32);
    const Tensor dy = ones({3, 4}, {.dtype = kBFloat16, .device = device});
    EXPECT_TRUE(same_bits(layer.weight->grad(), mm(dy.t(), x.to(kBFloat16)).to(kFloat32)));
  }
}

TEST(Autocast, KeepsTheHalfWeightsUntilTheWeightsChange) {
  for (const Device device : all_devices()) {
    Linear layer(4, 4, {.device = device});
    const Tensor& weight = layer.weight;
    const Tensor first = low_precision_copy(weight, kBFloat16);
    EXPECT_TRUE(low_precision_copy(weight, kBFloat16).is_same(first));
    const auto expect_fresh = [&](const char* after) {
      EXPECT_TRUE(same_bits(low_precision_copy(weight, kBFloat16), weight.detach().to(kBFloat16)))
          << after;
    };
    expect_fresh("nothing");
    {
      const NoGradGuard guard;
      weight.mul_(3);
    }
    expect_fresh("mul_");
    layer.to(kFloat64).to(kFloat32);
    expect_fresh("moves");
    layer.load_state_dict({{"weight", ones({4, 4})}, {"bias", ones({4})}});
    expect_fresh("load_state_dict");
    EXPECT_EQ(low_precision_copy(weight, kFloat16).dtype(), kFloat16);
  }
}

TEST(Autocast, OptimizersRefreshTheKeptWeightsInPlace) {
  for (const Device device : all_devices()) {
    Linear layer(5, 3, {.device = device});
    optim::AdamW optimizer(layer.parameters(), {.lr = 0.1});
    const Tensor x = ones({2, 5}, {.device = device, .requires_grad = true});
    const auto loss = [&] {
      const AutocastGuard guard(device.type(), kBFloat16);
      return sum(layer(x) * layer(x));
    };
    loss().backward();
    const Tensor kept = low_precision_copy(layer.weight, kBFloat16);
    for (int step = 0; step < 3; ++step) {
      optimizer.step();
      EXPECT_TRUE(low_precision_copy(layer.weight, kBFloat16).is_same(kept));
      EXPECT_TRUE(same_bits(kept, layer.weight->detach().to(kBFloat16)));
      loss().backward();
    }
    // The tape saved values of the previous step.
    const Tensor late = loss();
    optimizer.step();
    EXPECT_TRUE(refuses<Error>(
        [&] { late.backward(); },
        "one of the variables needed for gradient computation has been modified by an inplace"));
  }
}

TEST(Autocast, IsTheSameWhenACheckpointRunsAgain) {
  for (const Device device : all_devices()) {
    manual_seed(0);
    Linear layer(8, 8, {.device = device});
    const Tensor x = randn({4, 8}, {.device = device}).requires_grad_();
    Tensor gradients[2];
    for (const bool again : {false, true}) {
      const auto part = [&](const std::vector<Tensor>& in) { return softmax(layer(in[0]), 1); };
      Tensor y;
      {
        const AutocastGuard guard(device.type(), kBFloat16);
        y = again ? checkpoint(part, {x}) : part({x});
      }
      EXPECT_EQ(y.dtype(), kFloat32);
      layer.zero_grad();
      sum(y * y).backward();
      gradients[again] = layer.weight->grad();
    }
    EXPECT_TRUE(same_bits(gradients[0], gradients[1]));
  }
}

TEST(MatmulPrecision, RoundsToTf32OnlyOnAGpuAndOnlyWhenAsked) {
  EXPECT_EQ(get_float32_matmul_precision(), "highest");
  EXPECT_TRUE(
      refuses<ValueError>([] { set_float32_matmul_precision("low"); },
                          "set_float32_matmul_precision: expected highest or high, got 'low'"));
  for (const Device device : all_devices()) {
    // 1 + 2^-12 is rounded to 1 in TF32.
    const Tensor x = full({64, 64}, 1 + 0x1p-12, {.device = device});
    const Tensor one = ones({64, 64}, {.device = device});
    const Tensor image = x.view({1, 1, 64, 64}), pixel = ones({1, 1, 1, 1}, {.device = device});
    const Tensor exact = mm(x, one), convolved = conv2d(image, pixel);
    set_float32_matmul_precision("high");
    EXPECT_EQ(get_float32_matmul_precision(), "high");
    EXPECT_EQ(same_bits(mm(x, one), exact), device.is_cpu());
    (void)conv2d(image, pixel);
    set_float32_matmul_precision("highest");
    EXPECT_TRUE(same_bits(mm(x, one), exact));
    EXPECT_TRUE(same_bits(conv2d(image, pixel), convolved));
  }
}

}  // namespace
}  // namespace taper::v0::test
