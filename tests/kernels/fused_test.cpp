// A fused op gives the same bits as the ops that it replaces.
#include <gtest/gtest.h>

#include "autograd/autocast.h"
#include "autograd/ops/binary_ops.h"
#include "autograd/ops/nn/loss_ops.h"
#include "autograd/ops/nn/norm_ops.h"
#include "autograd/ops/random_ops.h"
#include "autograd/ops/reduce_ops.h"
#include "framework/factory/factories.h"
#include "testing/taper_testing.h"
#include "tests/testing.h"

namespace taper::v0::test {
namespace {

Tensor leaf(const Shape& shape, uint64_t seed, DType dtype, Device device) {
  Generator generator(seed);
  const Tensor x = randn(shape, {}, &generator).to(device).to(dtype);
  x.requires_grad_();
  return x;
}

TEST(Fused, LayerNormRoundsItsResult) {
  for (const Device device : all_devices()) {
    for (const DType half : {kFloat16, kBFloat16}) {
      for (const Shape& shape :
           std::vector<Shape>{Shape{5, 8}, Shape{3, 384}, Shape{70, 768}, Shape{9, 33},
                              Shape{7, 4096}, Shape{2, 5000}, Shape{0, 8}}) {
        const Shape row{shape[1]};
        Tensor results[2], gradients[2][3];
        for (const bool fused : {false, true}) {
          const Tensor x = leaf(shape, 1, kFloat32, device), w = leaf(row, 2, kFloat32, device),
                       b = leaf(row, 3, kFloat32, device), dy = leaf(shape, 4, half, device);
          const Tensor y = fused ? layer_norm(x, row, w, b, 1e-5, half)
                                 : layer_norm(x, row, w, b, 1e-5).to(half);
          y.backward(dy.detach());
          results[fused] = y;
          gradients[fused][0] = x.grad();
          gradients[fused][1] = w.grad();
          gradients[fused][2] = b.grad();
        }
        EXPECT_TRUE(same_bits(results[0], results[1]))
            << concat_to_string(device, " ", half, " ", shape);
        for (int i = 0; i < 3; ++i) {
          EXPECT_TRUE(same_bits(gradients[0][i], gradients[1][i]))
              << concat_to_string(device, " ", half, " ", shape, " gradient ", i);
        }
      }
    }
  }
}

TEST(Fused, DropoutAddHasTheBitsOfTwoOps) {
  for (const Device device : all_devices()) {
    for (const auto& [type, residual_type] : {std::pair{kBFloat16, kFloat32},
                                              {kFloat16, kFloat32},
                                              {kFloat32, kFloat32},
                                              {kFloat32, kBFloat16},
                                              {kBFloat16, kBFloat16},
                                              {kFloat64, kFloat64}}) {
      for (const Shape& shape :
           std::vector<Shape>{Shape{4, 384}, Shape{7, 13}, Shape{1}, Shape{0, 3}}) {
        Tensor results[2], gradients[2][2];
        for (const bool fused : {false, true}) {
          const Tensor x = leaf(shape, 1, type, device), r = leaf(shape, 2, residual_type, device);
          Generator generator(5);
          const Tensor y = fused ? dropout_add(x, 0.3, true, r, &generator)
                                 : r + dropout(x, 0.3, true, &generator);
          y.backward(leaf(shape, 3, y.dtype(), device).detach());
          results[fused] = y;
          gradients[fused][0] = x.grad();
          gradients[fused][1] = r.grad();
        }
        EXPECT_TRUE(same_bits(results[0], results[1]))
            << concat_to_string(device, " ", type, " ", shape);
        for (int i = 0; i < 2; ++i) {
          EXPECT_TRUE(same_bits(gradients[0][i], gradients[1][i]))
              << concat_to_string(device, " ", type);
        }
      }
    }
  }
}

// Rows for one warp, for shared memory (with the gradient computed in the forward pass), and longer
// ones; dloss of 1 and another value; two passes through one graph.
TEST(Fused, CrossEntropyOfHalfLogitsUnderAutocast) {
  for (const Device device : all_devices()) {
    for (const Shape& shape :
         std::vector<Shape>{Shape{5, 7}, Shape{300, 65}, Shape{40, 2048}, Shape{6, 1025},
                            Shape{3, 50304}, Shape{300, 4096}}) {
      for (const double scale : {1.0, 0.25}) {
        const Tensor target =
            remainder(arange(shape[0], {.dtype = kInt64, .device = device}), wrap_scalar(shape[1]));
        Tensor losses[2], gradients[2];
        for (const bool fused : {false, true}) {
          const Tensor x = leaf(shape, 1, kBFloat16, device);
          const AutocastGuard guard(device.type(), kBFloat16, fused);
          const Tensor loss =
              fused ? cross_entropy(x, target) : cross_entropy(x.to(kFloat32), target);
          const Tensor y = scale == 1 ? loss : loss * scale;
          y.backward({.retain_graph = true});
          const Tensor once = x.grad().clone();
          x.set_grad({});
          y.backward();
          EXPECT_TRUE(same_bits(once, x.grad()))
              << concat_to_string(device, " ", shape, " ", scale);
          losses[fused] = loss;
          gradients[fused] = once;
        }
        EXPECT_EQ(losses[1].dtype(), kFloat32);
        EXPECT_TRUE(close(losses[1].detach(), losses[0].detach(), 1e-6))
            << concat_to_string(device, " ", shape);
        EXPECT_EQ(gradients[1].dtype(), kBFloat16);
        EXPECT_TRUE(close(gradients[1].to(kFloat32) * double(shape[0]),
                          gradients[0].to(kFloat32) * double(shape[0]), 4e-3))
            << concat_to_string(device, " ", shape, " ", scale);
      }
    }
  }
}

// A dloss of 1 keeps the gradient of the forward pass; any other value recomputes it.
TEST(Fused, CrossEntropyGradientsAgreeWithTheirFormula) {
  for (const Device device : all_devices()) {
    for (const Reduction reduction : {Reduction::kMean, Reduction::kSum}) {
      for (const double scale : {1.0, 3.0}) {
        const int64_t n = 37, classes = 1504;
        const Tensor weight = rand({classes}, {.device = device});
        Tensor target = arange(n, {.dtype = kInt64, .device = device}) * 7;
        target = where(eq(target, 14), full({}, kIgnoreIndex, {.dtype = kInt64, .device = device}),
                       target);
        const CrossEntropyOptions o{.weight = weight, .reduction = reduction};
        const Tensor x = leaf({n, classes}, 1, kFloat32, device);
        const Tensor exact = x.detach().to(kFloat64).requires_grad_();
        (cross_entropy(x, target, o) * scale).backward();
        CrossEntropyOptions wide = o;
        wide.weight = weight.to(kFloat64);
        (cross_entropy(exact, target, wide) * scale).backward();
        EXPECT_TRUE(close(x.grad().to(kFloat64) * 1e3, exact.grad() * 1e3, 2e-5))
            << concat_to_string(device);
      }
    }
  }
}

}  // namespace
}  // namespace taper::v0::test
