#include "tests/testing.h"

#include <cmath>
#include <cstring>

#include "framework/cuda.h"
#include "framework/kernels/copy.h"

namespace taper::test {
namespace {

bool near(double got, double want, double tolerance) {
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) && std::isnan(got);
  if (std::isinf(want) || std::isinf(got)) return got == want;
  return std::abs(got - want) <= tolerance * (1 + std::abs(want));
}

std::string place(const Shape& shape, size_t flat) {
  Shape at = shape;
  for (int d = shape.size() - 1; d >= 0; --d) {
    at[d] = int64_t(flat) % shape[d];
    flat /= size_t(shape[d]);
  }
  return to_string(at);
}

std::vector<char> bytes_of(const Tensor& x) {
  const Tensor host = Tensor::make(x.shape(), x.dtype(), Device());
  kernels::copy_into(host, x);
  const char* data = static_cast<const char*>(host.data_ptr());
  return {data, data + host.nbytes()};
}

}  // namespace

std::vector<Device> all_devices() {
  std::vector<Device> devices{Device()};
  if (cuda::is_available()) devices.push_back(Device(DeviceType::cuda, 0));
  return devices;
}

bool skip_without_cuda() {
  if (cuda::is_available()) return false;
  [] { GTEST_SKIP() << "needs a GPU: " << cuda::unavailable_reason(); }();
  return true;
}

std::vector<double> values_of(const Tensor& x) {
  const Tensor host = Tensor::make(x.shape(), x.dtype(), Device());
  kernels::copy_into(host, x);
  return host.to_vector<double>();
}

testing::AssertionResult close(const Tensor& got, const Shape& shape,
                               const std::vector<double>& want, double tolerance) {
  if (!got.defined()) return testing::AssertionFailure() << "the tensor is undefined";
  if (got.shape() != shape) {
    return testing::AssertionFailure()
           << "shape " << to_string(got.shape()) << ", expected " << to_string(shape);
  }
  const std::vector<double> values = values_of(got);
  size_t bad = 0, first = 0;
  for (size_t i = values.size(); i-- > 0;) {
    if (near(values[i], want[i], tolerance)) continue;
    ++bad;
    first = i;
  }
  if (bad == 0) return testing::AssertionSuccess();
  return testing::AssertionFailure()
         << bad << " of " << values.size() << " elements differ; at " << place(shape, first) << ": "
         << cat(values[first]) << ", expected " << cat(want[first]) << " (tolerance " << tolerance
         << ", " << name_of(got.dtype()) << " on " << to_string(got.device()) << ")";
}

testing::AssertionResult close(const Tensor& got, const Tensor& want, double tolerance) {
  if (!want.defined()) return testing::AssertionFailure() << "the expected tensor is undefined";
  return close(got, want.shape(), values_of(want), tolerance);
}

testing::AssertionResult close(const std::vector<double>& got, const std::vector<double>& want,
                               double tolerance) {
  if (got.size() != want.size()) {
    return testing::AssertionFailure() << got.size() << " elements, expected " << want.size();
  }
  for (size_t i = 0; i < got.size(); ++i) {
    if (near(got[i], want[i], tolerance)) continue;
    return testing::AssertionFailure() << "element " << i << ": " << cat(got[i]) << ", expected "
                                       << cat(want[i]) << " (tolerance " << tolerance << ")";
  }
  return testing::AssertionSuccess();
}

testing::AssertionResult same_bits(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) {
    return testing::AssertionFailure()
           << name_of(a.dtype()) << " " << to_string(a.shape()) << " against " << name_of(b.dtype())
           << " " << to_string(b.shape());
  }
  const std::vector<char> left = bytes_of(a), right = bytes_of(b);
  for (size_t i = 0; i < left.size(); ++i) {
    if (left[i] == right[i]) continue;
    const size_t element = i / a.element_size();
    return testing::AssertionFailure()
           << "other bits at " << place(a.shape(), element) << ": " << cat(values_of(a)[element])
           << " against " << cat(values_of(b)[element]);
  }
  return testing::AssertionSuccess();
}

}  // namespace taper::test
