// Cases that the op table's rows do not cover: signs of zero, integer overflow, empty images.
#include <cmath>
#include <limits>
#include <string_view>

#include <gtest/gtest.h>

#include "autograd/ops/binary_ops.h"
#include "autograd/ops/index/index_ops.h"
#include "autograd/ops/matmul_ops.h"
#include "autograd/ops/nn/pool_ops.h"
#include "autograd/ops/reduce_ops.h"
#include "autograd/ops/shape_ops.h"
#include "autograd/ops/unary_ops.h"
#include "framework/factory/factories.h"
#include "tests/testing.h"

namespace taper::v0::test {
namespace {

constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

struct OddFunction {
  const char* name;
  Tensor (*f)(const Tensor&);
};
const OddFunction kOdd[] = {{"sin", sin},     {"tan", tan},     {"asin", asin},   {"atan", atan},
                            {"sinh", sinh},   {"tanh", tanh},   {"erf", erf},     {"expm1", expm1},
                            {"log1p", log1p}, {"trunc", trunc}, {"round", round}, {"ceil", ceil},
                            {"floor", floor}, {"sqrt", sqrt}};

// In vectorized elements and in the remainder; also with an argument for which functions leave
// their fast formula.
TEST(Extremes, FunctionsWithF0Equal0KeepTheSignOfZero) {
  for (const Device device : all_devices()) {
    for (const DType dtype : {kFloat32, kFloat64, kFloat16, kBFloat16}) {
      for (const double last : {0.5, 3e7}) {
        std::vector<double> values;
        for (int i = 0; i < 36; ++i) values.push_back(i % 2 == 0 ? 0.0 : -0.0);
        values.push_back(last);
        const Tensor x = tensor_of(values.data(), {37}, {.device = device}).to(dtype);
        for (const auto& [name, f] : kOdd) {
          const std::vector<double> y = f(x).cpu().to_vector<double>();
          for (size_t i = 0; i < 36; ++i) {
            ASSERT_TRUE(y[i] == 0 && std::signbit(y[i]) == std::signbit(values[i]))
                << name << " of " << values[i] << " is " << y[i] << ", " << to_string(dtype);
          }
        }
      }
    }
  }
}

struct IntegerCase {
  const char* name;
  Tensor (*f)(const Tensor& a, const Tensor& b);
  int64_t a, b, expected;
};
const IntegerCase kWraps[] = {
    {"add", [](auto& a, auto& b) { return a + b; }, kMax, 1, kMin},
    {"sub", [](auto& a, auto& b) { return a - b; }, kMin, 1, kMax},
    {"mul", [](auto& a, auto& b) { return a * b; }, kMax, 2, -2},
    {"pow", [](auto& a, auto& b) { return pow(a, b); }, 3, 41, -420491770248316829},
    {"square", [](auto& a, auto&) { return square(a); }, kMax, 0, 1},
    {"neg", [](auto& a, auto&) { return -a; }, kMin, 0, kMin},
    {"abs", [](auto& a, auto&) { return abs(a); }, kMin, 0, kMin},
    {"floor_divide", [](auto& a, auto& b) { return floor_divide(a, b); }, kMin, -1, kMin},
    {"remainder", [](auto& a, auto& b) { return remainder(a, b); }, kMin, -1, 0},
    {"addcmul", [](auto& a, auto& b) { return addcmul(a, b, b, 3); }, kMax, 1, kMin + 2},
    {"sum",
     [](auto& a, auto& b) {
       return sum(cat({a, b}), {0}, true);
     },
     kMax, 1, kMin},
    {"prod",
     [](auto& a, auto& b) {
       return prod(cat({a, b}), 0, true);
     },
     kMax, 2, -2},
    {"cumsum",
     [](auto& a, auto& b) {
       return narrow(cumsum(cat({a, b}), 0), 0, 1, 1);
     },
     kMax, 1, kMin},
    {"cumprod",
     [](auto& a, auto& b) {
       return narrow(cumprod(cat({a, b}), 0), 0, 1, 1);
     },
     kMax, 2, -2},
    {"matmul", [](auto& a, auto& b) { return matmul(a, b).reshape({1}); }, kMax, 2, -2},
    {"sum of products",
     [](auto& a, auto& b) {
       return matmul(cat({a, b}), cat({b, a})).reshape({1});
     },
     kMax, 1, -2},
};

bool is_matmul(std::string_view name) { return name == "matmul" || name == "sum of products"; }

TEST(Extremes, IntegerArithmeticWrapsAround) {
  for (const Device device : all_devices()) {
    for (const auto& [name, f, a, b, expected] : kWraps) {
      // Integer matrix products exist only on the CPU, as in PyTorch.
      if (device.is_cuda() && is_matmul(name)) continue;
      const Tensor y = f(tensor({a}, {.device = device}), tensor({b}, {.device = device}));
      EXPECT_EQ(y.item<int64_t>(), expected) << name;
    }
  }
}

// The output is empty, so the gradient is 0.
TEST(Extremes, GradientsOfImagesWithoutPixelsAreZero) {
  for (const Device device : all_devices()) {
    const Tensor x = ones({2, 3, 4, 5}, {.device = device, .requires_grad = true});
    for (const Tensor& y : {adaptive_avg_pool2d(x, 0), adaptive_avg_pool2d(x, Pair(0, 2))}) {
      EXPECT_EQ(y.numel(), 0);
      y.sum().backward();
      EXPECT_TRUE(close(x.grad(), zeros(x.shape(), {.device = device}), 0));
    }
  }
}

// A slice of an empty tensor has an offset but no memory.
TEST(Extremes, PartsOfEmptyTensorsAreWrittenAndRead) {
  for (const Device device : all_devices()) {
    const Tensor x = zeros({0, 4}, {.device = device});
    const Tensor part = x.narrow(1, 2, 2);
    part.add_(x.narrow(1, 0, 2)).mul_(2).fill_(3);
    EXPECT_EQ((part + 1).sum().item<float>(), 0);
    EXPECT_TRUE(part.cpu().to_vector<float>().empty());
  }
}

}  // namespace
}  // namespace taper::v0::test
