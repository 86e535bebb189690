// Creation of tensors (https://pytorch.org/docs/stable/torch.html#creation-ops).
#include "framework/factory/factories.h"

#include <array>
#include <cmath>
#include <set>

#include <gtest/gtest.h>

#include "tests/testing.h"

namespace taper::v0::test {
namespace {

TEST(Factories, DtypesFollowTheValues) {
  EXPECT_EQ(tensor({1, 2, 3}).dtype(), kInt64);
  EXPECT_EQ(tensor({1.0, 2.0}).dtype(), kFloat32);
  EXPECT_EQ(tensor({1, 2.5}).dtype(), kFloat32);
  EXPECT_EQ(tensor({true, false}).dtype(), kBool);
  EXPECT_EQ(tensor({true, 2}).dtype(), kInt64);
  EXPECT_EQ(tensor(5).dim(), 0);
  EXPECT_EQ(tensor(std::vector<float>{}).dtype(), kFloat32);
  EXPECT_EQ(full({2}, 1).dtype(), kInt64);
  EXPECT_EQ(full({2}, 1.0).dtype(), kFloat32);
  EXPECT_EQ(full({2}, true).dtype(), kBool);
  EXPECT_EQ(zeros({2}).dtype(), kFloat32);
  EXPECT_EQ(arange(3).dtype(), kInt64);
  EXPECT_EQ(arange(3.0).dtype(), kFloat32);
  EXPECT_EQ(linspace(0, 1, 3).dtype(), kFloat32);
  EXPECT_EQ(eye(2).dtype(), kFloat32);
  EXPECT_EQ(randint(0, 5, {2}).dtype(), kInt64);
  EXPECT_EQ(randperm(5).dtype(), kInt64);
}

TEST(Factories, NestedValuesKeepTheirShape) {
  for (const Device device : all_devices()) {
    const Tensor x = tensor({{{1, 2}, {3, 4}, {5, 6}}}, {.dtype = kFloat64, .device = device});
    EXPECT_TRUE(close(x, {1, 3, 2}, {1, 2, 3, 4, 5, 6}, 0));
    EXPECT_EQ(x.device(), device);
  }
  EXPECT_TRUE(refuses<ValueError>(
      [] {
        return tensor({{1, 2}, {3}});
      },
      "expected sequences of equal length"));
}

TEST(Factories, EveryDtypeAndDeviceIsFilled) {
  for (const Device device : all_devices()) {
    for (const DType t : kAllDTypes) {
      const TensorOptions options{.dtype = t, .device = device};
      EXPECT_TRUE(close(zeros({3, 5}, options), {3, 5}, std::vector<double>(15, 0), 0));
      EXPECT_TRUE(close(ones({17}, options), {17}, std::vector<double>(17, 1), 0));
      EXPECT_TRUE(close(full({}, 1, options), {}, {1}, 0));
      EXPECT_TRUE(close(eye(3, options), {3, 3}, {1, 0, 0, 0, 1, 0, 0, 0, 1}, 0));
      EXPECT_EQ(zeros({0, 3}, options).numel(), 0);
      const Tensor like = ones_like(zeros({2}, options));
      EXPECT_EQ(like.dtype(), t);
      EXPECT_EQ(like.device(), device);
      EXPECT_TRUE(close(like, {2}, {1, 1}, 0));
    }
  }
}

TEST(Factories, EyeMayBeRectangular) {
  for (const Device device : all_devices()) {
    const TensorOptions options{.device = device};
    EXPECT_TRUE(close(eye(2, 3, options), {2, 3}, {1, 0, 0, 0, 1, 0}, 0));
    EXPECT_TRUE(close(eye(3, 2, options), {3, 2}, {1, 0, 0, 1, 0, 0}, 0));
    EXPECT_EQ(eye(0, 3, options).shape(), Shape({0, 3}));
    EXPECT_EQ(eye(3, 0, options).shape(), Shape({3, 0}));
  }
  EXPECT_TRUE(eye(2, 3, {.requires_grad = true}).requires_grad());
  EXPECT_TRUE(refuses<Error>([] { return eye(-1, 2); }, "n must be greater or equal to 0, got -1"));
  EXPECT_TRUE(refuses<Error>([] { return eye(2, -3); }, "m must be greater or equal to 0, got -3"));
}

// The indices are those of the elements that tril and triu keep, row by row.
TEST(Factories, TriangleIndices) {
  for (const Device device : all_devices()) {
    for (const int64_t rows : {0, 1, 3, 5}) {
      for (const int64_t cols : {0, 1, 4}) {
        for (const int64_t offset : {-9, -4, -2, -1, 0, 1, 3, 4, 9}) {
          for (const bool lower : {true, false}) {
            std::vector<double> row, col;
            for (int64_t i = 0; i < rows; ++i) {
              for (int64_t j = 0; j < cols; ++j) {
                if (lower ? j - i > offset : j - i < offset) continue;
                row.push_back(double(i));
                col.push_back(double(j));
              }
            }
            const auto count = int64_t(row.size());
            row.insert(row.end(), col.begin(), col.end());
            const Tensor x = lower ? tril_indices(rows, cols, offset, {.device = device})
                                   : triu_indices(rows, cols, offset, {.device = device});
            EXPECT_EQ(x.dtype(), kInt64);
            EXPECT_TRUE(close(x, {2, count}, row, 0)) << rows << " " << cols << " " << offset;
          }
        }
      }
    }
  }
  EXPECT_EQ(triu_indices(2, 2, 0, {.dtype = kInt32}).dtype(), kInt32);
}

TEST(Factories, ExtremeTriangles) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(triu_indices(2, 2, kMost).shape(), Shape({2, 0}));
  EXPECT_EQ(triu_indices(2, 2, kLeast).shape(), Shape({2, 4}));
  EXPECT_EQ(tril_indices(2, 2, kMost).shape(), Shape({2, 4}));
  EXPECT_EQ(tril_indices(2, 2, kLeast).shape(), Shape({2, 0}));
  EXPECT_EQ(tril_indices(kMost, 0).shape(), Shape({2, 0}));
  EXPECT_EQ(triu_indices(kMost, 2).shape(), Shape({2, 3}));
  EXPECT_EQ(tril_indices(2, kMost).shape(), Shape({2, 3}));
  EXPECT_TRUE(refuses<Error>([] { return tril_indices(kMost, kMost); }, ""));
  EXPECT_TRUE(
      refuses<Error>([] { return tril_indices(-1, 2); }, "row must be non-negative, got -1"));
  EXPECT_TRUE(
      refuses<Error>([] { return triu_indices(2, -4); }, "col must be non-negative, got -4"));
  EXPECT_TRUE(
      refuses<NotImplementedError>([] { return triu_indices(2, 2, 0, {.dtype = kFloat32}); },
                                   "\"triu_indices\" not implemented for 'Float'"));
}

struct Range {
  Scalar start, end, step;
  std::vector<double> values;
};

TEST(Factories, RangesStopBeforeTheirEnd) {
  const Range cases[] = {
      {0, 5, 1, {0, 1, 2, 3, 4}},         {2, 9, 3, {2, 5, 8}}, {5, 0, -2, {5, 3, 1}},
      {0, 1, 0.25, {0, 0.25, 0.5, 0.75}}, {3, 3, 1, {}},        {-1.5, 1.5, 1, {-1.5, -0.5, 0.5}}};
  for (const Device device : all_devices()) {
    for (const Range& c : cases) {
      const Tensor x = arange(c.start, c.end, c.step, {.device = device});
      EXPECT_TRUE(close(x, {int64_t(c.values.size())}, c.values, 0));
    }
    const Tensor big = arange(int64_t(1) << 60, (int64_t(1) << 60) + 3, 1, {.device = device});
    ASSERT_EQ(big.numel(), 3);
    EXPECT_EQ(big.cpu().to_vector<int64_t>().back(), (int64_t(1) << 60) + 2);
  }
  EXPECT_TRUE(refuses<Error>([] { return arange(0, 5, 0); }, "step must be nonzero"));
  using Range3 = std::array<double, 3>;
  for (const Range3 r : {Range3{0, 5, -1}, {5, 4.5, 1}, {5, 3, 10}, {4.5, 5, -1}}) {
    EXPECT_TRUE(refuses<Error>([&] { return arange(r[0], r[1], r[2]); },
                               "upper bound and lower bound inconsistent with step sign"));
  }
}

TEST(Factories, LinspaceMeetsBothEnds) {
  for (const Device device : all_devices()) {
    const TensorOptions options{.dtype = kFloat64, .device = device};
    EXPECT_TRUE(close(linspace(0, 1, 5, options), {5}, {0, 0.25, 0.5, 0.75, 1}, 0));
    EXPECT_TRUE(close(linspace(3, -3, 4, options), {4}, {3, 1, -1, -3}, 1e-15));
    EXPECT_TRUE(close(linspace(2, 9, 1, options), {1}, {2}, 0));
    EXPECT_EQ(linspace(0, 1, 0, options).numel(), 0);
    EXPECT_EQ(values_of(linspace(0, 0.1, 1001, options)).back(), 0.1);
  }
}

TEST(Factories, LeavesRequireGradOnRequestAndIntegersNever) {
  EXPECT_TRUE(ones({2}, {.requires_grad = true}).requires_grad());
  EXPECT_FALSE(ones({2}).requires_grad());
  EXPECT_TRUE(
      refuses<Error>([] { return arange(3, {.requires_grad = true}); },
                     "Only Tensors of floating point and complex dtype can require gradients"));
}

TEST(Factories, ValuesOfAnArrayAreCopied) {
  float values[] = {1, 2, 3, 4};
  const Tensor x = tensor_of(values, {2, 2});
  values[0] = 9;
  EXPECT_TRUE(close(x, {2, 2}, {1, 2, 3, 4}, 0));
}

TEST(Factories, ThereIsMemoryWhereThereAreElements) {
  float* const none = nullptr;
  const char* text = "the memory of a tensor of shape [3] is null";
  EXPECT_TRUE(refuses<ValueError>([&] { return tensor_of(none, {3}); }, text));
  EXPECT_TRUE(refuses<ValueError>([&] { return from_blob(none, {3}); }, text));
  EXPECT_EQ(tensor_of(none, {0, 3}).numel(), 0);
}

}  // namespace
}  // namespace taper::v0::test
