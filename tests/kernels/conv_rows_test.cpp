// Convolutions of half types that a GPU computes by matrix products.
#include <gtest/gtest.h>

#include "autograd/ops/binary_ops.h"
#include "autograd/ops/nn/conv_ops.h"
#include "framework/factory/factories.h"
#include "framework/factory/generator.h"
#include "tests/testing.h"

namespace taper::v0::test {
namespace {

struct Case {
  const char* name;
  Shape x, weight;
  Conv2dOptions options = {};
};

const Case kCases[] = {
    {"pictures", {4, 3, 17, 19}, {16, 3, 3, 3}, {.padding = 1}},
    {"gray pictures", {4, 1, 28, 28}, {32, 1, 5, 5}, {.stride = 2}},
    {"seven channels", {3, 7, 9, 8}, {8, 7, 3, 3}, {.stride = Pair(2, 3), .padding = Pair(0, 2)}},
    {"dilated", {2, 4, 16, 16}, {8, 4, 3, 3}, {.padding = 2, .dilation = Pair(2, 1)}},
    {"windows beyond the picture", {2, 3, 2, 2}, {8, 3, 3, 3}, {.padding = 3}},
    {"one picture", {1, 3, 5, 5}, {8, 3, 5, 5}},
    {"strided pixels", {5, 16, 9, 9}, {24, 16, 1, 1}, {.stride = 2}},
    {"strided along one side", {5, 8, 9, 10}, {8, 8, 1, 1}, {.stride = Pair(1, 3)}},
    {"sequences as pictures", {5, 3, 1, 40}, {8, 3, 1, 9}, {.padding = Pair(0, 4)}},
    {"several parts", {5, 3, 512, 512}, {8, 3, 3, 3}, {.padding = 1}},
    {"not by products: nine channels", {2, 9, 8, 8}, {8, 9, 3, 3}},
    {"not by products: five results", {2, 3, 8, 8}, {5, 3, 3, 3}},
};

// y and the gradients of x, weight and bias.
std::vector<Tensor> results_of(const Case& row, DType dtype, Device device, Activation activation) {
  Generator generator(5);
  const auto leaf = [&](const Shape& shape) {
    // The same numbers for all dtypes, so that only the arithmetic differs.
    const Tensor x = randn(shape, {}, &generator).to(kBFloat16).to(dtype).to(device);
    return x.detach().requires_grad_();
  };
  const Tensor x = leaf(row.x), weight = leaf(row.weight), bias = leaf({row.weight[0]});
  const Tensor y = conv2d(x, weight, bias, row.options, activation);
  y.backward(randn(y.shape(), {}, &generator).to(kBFloat16).to(dtype).to(device));
  std::vector<Tensor> results;
  for (const Tensor& t : {y.detach(), x.grad(), weight.grad(), bias.grad()}) {
    results.push_back(t.to(Device("cpu")).to(kFloat64));
  }
  return results;
}

TEST(ConvRows, HalfTypesAgreeWithDouble) {
  for (const Device device : all_devices()) {
    for (const Case& row : kCases) {
      if (device.is_cpu() && row.x.numel() > 1000000) continue;
      for (const Activation activation : {Activation::kNone, Activation::kRelu}) {
        const std::vector<Tensor> exact = results_of(row, kFloat64, "cpu", activation);
        for (const DType dtype : {kBFloat16, kFloat16}) {
          const std::vector<Tensor> half = results_of(row, dtype, device, activation);
          // Some sums are close to 0 and have another sign after rounding, so that ReLU's gradient
          // differs.
          const size_t compared = activation == Activation::kRelu ? 1 : exact.size();
          for (size_t i = 0; i < compared; ++i) {
            const double scale = exact[i].abs().max().item<double>();
            const double error = (half[i] - exact[i]).abs().max().item<double>();
            EXPECT_LE(error, scale * (dtype == kFloat16 ? 2e-3 : 8e-3))
                << row.name << ", " << concat_to_string(dtype, " on ", device) << ", result " << i;
          }
        }
      }
    }
  }
}

TEST(ConvRows, HaveTheSameBitsEachTime) {
  if (skip_without_cuda()) return;
  for (const Case& row : kCases) {
    const std::vector<Tensor> a = results_of(row, kBFloat16, "cuda", Activation::kRelu);
    const std::vector<Tensor> b = results_of(row, kBFloat16, "cuda", Activation::kRelu);
    for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(same_bits(a[i], b[i])) << row.name;
  }
}

}  // namespace
}  // namespace taper::v0::test
