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
Tensor convolved(const Tensor& x, const Tensor& weight, const Tensor& bias,
                 const Conv2dOptions& o) {
  return conv2d(x, weight, bias, o);
}
Tensor convolved(const Tensor& x, const Tensor& weight, const Tensor& bias,
                 const Conv3dOptions& o) {
  return conv3d(x, weight, bias, o);
}
template <class Options = Conv2dOptions>
Results run(const Shape& shape, const Shape& kernel, DType dtype, Device device,
            const Options& options) {
  const Tensor x = pattern(shape, dtype, device).requires_grad_();
  const Tensor weight = pattern(kernel, dtype, device).requires_grad_();
  const Tensor bias = pattern({kernel[0]}, dtype, device).requires_grad_();
  const Tensor y = convolved(x, weight, bias, options);
  y.backward(pattern(y.shape(), dtype, device));
  return {y.detach(), x.grad(), weight.grad(), bias.grad()};
}

// Compares results in float32 with those in double.
void expect_close(const Results& narrow, const Results& wide) {
  EXPECT_TRUE(close(narrow.y, wide.y, 1e-5));
  EXPECT_TRUE(close(narrow.dx, wide.dx, 1e-5));
  EXPECT_TRUE(close(narrow.dweight, wide.dweight, 1e-4));
  EXPECT_TRUE(close(narrow.dbias, wide.dbias, 1e-4));
}

TEST(Conv, ResultsLieInChannelsLastAndTheGradientOfTheWeightIsRowMajor) {
  for (const Device device : all_devices()) {
    const Results r = run({2, 3, 5, 7}, {4, 3, 2, 3}, kFloat32, device, {});
    EXPECT_EQ(r.y.strides(), Shape({80, 1, 20, 4}));
    EXPECT_EQ(r.dx.strides(), Shape({105, 1, 21, 3}));
    EXPECT_TRUE(r.dweight.is_contiguous());
    const Results deep = run({2, 3, 4, 5, 7}, {4, 3, 2, 2, 3}, kFloat32, device, Conv3dOptions{});
    EXPECT_EQ(deep.y.strides(), Shape({240, 1, 80, 20, 4}));
    EXPECT_EQ(deep.dx.strides(), Shape({420, 1, 105, 21, 3}));
    EXPECT_TRUE(deep.dweight.is_contiguous());
  }
}

struct VectorCase {
  int64_t c, o, kernel, stride;
  bool is_3d;
};

std::vector<VectorCase> vector_cases() {
  std::vector<VectorCase> cases;
  for (const int64_t c : {1, 3, 4, 8, 12, 16, 20}) {
    for (const int64_t o : {1, 4, 8, 16, 24}) {
      for (const int64_t kernel : {1, 3}) {
        for (const int64_t stride : {1, 2}) {
          for (const bool is_3d : {false, true}) cases.push_back({c, o, kernel, stride, is_3d});
        }
      }
    }
  }
  return cases;
}

// A library's kernel that works in whole vectors must not write beyond the last channel.
TEST(Conv, CpuKernelsWriteNothingBesideTheirResult) {
  using namespace kernels;
  constexpr int64_t kBefore = 64, kN = 3, kIn = 6;
  for (const auto& [c, o, kernel, stride, is_3d] : vector_cases()) {
    const int64_t padding = kernel / 2, out = (kIn + 2 * padding - kernel) / stride + 1;
    const ConvAxis axis{kIn, kernel, out, stride, padding, 1};
    const ConvAxis depth =
        is_3d ? ConvAxis{20, kernel, 20 / stride, stride, padding, 1} : kNoConvAxis;
    const ConvSizes sizes{kN, c, o, 1, depth, axis, axis};
    for (const ConvPass pass : {ConvPass::kY, ConvPass::kDx, ConvPass::kDWeight}) {
      ConvTensors t{.x = pattern({kN, depth.in, kIn, kIn, c}, kFloat32, "cpu"),
                    .weight = pattern({o, depth.kernel, kernel, kernel, c}, kFloat32, "cpu"),
                    .y = pattern({kN, depth.out, out, out, o}, kFloat32, "cpu")};
      Tensor& result = pass == ConvPass::kY ? t.y : pass == ConvPass::kDx ? t.x : t.weight;
      const int64_t size = result.numel();
      const Tensor around = full({kBefore + size + kBefore}, 7.5);
      result = around.narrow(0, kBefore, size).view(result.shape());
      if (!cpu::conv(pass, sizes, t)) continue;
      const std::vector<float> all = around.to_floats();
      const auto untouched = [](float x) { return x == 7.5f; };
      EXPECT_TRUE(std::all_of(all.begin(), all.begin() + kBefore, untouched) &&
                  std::all_of(all.end() - kBefore, all.end(), untouched))
          << "pass " << int(pass) << ", " << c << " to " << o << " channels, kernel " << kernel
          << ", stride " << stride << (is_3d ? ", three dimensions" : "");
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
      expect_close(narrow, wide);
    }
  }
}

