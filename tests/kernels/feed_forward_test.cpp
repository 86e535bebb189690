// feed_forward: the bits of its two linear layers, also where the activation's result is not kept.
#include <gtest/gtest.h>

#include "autograd/engine.h"
#include "autograd/ops/binary_ops.h"
#include "autograd/ops/matmul_ops.h"
#include "autograd/ops/reduce_ops.h"
#include "framework/factory/factories.h"
#include "framework/memory/cpu_allocator.h"
#include "tests/testing.h"

namespace taper::v0::test {
namespace {

using Tensors = std::vector<Tensor>;

struct Operands {
  Tensor x, weight1, bias1, weight2, bias2;
  Tensors all() const {
    Tensors out{x, weight1, weight2};
    for (const Tensor& bias : {bias1, bias2}) {
      if (bias.defined()) out.push_back(bias);
    }
    return out;
  }
};

Operands operands(int64_t rows, int64_t wide, bool has_bias, Device device, DType dtype) {
  manual_seed(1);
  const auto leaf = [&](const Shape& shape) {
    return randn(shape, {.dtype = kFloat64}).to(device, dtype).detach().requires_grad_();
  };
  return {leaf({2, rows / 2, 8}), leaf({wide, 8}), has_bias ? leaf({wide}) : Tensor(),
          leaf({4, wide}), has_bias ? leaf({4}) : Tensor()};
}

Tensor fused(const Operands& o, Activation activation, int64_t max_kept_bytes = 0) {
  return feed_forward(o.x, o.weight1, o.bias1, o.weight2, o.bias2, activation, max_kept_bytes);
}
Tensor by_layers(const Operands& o, Activation activation) {
  return linear(linear(o.x, o.weight1, o.bias1, activation), o.weight2, o.bias2);
}

constexpr int64_t kRows = 300, kWide = 136;

TEST(FeedForward, HasTheBitsOfItsLayers) {
  for (const Device device : all_devices()) {
    for (const bool has_bias : {true, false}) {
      for (const Activation activation :
           {Activation::kGelu, Activation::kGeluTanh, Activation::kRelu, Activation::kNone}) {
        for (const DType dtype : {kFloat32, kBFloat16}) {
          const Operands o = operands(kRows, kWide, has_bias, device, dtype);
          const Tensor got = fused(o, activation), want = by_layers(o, activation);
          EXPECT_TRUE(same_bits(got, fused(o, activation, int64_t(1) << 30)));
          EXPECT_TRUE(same_bits(got, want));
          const Tensor dy = ones_like(got);
          const Tensors dx = grad({got}, o.all(), {dy}), dwant = grad({want}, o.all(), {dy});
          for (size_t i = 0; i < dx.size(); ++i) EXPECT_TRUE(same_bits(dx[i], dwant[i])) << i;
        }
      }
    }
  }
}

TEST(FeedForward, CanBeDifferentiatedAgain) {
  const Operands o = operands(kRows, kWide, true, "cpu", kFloat64);
  const auto second = [&](const Tensor& y) {
    const Tensors d = grad({sum(y * y)}, o.all(), {.create_graph = true});
    return grad({sum(d[0] * d[0]) + sum(d[1] * d[1])}, o.all());
  };
  const Tensors got = second(fused(o, Activation::kGelu));
  const Tensors want = second(by_layers(o, Activation::kGelu));
  for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(close(got[i] / 1e3, want[i] / 1e3, 1e-8));
}

TEST(FeedForward, KeepsOneWideTensorForTheBackwardPass) {
  constexpr int64_t kMany = 20'000, kBytes = kMany * kWide * 4;
  const Operands o = operands(kMany, kWide, true, "cpu", kFloat32);
  const int64_t before = int64_t(cpu::memory_stats().allocated);
  const Tensor y = fused(o, Activation::kGelu);
  EXPECT_LT(int64_t(cpu::memory_stats().allocated) - before, kBytes * 5 / 4);
}

}  // namespace
}  // namespace taper::v0::test
