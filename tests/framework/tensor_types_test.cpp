#include "framework/factory/tensor_types.h"

#include <gtest/gtest.h>

#include "framework/base/error.h"
#include "framework/cuda/cuda.h"
#include "framework/factory/format_tensor.h"

namespace taper::v0 {
namespace {

struct TypeCase {
  TensorType on_cpu, on_gpu;
  DType dtype;
  const char* type;
};

const TypeCase kCases[] = {
    {FloatTensor, cuda::FloatTensor, kFloat32, "FloatTensor"},
    {DoubleTensor, cuda::DoubleTensor, kFloat64, "DoubleTensor"},
    {HalfTensor, cuda::HalfTensor, kFloat16, "HalfTensor"},
    {BFloat16Tensor, cuda::BFloat16Tensor, kBFloat16, "BFloat16Tensor"},
    {LongTensor, cuda::LongTensor, kInt64, "LongTensor"},
    {IntTensor, cuda::IntTensor, kInt32, "IntTensor"},
    {ShortTensor, cuda::ShortTensor, kInt16, "ShortTensor"},
    {CharTensor, cuda::CharTensor, kInt8, "CharTensor"},
    {ByteTensor, cuda::ByteTensor, kUInt8, "ByteTensor"},
    {BoolTensor, cuda::BoolTensor, kBool, "BoolTensor"},
};

TEST(TensorTypes, EachNameMakesItsType) {
  for (const TypeCase& c : kCases) {
    const Tensor x = c.on_cpu(2, 3);
    EXPECT_EQ(x.dtype(), c.dtype) << c.type;
    EXPECT_EQ(x.shape(), Shape({2, 3})) << c.type;
    EXPECT_EQ(x.type(), c.type);
  }
}

TEST(TensorTypes, NumbersAreSizesAndAListIsValues) {
  EXPECT_EQ(FloatTensor(2).shape(), Shape({2}));
  EXPECT_EQ(FloatTensor(int64_t(4), 1, 2u).shape(), Shape({4, 1, 2}));
  EXPECT_EQ(FloatTensor().shape(), Shape({0}));
  EXPECT_EQ(FloatTensor(0, 3).shape(), Shape({0, 3}));
  EXPECT_EQ(FloatTensor(Shape{2, 3}).shape(), Shape({2, 3}));
  EXPECT_EQ(format_tensor(FloatTensor({2, 3})), "tensor([2., 3.])");
  EXPECT_EQ(format_tensor(FloatTensor({5})), "tensor([5.])");
  EXPECT_EQ(format_tensor(LongTensor({{1, 2}, {3, 4}})), "tensor([[1, 2],\n        [3, 4]])");
  EXPECT_EQ(format_tensor(BoolTensor({true, false})), "tensor([ True, False])");
  EXPECT_THROW(FloatTensor(-1), Error);
}

TEST(TensorTypes, AVariableIsATensor) {
  const Variable x = tensor({1.0}, {.requires_grad = true});
  EXPECT_TRUE(Variable(x).is_same(x));
}

TEST(TensorTypes, CudaNamesMakeTensorsOnTheCurrentGpu) {
  if (!cuda::is_available()) {
    EXPECT_THROW(cuda::FloatTensor(2), AcceleratorError);
    GTEST_SKIP() << "needs a GPU: " << cuda::unavailable_reason();
  }
  for (const TypeCase& c : kCases) {
    const Tensor x = c.on_gpu(2, 3);
    EXPECT_EQ(x.dtype(), c.dtype) << c.type;
    EXPECT_EQ(x.device(), cuda::resolve("cuda"));
    EXPECT_EQ(x.type(), concat_to_string("cuda.", c.type));
  }
}

}  // namespace
}  // namespace taper::v0
