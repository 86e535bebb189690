// The gradient of a product of all elements.
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "autograd/engine.h"
#include "autograd/ops/binary_ops.h"
#include "autograd/ops/reduce_ops.h"
#include "autograd/ops/shape_ops.h"
#include "autograd/ops/unary_ops.h"
#include "framework/factory/factories.h"
#include "framework/factory/generator.h"
#include "tests/testing.h"

namespace taper::v0::test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

Tensor gradient_of_product(const Tensor& x, double dy) {
  const Tensor leaf = x.detach().requires_grad_(), y = prod(leaf);
  return grad({y}, {leaf}, {full_like(y, dy)})[0];
}

// Returns n random numbers in [1/2, 2] whose product is close to 1.
Tensor balanced(int64_t n) {
  Generator generator(1);
  const Tensor t = exp2(rand({(n + 1) / 2}, {}, &generator) * 2 - 1);
  return flatten(stack({t, reciprocal(t)}, 1)).narrow(0, 0, n).contiguous();
}

TEST(ProductGradient, IsTheProductOfAllOtherElements) {
  for (const Device device : all_devices()) {
    for (const DType dtype : {kFloat32, kFloat64, kBFloat16, kFloat16}) {
      if (is_half(dtype) && device.is_cpu()) continue;  // rounds the products of parts
      // One element, parts of vectors, and several rounds of 1024 blocks.
      for (const int64_t n : {1, 2, 5, 1025, 40000, (3 << 20) + 5}) {
        for (const int64_t offset : {0, 1}) {  // aligned or not
          const Tensor x = balanced(n + offset).to(dtype).to(device).narrow(0, offset, n);
          const std::vector<double> values = x.to(kFloat64).cpu().contiguous().to_vector<double>();
          long double product = 1;
          for (const double v : values) product *= v;
          std::vector<double> want;
          for (const double v : values) want.push_back(double(product / v) * 3);
          const double tolerance = dtype == kFloat64    ? 1e-11
                                   : dtype == kFloat32  ? 2e-5
                                   : dtype == kBFloat16 ? 8e-3
                                                        : 1e-3;
          EXPECT_TRUE(close(gradient_of_product(x, 3), {n}, want, tolerance))
              << concat_to_string(n, " elements in ", dtype, " on ", device, ", offset ", offset);
        }
      }
    }
  }
}

// Products of parts of these factors overflow or underflow, or are not numbers.
TEST(ProductGradient, HasEveryRepresentableValueOnAGpu) {
  if (skip_without_cuda()) return;
  const struct {
    std::vector<float> x, dx;
  } kCases[] = {
      {{1e30f, 1e30f, 1e-30f, 1e-30f}, {1e-30f, 1e-30f, 1e30f, 1e30f}},
      {{1e-30f, 1e-30f, 1e-30f, 1e30f, 1e30f}, {1, 1, 1, 0, 0}},
      {{1e30f, 1e30f, 1e-20f}, {1e10f, 1e10f, kInf}},
      {{0x1p-133f, 0x1p126f, -2}, {-0x1p127f, -0x1p-132f, 0x1p-7f}},
      {{0, 2, 3}, {6, 0, 0}},
      {{0, 0, 5}, {0, 0, 0}},
      {{kInf, 2, -3}, {-6, -kInf, kInf}},
      {{kNan, 2, 3}, {6, kNan, kNan}},
      {{0, kInf, 2}, {kInf, 0, kNan}},
      {{0, 0, 0, kInf}, {kNan, kNan, kNan, 0}},
      {{-5}, {1}},
  };
  for (const auto& c : kCases) {
    const Tensor x = tensor_of(c.x.data(), {int64_t(c.x.size())}).to(Device("cuda"));
    const std::vector<float> dx = gradient_of_product(x, 1).cpu().to_vector<float>();
    for (size_t i = 0; i < c.dx.size(); ++i) {
      const float got = dx[i], want = c.dx[i];
      const bool same = got == want || (std::isnan(got) && std::isnan(want));
      EXPECT_TRUE(same || std::abs(got - want) <= 2e-6f * std::abs(want))
          << "element " << i << " of case " << &c - kCases << ": " << got << ", not " << want;
    }
  }
}

}  // namespace
}  // namespace taper::v0::test
