// Attention beyond its rows in the op table: queries without keys, tied arguments, exact
// repetition, and the memory that it keeps.
#include "framework/kernels/attention/attention.h"

#include <string_view>

#include <gtest/gtest.h>

#include "autograd/engine.h"
#include "autograd/ops/binary_ops.h"
#include "autograd/ops/index/search.h"
#include "autograd/ops/matmul_ops.h"
#include "autograd/ops/nn/attention_ops.h"
#include "autograd/ops/random_ops.h"
#include "autograd/ops/reduce_ops.h"
#include "autograd/ops/shape_ops.h"
#include "autograd/ops/unary_ops.h"
#include "framework/cuda/cuda.h"
#include "framework/factory/factories.h"
#include "framework/kernels/common/dispatch.h"
#include "framework/memory/cuda_memory.h"
#include "tests/testing.h"

namespace taper::v0::test {
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
    const Tensors dx = grad({y}, {q, k, v}, {ones_like(y)}, {.retain_graph = true});
    EXPECT_TRUE(close(dx[0].select(1, 1), zeros({2, 4}), 0));
    // The other queries are unaffected.
    const Tensor some = scaled_dot_product_attention(q.select(1, 2).unsqueeze(1), k, v);
    EXPECT_TRUE(close(y.narrow(1, 2, 1), some, 1e-12));
    const Tensors again = grad({y}, {q, k, v}, {ones_like(y)}, {.create_graph = true});
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
      const Tensor causal = scaled_dot_product_attention(q, k, v, {.is_causal = true});
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
        const Tensor y = scaled_dot_product_attention(
            q, k, v, {.dropout_p = 0.1, .is_causal = true, .generator = &generator});
        Tensors all = grad({y}, {q, k, v}, {ones_like(y)});
        all.push_back(y);
        return all;
      };
      const Tensors first = run(), second = run();
      for (size_t i = 0; i < first.size(); ++i) EXPECT_TRUE(same_bits(first[i], second[i]));
    }
  }
}

TEST(Attention, ManyScoresAreComputedInParts) {
  constexpr int64_t T = 1500, S = 1400, D = 4;
  for (const Device device : all_devices()) {
    for (const auto& [B, H] : {std::pair<int64_t, int64_t>{1, 9}, {5, 2}}) {
      for (const bool drops : {true, false}) {
        SCOPED_TRACE(concat_to_string(device, " ", B, " ", H, " ", drops));
        manual_seed(8);
        const Tensor q = random({B, H, T, D}, device, kFloat32).requires_grad_();
        const Tensor k = random({B, H, S, D}, device, kFloat32).requires_grad_();
        const Tensor v = random({B, H, S, D}, device, kFloat32).requires_grad_();
        const Tensor dy = random({B, H, T, D}, device, kFloat32);
        const Tensor mask = drops ? Tensor() : randn({B, 1, 1, S}, {.device = device});
        const double p = drops ? 0.3 : 0;
        Generator one(5), other(5);
        const Tensor y = scaled_dot_product_attention(
            q, k, v, {.attn_mask = mask, .dropout_p = p, .is_causal = drops, .generator = &one});
        Tensor s = matmul(q * 0.5, k.transpose(2, 3));
        if (drops) s = s + log(lower_triangle(T, S, device).to(kFloat32));
        if (!drops) s = s + mask;
        const Tensor want = matmul(dropout(softmax(s, -1), p, true, &other), v);
        EXPECT_TRUE(close(y, want, 1e-4));
        const Tensors got = grad({y}, {q, k, v}, {dy});
        const Tensors dx = grad({want}, {q, k, v}, {dy});
        for (size_t i = 0; i < dx.size(); ++i) EXPECT_TRUE(close(got[i], dx[i], 1e-3));
      }
    }
  }
}

TEST(Attention, KeepsNoScoresOnTheGpu) {
  if (skip_without_cuda()) return;
  constexpr int64_t kLong = 4096, kHeads = 16, kScores = kLong * kLong * 4;
  const Device gpu(DeviceType::kCuda, 0);
  const Tensor x = random({kHeads, kLong, 16}, gpu, kFloat32).requires_grad_();
  const size_t before = cuda::memory_allocated();
  cuda::reset_peak_memory_stats();
  const Tensor y = scaled_dot_product_attention(x, x, x, {.dropout_p = 0.1, .is_causal = true});
  EXPECT_LT(cuda::memory_allocated() - before, size_t(kScores / 4));
  (void)grad({y}, {x}, {ones_like(y)});
  EXPECT_LT(cuda::max_memory_allocated() - before, size_t(kScores * kHeads / 2));
}

