// Attention beyond its rows in the op table: queries without keys, tied arguments, exact
// repetition, and what it keeps in memory.
#include "autograd/ops/attention.h"

#include <gtest/gtest.h>

#include "autograd/engine.h"
#include "autograd/ops/binary.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "framework/cuda.h"
#include "framework/factories.h"
#include "tests/testing.h"

namespace taper::test {
namespace {

using Tensors = std::vector<Tensor>;

// The same numbers in every dtype and on every device.
Tensor random(const Shape& shape, Device device, DType dtype = kFloat64) {
  return randn(shape, {.dtype = kFloat64}).to(device, dtype).detach();
}

Tensor lower_triangle(int64_t T, int64_t S, Device device) {
  return le(arange(S, {.device = device}), unsqueeze(arange(T, {.device = device}), 1));
}

TEST(Attention, QueriesWithoutKeysGiveZerosAndNoGradient) {
  for (const Device device : all_devices()) {
    manual_seed(1);
    const Tensor q = random({2, 3, 4}, device).requires_grad_();
    const Tensor k = random({2, 5, 4}, device).requires_grad_();
    const Tensor v = random({2, 5, 4}, device).requires_grad_();
    const Tensor allowed = tensor({{true}, {false}, {true}}, {.device = device});
    const Tensor y = scaled_dot_product_attention(q, k, v, allowed);
    EXPECT_TRUE(close(y.select(1, 1), zeros({2, 4}), 0));
    const Tensors dx = grad({y}, {q, k, v}, {ones_like(y)}, true);
    EXPECT_TRUE(close(dx[0].select(1, 1), zeros({2, 4}), 0));
    // The other queries do not notice.
    const Tensor some = scaled_dot_product_attention(q.select(1, 2).unsqueeze(1), k, v);
    EXPECT_TRUE(close(y.narrow(1, 2, 1), some, 1e-12));
    const Tensors again = grad({y}, {q, k, v}, {ones_like(y)}, true, true);
    for (size_t i = 0; i < dx.size(); ++i) EXPECT_TRUE(close(again[i], dx[i], 1e-12));
    for (const double d : values_of(grad({sum(again[0])}, {k})[0])) EXPECT_TRUE(d == d);
  }
}

TEST(Attention, OneTensorInThreePlacesGetsTheSumOfThreeGradients) {
  for (const Device device : all_devices()) {
    manual_seed(2);
    const Tensor x = random({2, 6, 3}, device).requires_grad_();
    const Tensor dy = random({2, 6, 3}, device);
    const Tensor tied = grad({scaled_dot_product_attention(x, x, x)}, {x}, {dy})[0];
    Tensors parts;
    for (int i = 0; i < 3; ++i) parts.push_back(x.detach().clone().requires_grad_());
    const Tensor y = scaled_dot_product_attention(parts[0], parts[1], parts[2]);
    const Tensors dx = grad({y}, parts, {dy});
    EXPECT_TRUE(close(tied, dx[0] + dx[1] + dx[2], 1e-12));
  }
}

TEST(Attention, CausalEqualsALowerTriangleAsMask) {
  for (const Device device : all_devices()) {
    for (const auto& [T, S] : {std::pair<int64_t, int64_t>{70, 130}, {130, 70}}) {
      manual_seed(3);
      const Tensor q = random({2, T, 8}, device).requires_grad_();
      const Tensor k = random({2, S, 8}, device).requires_grad_(),
                   v = random({2, S, 5}, device).requires_grad_();
      const Tensor causal = scaled_dot_product_attention(q, k, v, {}, 0, true);
      const Tensor y = scaled_dot_product_attention(q, k, v, lower_triangle(T, S, device));
      EXPECT_TRUE(close(causal, y, 1e-12));
      const Tensor dy = random(y.shape(), device);
      const Tensors got = grad({causal}, {q, k, v}, {dy}), want = grad({y}, {q, k, v}, {dy});
      for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(close(got[i], want[i], 1e-12));
    }
  }
}

TEST(Attention, RepeatsItselfBitForBit) {
  for (const Device device : all_devices()) {
    for (const DType dtype : {kFloat32, kBFloat16}) {
      manual_seed(4);
      const Tensor q = random({2, 3, 150, 64}, device, dtype).requires_grad_();
      const Tensor k = random({2, 3, 150, 64}, device, dtype).requires_grad_();
      const Tensor v = random({2, 3, 150, 64}, device, dtype).requires_grad_();
      const auto run = [&] {
        Generator generator(5);
        const Tensor y =
            scaled_dot_product_attention(q, k, v, {}, 0.1, true, std::nullopt, &generator);
        Tensors all = grad({y}, {q, k, v}, {ones_like(y)});
        all.push_back(y);
        return all;
      };
      const Tensors first = run(), second = run();
      for (size_t i = 0; i < first.size(); ++i) EXPECT_TRUE(same_bits(first[i], second[i]));
    }
  }
}

TEST(Attention, KeepsNoScoresOnTheGpu) {
  if (skip_without_cuda()) return;
  constexpr int64_t kLong = 4096;
  const Device gpu(DeviceType::cuda, 0);
  const Tensor x = random({1, kLong, 16}, gpu, kFloat32).requires_grad_();
  const size_t before = cuda::memory_allocated();
  cuda::reset_peak_memory_stats();
  const Tensor y = scaled_dot_product_attention(x, x, x, {}, 0.1, true);
  (void)grad({y}, {x}, {ones_like(y)});
  EXPECT_LT(cuda::max_memory_allocated() - before, size_t(kLong) * kLong);
}

}  // namespace
}  // namespace taper::test
