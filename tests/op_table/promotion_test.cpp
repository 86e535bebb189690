// The dtype of the result of two operands
// (https://pytorch.org/docs/stable/tensor_attributes.html#type-promotion-doc).
#include <gtest/gtest.h>

#include "autograd/ops/binary_ops.h"
#include "framework/factory/factories.h"
#include "tests/testing.h"

namespace taper::v0::test {
namespace {

struct Case {
  DType a;
  int dims_a;
  DType b;
  int dims_b;
  DType result;
};

const Case kCases[] = {
    {kInt64, 1, kFloat32, 1, kFloat32},    {kFloat32, 1, kFloat64, 1, kFloat64},
    {kFloat16, 1, kBFloat16, 1, kFloat32}, {kFloat16, 1, kFloat32, 1, kFloat32},
    {kInt32, 1, kInt64, 1, kInt64},        {kUInt8, 1, kInt8, 1, kInt16},
    {kBool, 1, kUInt8, 1, kUInt8},         {kInt64, 1, kBFloat16, 1, kBFloat16},
    {kFloat32, 1, kFloat64, 0, kFloat32},  {kFloat16, 1, kFloat32, 0, kFloat16},
    {kInt32, 1, kInt64, 0, kInt32},        {kUInt8, 1, kInt64, 0, kUInt8},
    {kInt64, 1, kFloat32, 0, kFloat32},    {kBool, 1, kInt64, 0, kInt64},
    {kFloat32, 0, kFloat64, 0, kFloat64},  {kInt32, 0, kInt64, 0, kInt64},
    {kInt64, 1, kFloat64, 0, kFloat64},    {kBool, 1, kBool, 1, kBool},
};

TEST(Promotion, TensorsWithDimensionsOutweighThoseWithoutOfTheSameKind) {
  for (const Device device : all_devices()) {
    for (const Case& c : kCases) {
      const auto make = [&](DType t, int dims) {
        return ones(dims ? Shape{2} : Shape{}, {.dtype = t, .device = device});
      };
      const Tensor a = make(c.a, c.dims_a), b = make(c.b, c.dims_b);
      const std::string what =
          concat_to_string(c.a, " (", c.dims_a, " dims) and ", c.b, " (", c.dims_b, " dims)");
      EXPECT_EQ(add(a, b).dtype(), c.result) << what;
      EXPECT_EQ(add(b, a).dtype(), c.result) << what << ", operands swapped";
      EXPECT_EQ(lt(a, b).dtype(), kBool) << what;
      EXPECT_TRUE(is_floating_point(div(a, b).dtype())) << what;
    }
  }
}

struct NumberCase {
  DType tensor;
  Scalar number;
  DType result;
};

const NumberCase kNumberCases[] = {
    {kFloat16, 1.5, kFloat16}, {kBFloat16, 1.5, kBFloat16}, {kFloat64, 1.5, kFloat64},
    {kFloat32, 2, kFloat32},   {kInt32, 2, kInt32},         {kUInt8, 2, kUInt8},
    {kInt64, 1.5, kFloat32},   {kBool, 2, kInt64},          {kBool, 1.5, kFloat32},
    {kBool, true, kBool},      {kInt32, true, kInt32},
};

TEST(Promotion, NumbersCountByTheirKindOnly) {
  for (const Device device : all_devices()) {
    for (const NumberCase& c : kNumberCases) {
      for (const Shape& shape : {Shape{2}, Shape{}}) {
        const Tensor x = ones(shape, {.dtype = c.tensor, .device = device});
        EXPECT_EQ((x + c.number).dtype(), c.result)
            << name_of(c.tensor) << " + a " << name_of(c.number.dtype());
        EXPECT_EQ((c.number * x).dtype(), c.result);
      }
    }
  }
}

TEST(Promotion, GradientsComeBackInTheOperandsDtype) {
  for (const Device device : all_devices()) {
    const Tensor a = ones({3}, {.dtype = kFloat16, .device = device, .requires_grad = true});
    const Tensor b = ones({2, 3}, {.dtype = kFloat64, .device = device, .requires_grad = true});
    (a * b + a).sum().backward();
    EXPECT_EQ(a.grad().dtype(), kFloat16);
    EXPECT_EQ(b.grad().dtype(), kFloat64);
    EXPECT_TRUE(close(a.grad(), {3}, {4, 4, 4}, 0));
  }
}

TEST(Promotion, IntegersComputeExactlyAndWrapAround) {
  for (const Device device : all_devices()) {
    const int64_t big = (int64_t(1) << 62) + 1;
    const Tensor x = full({1}, big, {.device = device});
    EXPECT_EQ((x + 1).item<int64_t>(), big + 1);
    EXPECT_EQ((x * 4).item<int64_t>(), 4);
    const Tensor byte = full({1}, 250, {.dtype = kUInt8, .device = device});
    EXPECT_EQ((byte + 10).item<int64_t>(), 4);
    EXPECT_EQ(floor_divide(tensor({-7}, {.device = device}), tensor({2}, {.device = device}))
                  .item<int64_t>(),
              -4);
    EXPECT_EQ(remainder(tensor({-7}, {.device = device}), tensor({2}, {.device = device}))
                  .item<int64_t>(),
              1);
  }
}

}  // namespace
}  // namespace taper::v0::test