// A kernel for half types: whether it accepts a case, and its results.
struct Way {
  const char* name;
  bool (*forward)(const kernels::AttentionResult&, const Tensor&, const Tensor&, const Tensor&,
                  const kernels::AttentionArgs&);
  bool (*backward)(const kernels::AttentionGradients&, const Tensor&, const Tensor&, const Tensor&,
                   const Tensor&, const kernels::AttentionResult&, const kernels::AttentionArgs&);
};
std::vector<Way> ways() {
  std::vector<Way> all;
  if constexpr (kHasCuda) {
    all.push_back(
        {"flash", kernels::cuda::flash_attention, kernels::cuda::flash_attention_backward});
    const cuda::DeviceProperties gpu = cuda::get_device_properties(0);
    if (gpu.major == 9 && gpu.minor == 0) {
      all.push_back(
          {"hopper", kernels::cuda::flash_attention, kernels::cuda::hopper_attention_backward});
    }
  }
  if constexpr (kernels::kHasCudnn) {
    all.push_back(
        {"cudnn", kernels::cuda::cudnn_attention, kernels::cuda::cudnn_attention_backward});
  }
  return all;
}

bool is(const Way& way, std::string_view name) { return way.name == name; }

struct Case {
  int64_t B, H, T, S, D;
  bool causal;
  double dropout_p;
  DType dtype;
};

// In the layout of a Linear's output: the heads are in the rows.
Tensor random_heads(int64_t B, int64_t H, int64_t rows, int64_t D, DType dtype) {
  return random({B, rows, H, D}, Device(DeviceType::kCuda, 0), dtype).transpose(1, 2);
}

kernels::AttentionResult room_for(const Case& c, const Tensor& q) {
  return {kernels::rows_of_heads(c.B, c.H, c.T, c.D, q),
          empty({c.B, c.H, c.T}, {.dtype = kFloat32, .device = q.device()}),
          {}};
}

// Returns y, logsumexp, dq, dk and dv; fewer if the kernel has no backward pass for the case.
Tensors run(const Way& way, const Case& c, const Tensors& x, const Tensor& dy,
            const kernels::AttentionArgs& args) {
  kernels::AttentionResult out = room_for(c, x[0]);
  if constexpr (kHasCuda) {
    if (is(way, "hopper")) out.kept = kernels::cuda::make_kept(x[0], x[1], args);
  }
  if (!way.forward(out, x[0], x[1], x[2], args)) return {};
  Tensors all = {out.y, out.logsumexp};
  const kernels::AttentionGradients dx = {empty_like(x[0]), empty_like(x[1]), empty_like(x[2])};
  if (way.backward(dx, dy, x[0], x[1], x[2], out, args)) {
    all.insert(all.end(), {dx.dq, dx.dk, dx.dv});
  }
  return all;
}

