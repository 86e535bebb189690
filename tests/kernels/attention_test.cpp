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
#include "framework/kernels/attention.h"
#include "framework/kernels/dispatch.h"
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

// What cuDNN makes of a case: y, logsumexp, then dq, dk and dv where it takes the backward pass.
struct ByCudnn {
  bool forward = false, backward = false;
  Tensors all;
};

ByCudnn by_cudnn(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& dy,
                 const kernels::AttentionArgs& args) {
  const Shape rows = {q.size(0), q.size(1)};
  const kernels::AttentionResult out = {empty_like(q),
                                        empty(rows, {.dtype = kFloat32, .device = q.device()})};
  const kernels::AttentionGradients dx = {empty_like(q), empty_like(k), empty_like(v)};
  ByCudnn result;
  if constexpr (kernels::kHasCudnn) {
    result.forward = kernels::cuda::cudnn_attention(out, q, k, v, args);
    result.all = {out.y, out.logsumexp};
    if (!result.forward) return result;
    result.backward = kernels::cuda::cudnn_attention_backward(dx, dy, q, k, v, out, args);
    if (result.backward) result.all.insert(result.all.end(), {dx.dq, dx.dk, dx.dv});
  }
  return result;
}

void expect_cudnn_agrees(const Shape& sizes, bool causal, DType dtype) {
  const Device gpu(DeviceType::cuda, 0);
  const int64_t B = sizes[0], T = sizes[1], S = sizes[2], D = sizes[3];
  manual_seed(6);
  const Tensor q = random({B, T, D}, gpu, dtype), k = random({B, S, D}, gpu, dtype);
  const Tensor v = random({B, S, D}, gpu, dtype), dy = random({B, T, D}, gpu, dtype);
  kernels::AttentionArgs args;
  args.causal = causal;
  args.scale = 0.125;
  const ByCudnn got = by_cudnn(q, k, v, dy, args), again = by_cudnn(q, k, v, dy, args);
  ASSERT_TRUE(got.forward);
  // Older versions leave keys that do not fill a tile of 128 to the other kernel.
  EXPECT_TRUE(got.backward || S % 128 != 0);
  ASSERT_EQ(got.all.size(), again.all.size());
  for (size_t i = 0; i < got.all.size(); ++i) EXPECT_TRUE(same_bits(got.all[i], again.all[i]));

  const double tolerance = dtype == kBFloat16 ? 0.03 : 0.005;
  if constexpr (kernels::kHasCudnn) {
    const kernels::AttentionResult tiled = {empty_like(got.all[0]), empty_like(got.all[1])};
    kernels::cuda::attention(tiled, q, k, v, args);
    EXPECT_TRUE(close(got.all[0], tiled.y, tolerance));
    EXPECT_TRUE(close(got.all[1], tiled.logsumexp, 1e-4));
  }
  // A backward pass that is itself recorded is the composition of other ops.
  const Tensors x = {q.detach().requires_grad_(), k.detach().requires_grad_(),
                     v.detach().requires_grad_()};
  const Tensor y = scaled_dot_product_attention(x[0], x[1], x[2], {}, 0, causal, args.scale);
  const Tensors want = grad({y}, x, {dy}, true, true), usual = grad({y}, x, {dy});
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_TRUE(close(usual[i], want[i], tolerance));
    EXPECT_TRUE(!got.backward || close(got.all[2 + i], want[i], tolerance));
  }
}

TEST(Attention, CudnnTakesHalvesAndAgrees) {
  if (skip_without_cuda()) return;
  if (!kernels::kHasCudnn) GTEST_SKIP() << "built without cuDNN";
  for (const Shape& sizes :
       {Shape{6, 64, 64, 64}, Shape{4, 130, 70, 128}, Shape{2, 512, 512, 64}}) {
    for (const bool causal : {false, true}) {
      for (const DType dtype : {kFloat16, kBFloat16}) {
        SCOPED_TRACE(cat(sizes, causal ? " causal " : " ", to_string(dtype)));
        expect_cudnn_agrees(sizes, causal, dtype);
      }
    }
  }
}

}  // namespace
}  // namespace taper::test
