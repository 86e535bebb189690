// Linked with the framework's objects only, without the tape. Proves that framework/ does not
// depend on the layers above it.
#include <vector>

#include <gtest/gtest.h>

#include "framework/cuda/cuda.h"
#include "framework/factory/factories.h"
#include "framework/factory/format_tensor.h"
#include "framework/kernels/elementwise/binary.h"
#include "framework/kernels/elementwise/copy.h"
#include "framework/kernels/matmul/matmul.h"
#include "framework/kernels/reduce/reduce.h"

namespace taper::v0 {
namespace {

std::vector<Device> devices() {
  std::vector<Device> out{Device()};
  if (cuda::is_available()) out.push_back(Device(DeviceType::kCuda, 0));
  return out;
}

Tensor on_host(const Tensor& x) {
  const Tensor host = Tensor::make(x.shape(), x.dtype(), Device());
  kernels::copy_into(host, x);
  return host;
}

TEST(GroundFloor, MakesComputesCopiesAndReadsBackWithoutTheTape) {
  for (const Device device : devices()) {
    const Tensor a = tensor({{1, 2, 3}, {4, 5, 6}}, {.dtype = kFloat32, .device = device});
    const Tensor b = tensor({10, 20, 30}, {.dtype = kFloat32, .device = device});
    const Tensor sum = kernels::binary(kernels::BinaryOp::kAdd, a, b);
    EXPECT_EQ(on_host(sum).to_floats(), (std::vector<float>{11, 22, 33, 14, 25, 36}));

    const Tensor column = view_as(sum, {2}, {3}, 1);
    const Tensor packed = Tensor::make({2}, kFloat64, device);
    kernels::copy_into(packed, column);
    EXPECT_EQ(on_host(packed).to_vector<double>(), (std::vector<double>{22, 25}));

    const Tensor total = kernels::reduce(kernels::ReductionOp::kSum, sum, {});
    EXPECT_EQ(total.item<double>(), 141);
    const Tensor square = kernels::matmul(a, view_as(a, {3, 2}, {1, 3}, 0));
    EXPECT_EQ(on_host(square).to_floats(), (std::vector<float>{14, 32, 32, 77}));
  }
}

TEST(GroundFloor, DrawsAndPrintsWithoutTheTape) {
  Generator generator(1);
  const Tensor x = rand({3}, {}, &generator);
  for (const float v : x.to_floats()) EXPECT_TRUE(v >= 0 && v < 1);
  EXPECT_EQ(format_tensor(tensor({1, 2, 3})), "tensor([1, 2, 3])");
}

}  // namespace
}  // namespace taper::v0