void expect_agrees(const Way& way, const Case& c) {
  SCOPED_TRACE(concat_to_string(way.name, " ", c.B, " ", c.H, " ", c.T, " ", c.S, " ", c.D, " ",
                                c.causal ? "causal " : "", c.dropout_p, " ", to_string(c.dtype)));
  manual_seed(6);
  const Tensors x = {random_heads(c.B, c.H, c.T, c.D, c.dtype),
                     random_heads(c.B, c.H, c.S, c.D, c.dtype),
                     random_heads(c.B, c.H, c.S, c.D, c.dtype)};
  const Tensor dy = random_heads(c.B, c.H, c.T, c.D, c.dtype);
  const PhiloxKey key{17, 3};
  const kernels::AttentionArgs args{c.causal, 0.125, c.dropout_p, key};
  const Tensors got = run(way, c, x, dy, args), again = run(way, c, x, dy, args);
  const bool is_cudnn = is(way, "cudnn");
  if (c.dropout_p > 0 && is_cudnn) {
    EXPECT_TRUE(got.empty());
    return;
  }
  // Older versions of cuDNN leave numbers of keys that are not multiples of 128 to the other
  // kernel.
  const bool has_bits = c.D <= 64 && c.S <= 16 * c.D;
  const bool is_refused = is_cudnn ? c.S % 128 != 0 && got.size() == 2
                                   : is(way, "hopper") && c.dropout_p > 0 && !has_bits;
  ASSERT_EQ(got.size(), is_refused ? 2u : 5u);
  ASSERT_EQ(got.size(), again.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(same_bits(got[i], again[i]));

  const double tolerance = c.dtype == kBFloat16 ? 0.03 : 0.005;
  // In float64, attention is a composition of other ops.
  Generator drawn;
  drawn.set_state(key);
  Tensors wide;
  for (const Tensor& t : x) wide.push_back(t.to(kFloat64).detach().requires_grad_());
  const Tensor exact = scaled_dot_product_attention(
      wide[0], wide[1], wide[2],
      {.dropout_p = c.dropout_p, .is_causal = c.causal, .scale = args.scale, .generator = &drawn});
  EXPECT_TRUE(close(got[0], exact, tolerance));
  Tensor s = matmul(wide[0] * args.scale, wide[1].transpose(2, 3));
  if (c.causal) s = s + log(lower_triangle(c.T, c.S, s.device()).to(kFloat64));
  EXPECT_TRUE(close(got[1], logsumexp(s, {3}), 1e-4));
  const Tensors want = grad({exact}, wide, {dy.to(kFloat64)});
  Tensors leaves;
  for (const Tensor& t : x) leaves.push_back(t.detach().requires_grad_());
  Generator generator;
  generator.set_state(key);
  const Tensor y = scaled_dot_product_attention(leaves[0], leaves[1], leaves[2],
                                                {.dropout_p = c.dropout_p,
                                                 .is_causal = c.causal,
                                                 .scale = args.scale,
                                                 .generator = &generator});
  // A recorded backward pass is a composition of other ops.
  const Tensors recorded = grad({y}, leaves, {dy}, {.create_graph = true}),
                usual = grad({y}, leaves, {dy});
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_TRUE(close(recorded[i], want[i], tolerance));
    EXPECT_TRUE(close(usual[i], want[i], tolerance));
    EXPECT_TRUE(got.size() == 2 || close(got[2 + i], want[i], tolerance));
  }
}

TEST(Attention, KernelsForHalvesAgree) {
  if (skip_without_cuda()) return;
  const std::vector<Shape> sizes = {
      {2, 3, 64, 64, 64},     {2, 2, 130, 70, 128},   {1, 2, 512, 512, 64},
      {2, 1, 512, 512, 64},   {1, 2, 100, 68, 32},    {2, 1, 65, 131, 80},
      {1, 3, 200, 200, 48},   {2, 3, 64, 128, 32},    {1, 2, 300, 384, 96},
      {2, 2, 256, 2048, 128}, {1, 4, 2048, 512, 128}, {1, 12, 1024, 1024, 64},
      {1, 2, 2048, 2048, 64}};
  for (const Way& way : ways()) {
    for (const Shape& s : sizes) {
      for (const bool causal : {false, true}) {
        for (const double dropout_p : {0.0, 0.3}) {
          for (const DType dtype : {kFloat16, kBFloat16}) {
            expect_agrees(way, {s[0], s[1], s[2], s[3], s[4], causal, dropout_p, dtype});
          }
        }
      }
    }
  }
}

