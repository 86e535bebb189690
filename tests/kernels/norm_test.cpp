// Properties of normalization that the op table does not cover: running statistics, mixed dtypes,
// layouts, large means, and the same bits for any number of threads.
#include <cmath>

#include <gtest/gtest.h>

#include "autograd/engine.h"
#include "autograd/ops/binary_ops.h"
#include "autograd/ops/nn/norm_ops.h"
#include "autograd/ops/shape_ops.h"
#include "framework/factory/factories.h"
#include "framework/factory/generator.h"
#include "framework/host/thread_pool.h"
#include "tests/testing.h"

namespace taper::v0::test {
namespace {

// Channels of three elements: {1, 2, 6} and {-2, 0, 5}.
Tensor two_channels(Device d) {
  return tensor({1, -2, 2, 0, 6, 5}, {.dtype = kFloat32, .device = d}).view({3, 2});
}

TEST(BatchNorm, TrainingMovesRunningStatisticsByMomentum) {
  for (const Device d : all_devices()) {
    for (const DType dtype : {kFloat32, kBFloat16}) {
      const Tensor mean = zeros({2}, {.dtype = dtype, .device = d});
      const Tensor var = ones({2}, {.dtype = dtype, .device = d});
      const Tensor x = two_channels(d).to(dtype);
      (void)batch_norm(x, mean, var, {}, {}, true, 0.5);
      // The averages of the means 3 and 1 with 0, and of the unbiased variances 7 and 13 with 1.
      EXPECT_TRUE(close(mean, {2}, {1.5, 0.5}, 1e-6));
      EXPECT_TRUE(close(var, {2}, {4, 7}, 1e-6));
      EXPECT_EQ(mean.version(), 1u);
      EXPECT_EQ(var.version(), 1u);
      (void)batch_norm(x, mean, var);
      EXPECT_EQ(mean.version(), 1u);
      (void)batch_norm(zeros({0, 2}, {.dtype = dtype, .device = d}), mean, var, {}, {}, true);
      EXPECT_TRUE(close(mean, {2}, {1.5, 0.5}, 1e-6));
    }
  }
}

TEST(BatchNorm, KeepsTheLayoutItIsGiven) {
  for (const Device d : all_devices()) {
    const Tensor x = permute(two_channels(d).view({1, 3, 1, 2}), {0, 3, 1, 2});
    const Tensor y = batch_norm(x, {}, {}, {.training = true});
    EXPECT_EQ(y.strides(), x.strides());
    EXPECT_TRUE(close(y, batch_norm(x.contiguous(), {}, {}, {.training = true}), 1e-6));
  }
}

TEST(Norm, HalfInputsTakeFloatParameters) {
  for (const Device d : all_devices()) {
    for (const DType dtype : {kFloat16, kBFloat16}) {
      const Tensor x = two_channels(d).to(dtype).requires_grad_();
      const Tensor w = ones({2}, {.device = d}).requires_grad_();
      const Tensor b = zeros({2}, {.device = d}).requires_grad_();
      for (const Tensor& y : {layer_norm(x, {2}, w, b), rms_norm(x, {2}, w), group_norm(x, 1, w, b),
                              batch_norm(x, {}, {}, {.weight = w, .bias = b, .training = true}),
                              batch_norm(x, zeros({2}, {.device = d}), ones({2}, {.device = d}),
                                         {.weight = w, .bias = b})}) {
        EXPECT_EQ(y.dtype(), dtype);
        const auto dx = grad({y}, {x, w}, {ones_like(y)}, {.retain_graph = true});
        EXPECT_EQ(dx[0].dtype(), dtype);
        EXPECT_EQ(dx[1].dtype(), kFloat32);
      }
    }
  }
}

// Values 1000 + u / 100 in float32, whose spacing is 6e-5, or 0.009 standard deviations. The mean
// may be off by half of that; the variance must be accurate.
TEST(Norm, LargeMeansLeaveTheVarianceAccurate) {
  constexpr int64_t kRows = 600, kColumns = 40;
  std::vector<double> values;
  for (int64_t i = 0; i < kRows * kColumns; ++i) {
    values.push_back(float(1000 + 0.01 * std::sin(double(i * i % 1009))));
  }
  values[0] = 0;  // an outlier where an algorithm might choose its shift
  values[kColumns] = 1000;
  const auto check = [&](const Tensor& y, const Tensor& want) {
    EXPECT_TRUE(close(y, want, 1e-2));
    const std::vector<float> v = y.cpu().to_floats();
    double squares = 0;
    for (const float f : v) squares += double(f) * f;
    EXPECT_NEAR(squares / double(v.size()), 1, 2e-3);
  };
  for (const Device d : all_devices()) {
    const Tensor all =
        tensor_of(values.data(), {kRows, kColumns}, {.dtype = kFloat64, .device = d});
    const Tensor wide = narrow(all, 0, 1, kRows - 1).contiguous(), x = wide.to(kFloat32);
    check(layer_norm(x, {kColumns}, {}, {}, 1e-12), layer_norm(wide, {kColumns}, {}, {}, 1e-12));
    check(batch_norm(x, {}, {}, {.training = true, .eps = 1e-12}),
          batch_norm(wide, {}, {}, {.training = true, .eps = 1e-12}));
    const Tensor planes = x.view({1, kRows - 1, kColumns}),
                 wide_planes = wide.view({1, kRows - 1, kColumns});
    check(batch_norm(planes, {}, {}, {.training = true, .eps = 1e-12}),
          batch_norm(wide_planes, {}, {}, {.training = true, .eps = 1e-12}));
    // With the outlier, the variance of its channel is dominated by one element.
    EXPECT_TRUE(close(batch_norm(all.to(kFloat32), {}, {}, {.training = true, .eps = 1e-3}),
                      batch_norm(all, {}, {}, {.training = true, .eps = 1e-3}), 1e-2));
  }
}

TEST(Norm, ResultsDoNotDependOnTheNumberOfThreads) {
  const auto results = [](int threads) {
    const int before = get_num_threads();
    set_num_threads(threads);
    manual_seed(5);
    const Tensor x = randn({700, 96}).requires_grad_(), w = randn({96}).requires_grad_();
    const Tensor images = randn({4, 96, 30, 30}).requires_grad_();
    std::vector<Tensor> out;
    const auto run = [&](const Tensor& y, const Tensor& input) {
      out.push_back(y);
      for (const Tensor& g : grad({y * y}, {input, w}, {ones_like(y)})) out.push_back(g);
    };
    run(layer_norm(x, {96}, w), x);
    run(batch_norm(x, {}, {}, {.weight = w, .training = true}), x);
    run(batch_norm(images, {}, {}, {.weight = w, .training = true}), images);
    run(group_norm(images, 8, w), images);
    set_num_threads(before);
    return out;
  };
  const std::vector<Tensor> one = results(1), four = results(4);
  for (size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(close(four[i], one[i], 0)) << i;
}

}  // namespace
}  // namespace taper::v0::test
