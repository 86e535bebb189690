// Properties of convolution that the op table does not cover: memory format, slices of the batch
// and threads, and several rounds of columns.
#include "framework/kernels/conv/conv.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "autograd/ops/binary_ops.h"
#include "autograd/ops/nn/conv_ops.h"
#include "autograd/ops/reduce_ops.h"
#include "autograd/ops/shape_ops.h"
#include "autograd/ops/unary_ops.h"
#include "framework/factory/factories.h"
#include "framework/host/thread_pool.h"
#include "tests/testing.h"

namespace taper::v0::test {
namespace {

// Fixed multiples of 1/8 in [-1, 1].
Tensor pattern(const Shape& shape, DType dtype, Device device) {
  std::vector<double> values;
  for (int64_t i = 0; i < shape.numel(); ++i) values.push_back(double(i * 37 % 17 - 8) / 8);
  return tensor_of(values.data(), shape, {.dtype = dtype, .device = device});
}

struct Results {
  Tensor y, dx, dweight, dbias;
};
Results run(const Shape& shape, const Shape& kernel, DType dtype, Device device,
            const Conv2dOptions& options) {
  const Tensor x = pattern(shape, dtype, device).requires_grad_();
  const Tensor weight = pattern(kernel, dtype, device).requires_grad_();
  const Tensor bias = pattern({kernel[0]}, dtype, device).requires_grad_();
  const Tensor y = conv2d(x, weight, bias, options);
  y.backward(pattern(y.shape(), dtype, device));
  return {y.detach(), x.grad(), weight.grad(), bias.grad()};
}

TEST(Conv, ResultsLieInChannelsLastAndTheGradientOfTheWeightIsRowMajor) {
  for (const Device device : all_devices()) {
    const Results r = run({2, 3, 5, 7}, {4, 3, 2, 3}, kFloat32, device, {});
    EXPECT_EQ(r.y.strides(), Shape({80, 1, 20, 4}));
    EXPECT_EQ(r.dx.strides(), Shape({105, 1, 21, 3}));
    EXPECT_TRUE(r.dweight.is_contiguous());
  }
}

// A library's kernel that works in whole vectors must not write beyond the last channel.
TEST(Conv, CpuKernelsWriteNothingBesideTheirResult) {
  using namespace kernels;
  constexpr int64_t kBefore = 64, kN = 3, kIn = 8;
  for (const int64_t c : {1, 3, 4, 8, 12, 16, 20}) {
    for (const int64_t o : {1, 4, 8, 16, 24}) {
      for (const int64_t kernel : {1, 3}) {
        for (const int64_t stride : {1, 2}) {
          const int64_t padding = kernel / 2, out = (kIn + 2 * padding - kernel) / stride + 1;
          const ConvAxis axis{kIn, kernel, out, stride, padding, 1};
          const ConvSizes sizes{kN, c, o, 1, axis, axis};
          for (const ConvPass pass : {ConvPass::kY, ConvPass::kDx, ConvPass::kDWeight}) {
            ConvTensors t{.x = pattern({kN, kIn, kIn, c}, kFloat32, "cpu"),
                          .weight = pattern({o, kernel, kernel, c}, kFloat32, "cpu"),
                          .y = pattern({kN, out, out, o}, kFloat32, "cpu")};
            Tensor& result = pass == ConvPass::kY ? t.y : pass == ConvPass::kDx ? t.x : t.weight;
            const int64_t size = result.numel();
            const Tensor around = full({kBefore + size + kBefore}, 7.5);
            result = around.narrow(0, kBefore, size).view(result.shape());
            if (!cpu::conv(pass, sizes, t)) continue;
            const std::vector<float> all = around.to_floats();
            const auto untouched = [](float x) { return x == 7.5f; };
            EXPECT_TRUE(std::all_of(all.begin(), all.begin() + kBefore, untouched) &&
                        std::all_of(all.end() - kBefore, all.end(), untouched))
                << "pass " << int(pass) << ", " << c << " to " << o << " channels, kernel "
                << kernel << ", stride " << stride;
          }
        }
      }
    }
  }
}

TEST(Conv, OtherOperatorsTakeItsMemoryFormat) {
  for (const Device device : all_devices()) {
    const Tensor y = run({2, 3, 5, 7}, {4, 3, 2, 3}, kFloat32, device, {}).y;
    const Tensor rows = y.contiguous();
    ASSERT_TRUE(rows.is_contiguous());
    ASSERT_TRUE(same_bits(y, rows));
    EXPECT_EQ(relu(y).strides(), y.strides());
    EXPECT_EQ((y + y).strides(), y.strides());
    EXPECT_TRUE(same_bits(relu(y), relu(rows)));
    EXPECT_TRUE(same_bits(y + rows, rows + rows));
    EXPECT_TRUE(same_bits(y.flatten(1), rows.flatten(1)));
    EXPECT_TRUE(same_bits(y.reshape({8, 20}), rows.reshape({8, 20})));
    EXPECT_TRUE(close(sum(y, {1}), sum(rows, {1}), 1e-6));
    EXPECT_TRUE(close(mean(y, {0, 2, 3}), mean(rows, {0, 2, 3}), 1e-6));
    EXPECT_TRUE(same_bits(argmax(y, 1), argmax(rows, 1)));
  }
}

// 67 images: more than one per slice, and a smaller last slice.
TEST(Conv, BatchesOfSeveralSlicesAgreeWithDouble) {
  for (const Device device : all_devices()) {
    for (const int64_t groups : {1, 3}) {
      const Conv2dOptions options{.stride = 2, .padding = 1, .groups = groups};
      const Results narrow = run({67, 6, 9, 8}, {9, 6 / groups, 3, 3}, kFloat32, device, options);
      const Results wide = run({67, 6, 9, 8}, {9, 6 / groups, 3, 3}, kFloat64, device, options);
      EXPECT_TRUE(close(narrow.y, wide.y, 1e-5));
      EXPECT_TRUE(close(narrow.dx, wide.dx, 1e-5));
      EXPECT_TRUE(close(narrow.dweight, wide.dweight, 1e-4));
      EXPECT_TRUE(close(narrow.dbias, wide.dbias, 1e-4));
    }
  }
}

// More than 2^24 elements of columns need several rounds; a single image needs one.
TEST(Conv, ColumnsOfSeveralRoundsAgreeWithOne) {
  const auto together = run({3, 64, 96, 96}, {1, 64, 5, 5}, kFloat64, Device(), {}).y;
  const Tensor x = pattern({3, 64, 96, 96}, kFloat64, Device());
  const Tensor weight = pattern({1, 64, 5, 5}, kFloat64, Device());
  for (int64_t n = 0; n < 3; ++n) {
    const Tensor one = conv2d(x[n], weight, pattern({1}, kFloat64, Device()));
    EXPECT_TRUE(same_bits(one, together[n].contiguous()));
  }
}

TEST(Conv, TheNumberOfThreadsChangesNoBit) {
  const int before = get_num_threads();
  for (const DType dtype : {kFloat32, kFloat64, kBFloat16}) {
    std::vector<Results> all;
    for (const int threads : {1, 2, 3}) {
      set_num_threads(threads);
      all.push_back(run({37, 8, 12, 11}, {16, 8, 3, 3}, dtype, Device(), {.padding = 1}));
    }
    for (const Results& r : all) {
      EXPECT_TRUE(same_bits(r.y, all[0].y));
      EXPECT_TRUE(same_bits(r.dx, all[0].dx));
      EXPECT_TRUE(same_bits(r.dweight, all[0].dweight));
      EXPECT_TRUE(same_bits(r.dbias, all[0].dbias));
    }
  }
  set_num_threads(before);
}

TEST(Conv, ItsNodeHasPyTorchsName) {
  const Tensor x = ones({1, 1, 3, 3}), weight = ones({1, 1, 2, 2}).requires_grad_();
  EXPECT_STREQ(conv2d(x, weight).grad_fn(), "ConvolutionBackward0");
  EXPECT_STREQ(conv1d(x.flatten(2), weight.flatten(2)).grad_fn(), "ConvolutionBackward0");
}

}  // namespace
}  // namespace taper::v0::test