TEST(Attention, GroupedQueriesInRowsHaveTheGradientsOfRepeatedHeads) {
  if (skip_without_cuda()) return;
  constexpr int64_t kBatch = 2, kGroup = 3, kHeads = 2, kLength = 256, kWidth = 64;
  manual_seed(9);
  const Tensors x = {random_heads(kBatch, kGroup * kHeads, kLength, kWidth, kBFloat16),
                     random_heads(kBatch, kHeads, kLength, kWidth, kBFloat16),
                     random_heads(kBatch, kHeads, kLength, kWidth, kBFloat16)};
  const Tensor dy = random_heads(kBatch, kGroup * kHeads, kLength, kWidth, kBFloat16);
  Tensors halves, wide;
  for (const Tensor& t : x) {
    halves.push_back(t.detach().requires_grad_());
    wide.push_back(t.to(kFloat64).detach().requires_grad_());
  }
  const Tensor y = scaled_dot_product_attention(halves[0], halves[1], halves[2],
                                                {.is_causal = true, .enable_gqa = true});
  const Tensor exact =
      scaled_dot_product_attention(wide[0], repeat_interleave(wide[1], kGroup, 1),
                                   repeat_interleave(wide[2], kGroup, 1), {.is_causal = true});
  EXPECT_TRUE(close(y, exact, 0.03));
  const Tensors got = grad({y}, halves, {dy}), want = grad({exact}, wide, {dy.to(kFloat64)});
  for (size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(close(got[i], want[i], 0.03));
}

// q, k and v per head from one [B, T, 3 C] tensor, as in a model without packed_attention.
Tensor by_parts(const Tensor& qkv, int64_t H, double dropout_p, Generator* generator) {
  Tensors parts;
  for (const Tensor& part : chunk(qkv, 3, -1)) {
    parts.push_back(unflatten(part, 2, {H, part.size(2) / H}).transpose(1, 2));
  }
  const Tensor y = scaled_dot_product_attention(
      parts[0], parts[1], parts[2],
      {.dropout_p = dropout_p, .is_causal = true, .generator = generator});
  return flatten(y.transpose(1, 2), 2);
}

TEST(Attention, PackedHasTheBitsOfItsParts) {
  for (const Device device : all_devices()) {
    for (const DType dtype : {kFloat32, kFloat64, kBFloat16}) {
      for (const double dropout_p : {0.0, 0.2}) {
        SCOPED_TRACE(concat_to_string(device, " ", to_string(dtype), " ", dropout_p));
        manual_seed(7);
        constexpr int64_t kHeads = 3;
        const Tensor x = random({2, 66, 3 * 48}, device, dtype).requires_grad_();
        const Tensor dy = random({2, 66, 48}, device, dtype);
        Generator one(5), other(5);
        const Tensor y = packed_attention(
            x, kHeads, {.dropout_p = dropout_p, .is_causal = true, .generator = &one});
        const Tensor want = by_parts(x, kHeads, dropout_p, &other);
        EXPECT_TRUE(y.is_contiguous());
        EXPECT_TRUE(close(packed_attention(x, 1).mul_(2), 2 * packed_attention(x, 1), 0));
        EXPECT_TRUE(same_bits(y, want));
        EXPECT_TRUE(same_bits(grad({y}, {x}, {dy}, {.retain_graph = true})[0],
                              grad({want}, {x}, {dy}, {.retain_graph = true})[0]));
        // Recorded, and differentiated again.
        const Tensor dx = grad({y}, {x}, {dy}, {.create_graph = true})[0];
        const Tensor dwant = grad({want}, {x}, {dy}, {.create_graph = true})[0];
        EXPECT_TRUE(same_bits(dx, dwant));
        EXPECT_TRUE(close(grad({sum(dx * dx)}, {x})[0], grad({sum(dwant * dwant)}, {x})[0],
                          dtype == kBFloat16 ? 3e-2 : 1e-4));
      }
    }
  }
}

TEST(Attention, ResultsOfFusedKernelsHaveTheLayoutOfQueries) {
  for (const Device device : all_devices()) {
    const DType dtype = device.is_cuda() ? kBFloat16 : kFloat32;
    const Tensor dense = randn({2, 3, 40, 16}, {.dtype = dtype, .device = device});
    const Tensor in_rows = dense.transpose(1, 2).contiguous().transpose(1, 2);
    Tensor first;
    for (Tensor q : {dense, in_rows}) {
      q = q.detach().requires_grad_();
      const Tensor y = scaled_dot_product_attention(q, q, q, {.is_causal = true});
      EXPECT_EQ(y.strides(), q.strides());
      const Tensor dq = grad({y}, {q}, {ones_like(y)})[0];
      EXPECT_EQ(dq.shape(), q.shape());
      if (!first.defined()) first = y;
      EXPECT_TRUE(close(y, first, dtype == kBFloat16 ? 1e-2 : 1e-5));
    }
  }
}

}  // namespace
}  // namespace taper::v0::test