TEST(Conv, BatchesOfVolumesAgreeWithDouble) {
  for (const Device device : all_devices()) {
    for (const int64_t groups : {1, 3}) {
      const Conv3dOptions options{.stride = {1, 2, 2}, .padding = 1, .groups = groups};
      const Shape x = {35, 6, 5, 6, 7}, kernel = {9, 6 / groups, 3, 3, 2};
      const Results narrow = run(x, kernel, kFloat32, device, options);
      const Results wide = run(x, kernel, kFloat64, device, options);
      expect_close(narrow, wide);
    }
  }
}

// A GPU has tiles of 128 or 64 pixels for more than 32 channels. The sizes decide which.
TEST(Conv, ManyChannelsAgreeWithDouble) {
  const struct {
    Shape x, kernel;
    Conv2dOptions options;
  } kCases[] = {{{2, 20, 7, 6}, {40, 20, 3, 3}, {}},
                {{3, 48, 11, 10}, {64, 48, 3, 3}, {.padding = 1}},
                {{5, 24, 9, 8}, {68, 24, 2, 3}, {.stride = 2, .padding = 1, .dilation = 2}},
                {{4, 16, 67, 66}, {64, 16, 3, 3}, {}}};  // 130 tiles of 128 pixels
  for (const auto& [x, kernel, options] : kCases) {
    for (const Device device : all_devices()) {
      SCOPED_TRACE(concat_to_string(x, " and ", kernel, " on ", device));
      const Results narrow = run(x, kernel, kFloat32, device, options);
      const Results wide = run(x, kernel, kFloat64, device, options);
      expect_close(narrow, wide);
    }
  }
  for (const Device device : all_devices()) {
    const Shape x = {2, 20, 4, 6, 5}, kernel = {40, 20, 2, 3, 3};
    const Results narrow = run(x, kernel, kFloat32, device, Conv3dOptions{});
    EXPECT_TRUE(close(narrow.y, run(x, kernel, kFloat64, device, Conv3dOptions{}).y, 1e-5));
  }
}

// The planes of a few large volumes are computed by several tasks, of which the gradients of
// neighbors overlap.
TEST(Conv, PlanesOfLargeVolumesAgreeWithDouble) {
  struct Case {
    int64_t n, d, kernel;
    Conv3dOptions options;
  };
  for (const Case& c :
       {Case{1, 41, 3, {.padding = 1}}, Case{2, 40, 3, {}},
        Case{1, 43, 3, {.stride = {2, 1, 1}, .padding = {1, 0, 0}}},
        Case{1, 45, 3, {.stride = {3, 1, 1}, .padding = {2, 1, 0}}},
        Case{3, 50, 2, {.stride = {2, 1, 2}, .dilation = {3, 1, 1}}},
        Case{1, 64, 4, {.stride = 2, .padding = {3, 1, 1}, .dilation = {2, 1, 1}}},
        Case{1, 37, 2, {.stride = {3, 1, 1}}}, Case{1, 30, 2, {.padding = {4, 0, 0}, .groups = 2}},
        Case{2, 33, 5, {.padding = "same", .groups = 2}}}) {
    for (const Device device : all_devices()) {
      const Shape x = {c.n, 4, c.d, 6, 5}, kernel = {8, 4 / c.options.groups, c.kernel, 3, 2};
      const Results narrow = run(x, kernel, kFloat32, device, c.options);
      const Results wide = run(x, kernel, kFloat64, device, c.options);
      SCOPED_TRACE(concat_to_string(x, " and ", kernel));
      expect_close(narrow, wide);
    }
  }
}

