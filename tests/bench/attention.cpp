// Times each implementation of attention on a GPU separately, to show which of them is worth
// having.
#include "framework/kernels/attention/attention.h"

#include <cmath>

#include "framework/kernels/common/dispatch.h"
#include "taper.h"
#include "tests/bench/timing.h"

namespace taper::v0::bench {
namespace {

struct Case {
  DType dtype;
  int64_t B, H, T, D;
  bool causal;
  double dropout = 0;
  bool packed = false;  // laid out as in the result of a Linear: heads within rows
};
const Case kCases[] = {
    {kBFloat16, 64, 6, 256, 64, true, 0.2, true},  // the character-level GPT of the examples
    {kBFloat16, 64, 6, 256, 64, true, 0, true},   {kBFloat16, 64, 6, 256, 64, true},
    {kBFloat16, 16, 12, 1024, 64, true, 0, true},  // GPT-2
    {kBFloat16, 16, 12, 1024, 64, true},          {kBFloat16, 16, 12, 1024, 64, false},
    {kFloat16, 16, 12, 1024, 64, true},           {kBFloat16, 32, 8, 512, 64, false, 0, true},
    {kBFloat16, 8, 16, 2048, 128, true, 0, true}, {kBFloat16, 8, 16, 2048, 128, true},
    {kBFloat16, 2, 16, 8192, 128, true},          {kBFloat16, 128, 4, 64, 32, true, 0, true},
    {kFloat32, 64, 6, 256, 64, true, 0, true},    {kFloat32, 64, 6, 256, 64, true, 0.2, true},
    {kFloat32, 16, 12, 1024, 64, true, 0, true},  {kFloat32, 4, 16, 2048, 128, false},
};

struct Operands {
  Tensor q, k, v, dy;
  kernels::AttentionResult forward;
  kernels::AttentionGradients gradients;
};

Operands operands_of(const Case& c) {
  const TensorOptions o{.dtype = c.dtype, .device = "cuda:0"};
  const auto make = [&] {
    const Tensor x =
        c.packed ? randn({c.B, c.T, c.H, c.D}, o).transpose(1, 2) : randn({c.B, c.H, c.T, c.D}, o);
    return x.detach();
  };
  const Tensor lse = empty({c.B, c.H, c.T}, {.device = "cuda:0"});
  return {make(), make(), make(), make(), {make(), lse, {}}, {make(), make(), make()}};
}

// Composed of batched products and a softmax, with the scores in memory.
Tensor composed(const Operands& x, const Case& c, const Tensor& hidden) {
  Tensor s = matmul(x.q * (1 / std::sqrt(double(c.D))), transpose(x.k, 2, 3));
  if (hidden.defined()) s = s + hidden;
  const Tensor p = softmax(s, -1);
  return matmul(c.dropout > 0 ? dropout(p, c.dropout) : p, x.v);
}

void measure(const Bench& bench, const Case& c) {
  using namespace kernels;
  manual_seed(0);
  Operands x = operands_of(c);
  const AttentionArgs args{c.causal, 1 / std::sqrt(double(c.D)), c.dropout, {1, 2}, true};
  const double pairs = double(c.B * c.H * c.T) * double(c.T) * double(c.D) / (c.causal ? 2 : 1);
  const std::string shape = concat_to_string(
      "attention_", c.dtype, "_", c.B, "x", c.H, "x", c.T, "x", c.D, c.causal ? "_causal" : "",
      c.dropout > 0 ? "_dropout" : "", c.packed ? "_packed" : "_dense");
  // An implementation that does not support the case returns false at the first call.
  const auto time = [&](const char* path, const auto& forward, const auto& backward) {
    if (!forward()) return;
    bench.op(concat_to_string(shape, "_", path, "_fwd"), "cuda:0", {.flops = 4 * pairs},
             [&] { (void)forward(); });
    if (!backward()) return;
    bench.op(concat_to_string(shape, "_", path, "_bwd"), "cuda:0", {.flops = 10 * pairs},
             [&] { (void)backward(); });
  };
  if constexpr (kHasCudnn) {
    time(
        "cudnn", [&] { return kernels::cuda::cudnn_attention(x.forward, x.q, x.k, x.v, args); },
        [&] {
          return kernels::cuda::cudnn_attention_backward(x.gradients, x.dy, x.q, x.k, x.v,
                                                         x.forward, args);
        });
  }
  if constexpr (kHasCuda) {
    time(
        "flash", [&] { return kernels::cuda::flash_attention(x.forward, x.q, x.k, x.v, args); },
        [&] {
          return kernels::cuda::flash_attention_backward(x.gradients, x.dy, x.q, x.k, x.v,
                                                         x.forward, args);
        });
    x.forward.kept = kernels::cuda::make_kept(x.q, x.k, args);
    time(
        "hopper", [&] { return kernels::cuda::flash_attention(x.forward, x.q, x.k, x.v, args); },
        [&] {
          return kernels::cuda::hopper_attention_backward(x.gradients, x.dy, x.q, x.k, x.v,
                                                          x.forward, args);
        });
  }
  const TensorOptions place{.device = "cuda:0"};
  const Tensor hidden =
      c.causal ? log(le(arange(c.T, place), unsqueeze(arange(c.T, place), 1)).to(c.dtype))
               : Tensor();
  Operands leaves = x;
  for (Tensor* t : {&leaves.q, &leaves.k, &leaves.v}) t->requires_grad_();
  const double bytes = double(c.B * c.H * c.T) * double(c.T) * double(size_of(c.dtype));
  if (bytes > 4e9) return;
  const Tensor y = composed(leaves, c, hidden);
  time(
      "composed",
      [&] {
        const NoGradGuard guard;
        return composed(x, c, hidden).defined();
      },
      [&] {
        return grad({y}, {leaves.q, leaves.k, leaves.v}, {x.dy}, {.retain_graph = true})[0]
            .defined();
      });
}

}  // namespace

void attention(const Bench& bench) {
  for (const Case& c : kCases) measure(bench, c);
}

}  // namespace taper::v0::bench
