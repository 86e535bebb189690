#include "tests/testing.h"

#include "framework/cuda/cuda.h"
#include "framework/factory/factories.h"
#include "framework/memory/small_blocks.h"

namespace taper::v0::test {

std::vector<Device> all_devices() {
  std::vector<Device> devices{Device()};
  if (cuda::is_available()) devices.push_back(Device(DeviceType::kCuda, 0));
  return devices;
}

std::vector<std::pair<Device, Device>> device_pairs() {
  std::vector<std::pair<Device, Device>> pairs{{Device(), Device("cpu:1")}};
  if (cuda::device_count() > 1) pairs.push_back({Device("cuda:0"), Device("cuda:1")});
  return pairs;
}

bool skip_without_cuda() {
  if (cuda::is_available()) return false;
  [] { GTEST_SKIP() << "needs a GPU: " << cuda::unavailable_reason(); }();
  return true;
}

bool skip_without_cache() {
  if (!uses_uncached_allocator()) return false;
  [] { GTEST_SKIP() << "memory is not cached: each tensor has its own allocation"; }();
  return true;
}

testing::AssertionResult close(const Tensor& got, const Tensor& want, double tolerance) {
  return tensor_close(got, want, tolerance, tolerance);
}

testing::AssertionResult close(const Tensor& got, const Shape& shape,
                               const std::vector<double>& want, double tolerance) {
  return close(got, tensor_of(want.data(), shape), tolerance);
}

testing::AssertionResult close(const std::vector<double>& got, const std::vector<double>& want,
                               double tolerance) {
  const auto tensor_from = [](const std::vector<double>& values) {
    return tensor_of(values.data(), {int64_t(values.size())});
  };
  return close(tensor_from(got), tensor_from(want), tolerance);
}

}  // namespace taper::v0::test