// A kernel of one plane convolves each plane like an image; a kernel of one pixel of each plane
// convolves rows of pixels.
TEST(Conv, AVolumeWithAPointwiseDimensionIsConvolvedLikeImages) {
  for (const Device device : all_devices()) {
    for (const DType dtype : {kFloat32, kFloat64, kBFloat16}) {
      const Tensor x = pattern({2, 6, 4, 5, 7}, dtype, device);
      const Tensor planes = pattern({8, 6, 1, 3, 2}, dtype, device);
      const Tensor y = conv3d(x, planes, {}, {.stride = {1, 2, 1}, .padding = {0, 1, 1}});
      const Tensor image = planes.squeeze(2);
      for (int64_t d = 0; d < 4; ++d) {
        const Tensor want =
            conv2d(x.select(2, d), image, {}, {.stride = {2, 1}, .padding = {1, 1}});
        EXPECT_TRUE(close(y.select(2, d), want, dtype == kBFloat16 ? 1e-2 : 1e-5));
      }
      const Tensor through = pattern({8, 6, 3, 1, 1}, dtype, device);
      const Tensor z = conv3d(x, through, {}, {.stride = {2, 1, 1}, .padding = {1, 0, 0}});
      const Tensor rows =
          conv2d(x.flatten(3), through.flatten(3), {}, {.stride = {2, 1}, .padding = {1, 0}});
      EXPECT_TRUE(close(z.flatten(3), rows, dtype == kBFloat16 ? 1e-2 : 1e-5));
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

// Runs with several numbers of threads and compares the bits.
template <class F> void expect_equal_bits(F results) {
  const int before = get_num_threads();
  std::vector<Results> all;
  for (const int threads : {1, 2, 3}) {
    set_num_threads(threads);
    all.push_back(results());
  }
  set_num_threads(before);
  for (const Results& r : all) {
    EXPECT_TRUE(same_bits(r.y, all[0].y));
    EXPECT_TRUE(same_bits(r.dx, all[0].dx));
    EXPECT_TRUE(same_bits(r.dweight, all[0].dweight));
    EXPECT_TRUE(same_bits(r.dbias, all[0].dbias));
  }
}

TEST(Conv, TheNumberOfThreadsChangesNoBit) {
  for (const DType dtype : {kFloat32, kFloat64, kBFloat16}) {
    expect_equal_bits([=] {
      return run({37, 8, 12, 11}, {16, 8, 3, 3}, dtype, Device(), {.padding = 1});
    });
    expect_equal_bits([=] {
      const Conv3dOptions options{.stride = {1, 2, 1}, .padding = 1};
      return run({5, 8, 6, 12, 11}, {16, 8, 3, 3, 3}, dtype, Device(), options);
    });
    expect_equal_bits([=] {
      return run({1, 4, 33, 6, 5}, {8, 4, 3, 3, 3}, dtype, Device(), Conv3dOptions{.padding = 1});
    });
  }
}

TEST(Conv, EqualCallsGiveEqualBitsInThreeDimensions) {
  for (const Device device : all_devices()) {
    for (const DType dtype : {kFloat32, kFloat16}) {
      const auto results = [=] {
        const Conv3dOptions options{.stride = {2, 1, 1}, .padding = {1, 0, 1}};
        return run({9, 16, 7, 9, 8}, {32, 16, 3, 3, 3}, dtype, device, options);
      };
      const Results a = results(), b = results();
      EXPECT_TRUE(same_bits(a.y, b.y));
      EXPECT_TRUE(same_bits(a.dx, b.dx));
      EXPECT_TRUE(same_bits(a.dweight, b.dweight));
      EXPECT_TRUE(same_bits(a.dbias, b.dbias));
    }
  }
}

TEST(Conv, ItsNodeHasPyTorchsName) {
  const Tensor x = ones({1, 1, 3, 3}), weight = ones({1, 1, 2, 2}).requires_grad_();
  EXPECT_STREQ(conv2d(x, weight).grad_fn(), "ConvolutionBackward0");
  EXPECT_STREQ(conv1d(x.flatten(2), weight.flatten(2)).grad_fn(), "ConvolutionBackward0");
  EXPECT_STREQ(conv3d(x.unsqueeze(2), weight.unsqueeze(2)).grad_fn(), "ConvolutionBackward0");
}

}  // namespace
}  // namespace taper::v0::test
