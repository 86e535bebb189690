// Initial values: distributions, bounds, orthogonality, and the same bits on every device.
#include "modules/init.h"

#include <cmath>
#include <functional>
#include <type_traits>

#include <gtest/gtest.h>

#include "autograd/ops/binary_ops.h"
#include "autograd/ops/matmul_ops.h"
#include "framework/factory/factories.h"
#include "modules/layers/linear.h"
#include "tests/testing.h"

namespace taper::v0::test {
namespace {

struct Moments {
  double mean = 0, variance = 0, low = INFINITY, high = -INFINITY;
};
Moments moments_of(const Tensor& x) {
  const std::vector<double> values = values_of(x);
  Moments m;
  for (const double v : values) {
    m.mean += v / double(values.size());
    m.low = std::min(m.low, v);
    m.high = std::max(m.high, v);
  }
  for (const double v : values) m.variance += (v - m.mean) * (v - m.mean) / double(values.size());
  return m;
}

struct Case {
  const char* name;
  std::function<Tensor(const Tensor&, Generator*)> f;
  double mean, variance;
  double low = -INFINITY, high = INFINITY;  // bounds that values come close to
};

// For a weight [300, 40, 2]: fan_in 80, fan_out 600.
std::vector<Case> cases() {
  const double glorot = std::sqrt(6.0 / 680), he = std::sqrt(3.0 / 80 * 2 / (1 + 0.04));
  return {
      {"uniform", [](auto& x, auto g) { return init::uniform_(x, -1, 3, g); }, 1, 16.0 / 12, -1, 3},
      {"normal", [](auto& x, auto g) { return init::normal_(x, 2, 0.5, g); }, 2, 0.25},
      {"xavier_uniform", [](auto& x, auto g) { return init::xavier_uniform_(x, 2, g); }, 0,
       4 * glorot * glorot / 3, -2 * glorot, 2 * glorot},
      {"xavier_normal", [](auto& x, auto g) { return init::xavier_normal_(x, 1, g); }, 0,
       2.0 / 680},
      {"kaiming_uniform",
       [](auto& x, auto g) { return init::kaiming_uniform_(x, {.a = 0.2, .generator = g}); }, 0,
       he * he / 3, -he, he},
      {"kaiming_normal",
       [](auto& x, auto g) {
         return init::kaiming_normal_(x,
                                      {.mode = "fan_out", .nonlinearity = "relu", .generator = g});
       },
       0, 2.0 / 600},
      // The variance of N(0, 1) truncated to [-2, 2] is 1 - 4 phi(2) / (Phi(2) - Phi(-2)).
      {"trunc_normal", [](auto& x, auto g) { return init::trunc_normal_(x, 1, 3, -5, 7, g); }, 1,
       9 * 0.7737413, -5, 7},
  };
}

TEST(Init, DrawsWhatPyTorchDrawsFrom) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    Generator generator(7);
    const Tensor x = empty({300, 40, 2});
    EXPECT_TRUE(c.f(x, &generator).is_same(x));
    const Moments m = moments_of(x);
    const double deviation = std::sqrt(c.variance);
    EXPECT_NEAR(m.mean, c.mean, 4 * deviation / std::sqrt(24'000));
    EXPECT_NEAR(m.variance / c.variance, 1, 0.03);
    EXPECT_GE(m.low, c.low);
    EXPECT_LE(m.high, c.high);
    if (std::isinf(c.high)) continue;
    EXPECT_LT(m.low, c.low + 0.01 * deviation);
    EXPECT_GT(m.high, c.high - 0.01 * deviation);
  }
}

TEST(Init, GivesTheSameBitsOnEveryDeviceAndLeavesNoTrace) {
  std::vector<Case> all = cases();
  all.push_back({"orthogonal", [](auto& x, auto g) { return init::orthogonal_(x, 2, g); }, 0, 0});
  for (const Case& c : all) {
    SCOPED_TRACE(c.name);
    Generator generator(7);
    const Tensor want = c.f(empty({30, 7, 2}), &generator);
    for (const Device device : all_devices()) {
      manual_seed(7);
      const Tensor x = empty({30, 7, 2}, {.device = device, .requires_grad = true});
      const uint32_t version = x.version();
      c.f(x, nullptr);
      EXPECT_TRUE(same_bits(x, want)) << to_string(device);
      EXPECT_TRUE(x.is_leaf() && x.requires_grad());
      EXPECT_GT(x.version(), version);
    }
  }
}

static_assert(std::is_same_v<decltype(init::ones_(empty({2}))), Tensor>);

TEST(Init, FillsWithConstants) {
  for (const Device device : all_devices()) {
    const Tensor x = empty({2, 3}, {.device = device, .requires_grad = true});
    EXPECT_TRUE(close(init::constant_(x, 0.5), {2, 3}, {0.5, 0.5, 0.5, 0.5, 0.5, 0.5}, 0));
    EXPECT_TRUE(close(init::ones_(x), ones({2, 3}), 0));
    EXPECT_TRUE(close(init::zeros_(x), zeros({2, 3}), 0));
    EXPECT_TRUE(close(init::eye_(x), {2, 3}, {1, 0, 0, 0, 1, 0}, 0));
    EXPECT_TRUE(close(init::eye_(x.detach().t()), {3, 2}, {1, 0, 0, 1, 0, 0}, 0));
  }
}

TEST(Init, TakesParametersOfLayers) {
  Linear layer(3, 2);
  init::constant_(layer.weight, 2);
  EXPECT_TRUE(close(layer.state_dict()[0].tensor, {2, 3}, {2, 2, 2, 2, 2, 2}, 0));
}

// The results of torch.nn.init.calculate_gain and _calculate_fan_in_and_fan_out.
TEST(Init, GainsAndFansArePyTorchs) {
  EXPECT_EQ(init::calculate_gain("linear"), 1);
  EXPECT_EQ(init::calculate_gain("conv2d"), 1);
  EXPECT_EQ(init::calculate_gain("sigmoid"), 1);
  EXPECT_EQ(init::calculate_gain("selu"), 0.75);
  EXPECT_EQ(init::calculate_gain("tanh"), 1.6666666666666667);
  EXPECT_EQ(init::calculate_gain("relu"), 1.4142135623730951);
  EXPECT_EQ(init::calculate_gain("leaky_relu"), 1.4141428569978354);
  EXPECT_EQ(init::calculate_gain("leaky_relu", 0.2), 1.3867504905630728);
  const auto fans = [](const Shape& shape) {
    const init::Fans f = init::calculate_fan_in_and_fan_out(empty(shape));
    return std::pair(f.in, f.out);
  };
  EXPECT_EQ(fans({3, 5}), std::pair(5.0, 3.0));
  EXPECT_EQ(fans({6, 2, 3}), std::pair(6.0, 18.0));
  EXPECT_EQ(fans({6, 2, 3, 4}), std::pair(24.0, 72.0));
}

// Applying the distribution function to the values returns the uniform numbers.
TEST(Init, TruncNormalInvertsItsDistributionFunction) {
  const auto cdf = [](double x) { return std::erfc(-x / std::sqrt(2.0)) / 2; };
  const Tensor x = empty({5000}, {.dtype = kFloat64});
  for (const auto& [a, b] : {std::pair(-2.0, 2.0), std::pair(-9.0, 9.0), std::pair(1.0, 1.5)}) {
    Generator first(3), second(3);
    init::trunc_normal_(x, 0.25, 0.5, a, b, &first);
    const std::vector<double> values = values_of(x),
                              uniform = values_of(rand({5000}, {.dtype = kFloat64}, &second));
    const double low = cdf((a - 0.25) / 0.5), high = cdf((b - 0.25) / 0.5);
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_NEAR((cdf((values[i] - 0.25) / 0.5) - low) / (high - low), uniform[i], 1e-12) << i;
    }
  }
}

TEST(Init, OrthogonalIsTheQOfNormalsWithAPositiveR) {
  for (const Shape& shape : {Shape{5, 5}, Shape{70, 45}, Shape{45, 70}, Shape{1, 4}, Shape{4, 1},
                             Shape{8, 2, 3, 3}, Shape{150, 140}}) {
    SCOPED_TRACE(to_string(shape));
    const int64_t rows = shape[0], columns = shape.numel() / rows, least = std::min(rows, columns);
    Generator first(11), second(11);
    const Tensor x = empty(shape, {.dtype = kFloat64});
    const Tensor q = init::orthogonal_(x, 3, &first).view({rows, columns}) / 3;
    const Tensor drawn = randn({rows, columns}, {.dtype = kFloat64}, &second);
    const bool wide = rows < columns;
    const Tensor identity = wide ? matmul(q, q.t()) : matmul(q.t(), q);
    EXPECT_TRUE(close(identity, eye(least, {.dtype = kFloat64}), 1e-13));
    const Tensor r = wide ? matmul(q, drawn.t()) : matmul(q.t(), drawn);
    for (int64_t i = 0; i < least; ++i) {
      EXPECT_GT(r[i][i].item<double>(), 0) << i;
      for (int64_t j = 0; j < i; ++j)
        ASSERT_NEAR(r[i][j].item<double>(), 0, 1e-12) << i << " " << j;
    }
  }
  EXPECT_EQ(init::orthogonal_(empty({0, 3})).numel(), 0);
}

TEST(Init, WrongArgumentsAreRefusedInPyTorchsWords) {
  const Tensor vector = empty({3}), matrix = empty({3, 3});
  const char* kNoFans =
      "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions";
  EXPECT_TRUE(refuses<ValueError>([&] { return init::xavier_normal_(vector); }, kNoFans));
  EXPECT_TRUE(refuses<ValueError>([&] { return init::kaiming_uniform_(vector); }, kNoFans));
  EXPECT_TRUE(refuses<ValueError>([&] { return init::eye_(vector); },
                                  "Only tensors with 2 dimensions are supported"));
  EXPECT_TRUE(refuses<ValueError>([&] { return init::orthogonal_(vector); },
                                  "Only tensors with 2 or more dimensions are supported"));
  EXPECT_TRUE(
      refuses<ValueError>([&] { return init::kaiming_normal_(matrix, {.mode = "fan"}); },
                          "'fan' is not a valid value for mode, which is 'fan_in' or 'fan_out'"));
  EXPECT_TRUE(
      refuses<ValueError>([&] { return init::calculate_gain("gelu"); },
                          "'gelu' is not a valid value for nonlinearity, which is 'linear', "));
  EXPECT_TRUE(
      refuses<Error>([&] { return init::uniform_(matrix, 2, 1); },
                     "uniform_ expects to return a [from, to) range, but found from=2 > to=1"));
  EXPECT_TRUE(refuses<Error>([&] { return init::normal_(matrix, 0, -1); },
                             "normal expects std >= 0.0, but found std -1"));
}

}  // namespace
}  // namespace taper::v0::test
