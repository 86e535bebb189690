// Tensor: shapes, reading on the host, moving, copying between layouts and dtypes.
#include "framework/tensor/tensor.h"

#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include <gtest/gtest.h>

#include "autograd/ops/binary_ops.h"
#include "autograd/ops/matmul_ops.h"
#include "autograd/ops/shape_ops.h"
#include "autograd/ops/unary_ops.h"
#include "framework/cuda/cuda.h"
#include "framework/factory/factories.h"
#include "framework/kernels/elementwise/copy.h"
#include "tests/testing.h"

namespace taper::v0::test {
namespace {

TEST(Tensor, IsAHandle) {
  const Tensor a = zeros({2});
  const Tensor b = a;
  b.fill_(3);
  EXPECT_TRUE(a.is_same(b));
  EXPECT_FALSE(a.is_same(a.clone()));
  EXPECT_EQ(a.to_floats(), (std::vector<float>{3, 3}));
  EXPECT_FALSE(Tensor().defined());
}

TEST(Tensor, AnUndefinedOneIsRefusedByWhateverReadsIt) {
  const Tensor none;
  const std::pair<const char*, std::function<void()>> readers[] = {
      {"shape", [&] { (void)none.shape(); }},
      {"dtype", [&] { (void)none.dtype(); }},
      {"item", [&] { (void)none.item(); }},
      {"to", [&] { (void)none.to(kFloat64); }},
      {"grad", [&] { (void)none.grad(); }},
      {"requires_grad_", [&] { none.requires_grad_(); }},
      {"fill_", [&] { none.fill_(1); }},
      {"a view", [&] { (void)none.view({1}); }},
      {"a function", [&] { (void)relu(none); }},
      {"a sum", [&] { (void)(ones({2}) + none); }},
      {"a product",
       [&] {
         (void)matmul(none, ones({2, 2}));
       }},
      {"a gradient", [&] { none.backward(); }},
  };
  for (const auto& [name, read] : readers) {
    EXPECT_THROW(read(), Error) << name;
  }
  EXPECT_TRUE(refuses<Error>([&] { return none.numel(); },
                             "Expected a proper Tensor but got an undefined Tensor"));
}

TEST(Tensor, KnowsItsSizes) {
  const Tensor x = zeros({2, 3, 4}, {.dtype = kFloat16});
  EXPECT_EQ(x.dim(), 3);
  EXPECT_EQ(x.numel(), 24);
  EXPECT_EQ(x.nbytes(), 48u);
  EXPECT_EQ(x.size(-1), 4);
  EXPECT_EQ(x.stride(0), 12);
  EXPECT_EQ(zeros({}).numel(), 1);
  EXPECT_EQ(zeros({3, 0}).numel(), 0);
  EXPECT_TRUE(refuses<IndexError>(
      [&] { return x.size(3); },
      "Dimension out of range (expected to be in range of [-3, 2], but got 3)"));
  EXPECT_TRUE(refuses<IndexError>([] { return zeros({}).size(0); },
                                  "Dimension specified as 0 but tensor has no dimensions"));
  EXPECT_TRUE(refuses<Error>(
      [] {
        return zeros({2, -1});
      },
      "Trying to create tensor with negative dimension -1: [2, -1]"));
  EXPECT_THROW((void)empty({int64_t(1) << 40, int64_t(1) << 40}), Error);
  EXPECT_TRUE(refuses<ValueError>(
      [] {
        return zeros({1, 1, 1, 1, 1, 1, 1, 1, 1});
      },
      "a tensor has at most 8 dimensions, got 9"));
}

TEST(Tensor, PlacesOfAShapeCountFromEitherEnd) {
  Shape shape{2, 3};
  EXPECT_EQ(shape[-1], 3);
  EXPECT_EQ(shape[-2], 2);
  shape[-1] = 5;
  EXPECT_EQ(shape.back(), 5);
  EXPECT_TRUE(refuses<IndexError>([&] { return shape[2]; }, "a shape [2, 5] has no dimension 2"));
  EXPECT_TRUE(refuses<IndexError>([&] { return shape[-3]; }, "a shape [2, 5] has no dimension -3"));
  EXPECT_TRUE(refuses<IndexError>([] { return Shape().back(); }, "a shape [] has no dimension -1"));
}

TEST(Tensor, TypeStringsArePyTorchsOlderNames) {
  EXPECT_EQ(zeros({1}).type(), "FloatTensor");
  EXPECT_EQ(zeros({1}, {.dtype = kInt64}).type(), "LongTensor");
  EXPECT_EQ(zeros({1}, {.dtype = kBFloat16}).type(), "BFloat16Tensor");
}

TEST(Tensor, HostReadingIsRefusedWhereItWouldMislead) {
  const Tensor x = zeros({2, 3});
  EXPECT_TRUE(refuses<TypeError>([&] { return x.data<double>(); },
                                 "expected scalar type Double but found Float; use to(kFloat64) "
                                 "or to_vector"));
  EXPECT_TRUE(refuses<TypeError>([&] { return x.to(kFloat64).span<BFloat16>(); },
                                 "expected scalar type BFloat16 but found Double; use "
                                 "to(kBFloat16) or to_vector"));
  EXPECT_TRUE(refuses<TypeError>([&] { return x.span<uint8_t>(); },
                                 "expected scalar type Byte but found Float; use to(kUInt8)"));
  EXPECT_TRUE(
      refuses<Error>([&] { return x.t().data<float>(); }, "data() needs a contiguous tensor"));
  EXPECT_TRUE(refuses<Error>([&] { return x.item<float>(); },
                             "a Tensor with 6 elements cannot be converted to Scalar"));
  EXPECT_EQ(x.span<float>().size(), 6u);
  EXPECT_EQ(tensor({{1, 2}, {3, 4}}).t().to_vector<double>(), (std::vector<double>{1, 3, 2, 4}));
  EXPECT_EQ(tensor({true, false}).to_vector<bool>(), (std::vector<bool>{true, false}));
}

TEST(Tensor, HostReadingOfTheGpuIsRefusedWithAdvice) {
  if (skip_without_cuda()) return;
  const Tensor x = zeros({2}, {.device = "cuda:0"});
  EXPECT_TRUE(refuses<TypeError>([&] { return x.data<float>(); },
                                 "can't read cuda:0 device type tensor on the host. Use "
                                 "Tensor.cpu() to copy the tensor to host memory first."));
  EXPECT_TRUE(refuses<TypeError>([&] { return x.to_floats(); },
                                 "can't read cuda:0 device type tensor on the host."));
  EXPECT_EQ(ones({}, {.device = "cuda:0"}).item<int>(), 1);
}

TEST(Tensor, ItemConvertsFromEveryDtype) {
  for (const Device device : all_devices()) {
    for (const DType t : kAllDTypes) {
      const Tensor x = ones({1, 1}, {.dtype = t, .device = device});
      EXPECT_EQ(x.item<double>(), 1) << name_of(t);
      EXPECT_EQ(x.item<int64_t>(), 1) << name_of(t);
      EXPECT_TRUE(x.item<bool>()) << name_of(t);
    }
    const int64_t big = (int64_t(1) << 60) + 1;
    EXPECT_EQ(full({}, big, {.device = device}).item<int64_t>(), big);
    EXPECT_TRUE(full({}, 0.25, {.device = device}).item<bool>());
    EXPECT_EQ(full({}, 3'000'000'000.0, {.dtype = kFloat64, .device = device}).item<float>(), 3e9f);
  }
}

// --- moving ---

TEST(Tensor, ToReturnsItselfWhenNothingChanges) {
  for (const Device device : all_devices()) {
    const Tensor x = ones({2}, {.device = device});
    EXPECT_TRUE(x.to(device).is_same(x));
    EXPECT_TRUE(x.to(kFloat32).is_same(x));
    EXPECT_TRUE(x.to(device, kFloat32).is_same(x));
    EXPECT_TRUE(x.to(x).is_same(x));
    EXPECT_FALSE(x.to(device, ToOptions{.copy = true}).is_same(x));
    EXPECT_FALSE(x.to(kFloat64).is_same(x));
  }
  EXPECT_TRUE(ones({1}).cpu().is_same(ones({1}).cpu()) == false);
  EXPECT_TRUE(refuses<Error>([] { return ones({1}).cuda(Device("cpu")); },
                             "Invalid device, must be cuda device"));
}

TEST(Tensor, ToNeverChangesItsOperand) {
  for (const Device from : all_devices()) {
    for (const Device to : all_devices()) {
      const Tensor x = tensor({{1, 2, 3}, {4, 5, 6}}, {.dtype = kFloat32, .device = from});
      const Tensor y = x.t().to(to, kInt64);
      EXPECT_EQ(y.device(), to);
      EXPECT_TRUE(close(y, {3, 2}, {1, 4, 2, 5, 3, 6}, 0));
      y.fill_(9);
      EXPECT_TRUE(close(x, {2, 3}, {1, 2, 3, 4, 5, 6}, 0));
      EXPECT_EQ(x.device(), from);
    }
  }
}

TEST(Tensor, CudaWithoutAnIndexIsTheCurrentDevice) {
  if (skip_without_cuda()) return;
  const Tensor x = ones({2}, {.device = "cuda"});
  EXPECT_EQ(x.device(), Device("cuda", cuda::current_device()));
  EXPECT_TRUE(x.to("cuda").is_same(x));
  EXPECT_TRUE(x.cuda().is_same(x));
  EXPECT_TRUE(x.cpu().is_cpu());
}

TEST(Tensor, WithoutAGpuCudaIsRefusedWithTheReason) {
  if (cuda::is_available()) GTEST_SKIP() << "there is a GPU";
  EXPECT_TRUE(
      refuses<AcceleratorError>([] { return ones({2}).cuda(); }, cuda::unavailable_reason()));
}

TEST(Tensor, PinnedCopiesAreOnTheHost) {
  const Tensor x = tensor({1, 2, 3});
  const Tensor y = x.pin_memory();
  EXPECT_TRUE(y.is_cpu());
  EXPECT_TRUE(close(y, x, 0));
  EXPECT_EQ(y.is_pinned(), cuda::is_available());
}

// --- casts ---

// The result of converting a float to each dtype.
struct Cast {
  double value;
  DType to;
  double result;
};

TEST(Casts, TruncateSaturateAndWrap) {
  const double inf = std::numeric_limits<double>::infinity();
  const Cast cases[] = {
      {2.9, kInt64, 2},
      {-2.9, kInt32, -2},
      {1e30, kInt64, 9223372036854775807.0},
      {-1e30, kInt64, -9223372036854775808.0},
      {300, kUInt8, 44},
      {-1, kUInt8, 255},
      {200, kInt8, -56},
      {0.5, kBool, 1},
      {-0.0, kBool, 0},
      {NAN, kBool, 1},
      {NAN, kInt64, 0},
      {70000, kFloat16, inf},
      {1e39, kFloat32, inf},
      {1e39, kBFloat16, inf},
      {1.0 / 3, kFloat32, float(1.0 / 3)},
      {65519, kFloat16, 65504},
      {2049, kFloat16, 2048},
      {257, kBFloat16, 256},
      {NAN, kFloat16, NAN},
  };
  for (const Device device : all_devices()) {
    for (const Cast& c : cases) {
      const Tensor x = full({5}, c.value, {.dtype = kFloat64, .device = device});
      EXPECT_TRUE(close(x.to(c.to), {5}, std::vector<double>(5, c.result), 0))
          << c.value << " to " << name_of(c.to);
    }
  }
}

TEST(Casts, SmallNumbersSurviveEveryPairOfDtypes) {
  for (const Device device : all_devices()) {
    for (const DType from : kAllDTypes) {
      for (const DType to : kAllDTypes) {
        const Tensor x = tensor({0, 1, 1, 0, 1}, {.dtype = from, .device = device});
        EXPECT_TRUE(close(x.to(to), {5}, {0, 1, 1, 0, 1}, 0))
            << name_of(from) << " to " << name_of(to);
      }
    }
  }
}

TEST(Copies, GoBetweenAllLayouts) {
  for (const Device from : all_devices()) {
    for (const Device to : all_devices()) {
      for (const auto& [n, m] : {std::pair(1, 1), {3, 17}, {65, 33}, {128, 130}}) {
        const Tensor x = arange(n * m, {.device = from}).view({n, m});
        const Tensor y = zeros({m, n}, {.dtype = kInt64, .device = to});
        y.t().copy_(x);
        EXPECT_TRUE(close(y, x.t(), 0)) << n << "x" << m;
        y.copy_(x.t());
        EXPECT_TRUE(close(y, x.t(), 0)) << n << "x" << m;
        const Tensor wide = zeros({m, 2 * n}, {.dtype = kFloat32, .device = to});
        wide.narrow(1, n, n).copy_(x.t());
        EXPECT_TRUE(close(wide.narrow(1, n, n), x.t(), 0)) << n << "x" << m;
        EXPECT_TRUE(close(wide.narrow(1, 0, n), zeros({m, n}), 0)) << n << "x" << m;
      }
    }
  }
}

TEST(Copies, KeepADenseLayout) {
  const Tensor x = arange(24).view({2, 3, 4}).permute({2, 0, 1});
  EXPECT_EQ(x.clone().strides(), x.strides());
  EXPECT_EQ(x.to(kFloat32).strides(), x.strides());
  EXPECT_TRUE(x.contiguous().is_contiguous());
  EXPECT_TRUE(close(x.clone(), x, 0));
}

}  // namespace
}  // namespace taper::v0::test
