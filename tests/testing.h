// Helpers of all tests, in addition to those for users (testing/taper_testing.h): the available
// devices, comparisons with a single tolerance, refusals.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "framework/tensor/tensor.h"
#include "testing/taper_testing.h"

namespace taper::v0::test {

// Returns the CPU and, if one is available, a GPU. Test bodies loop over them.
std::vector<Device> all_devices();

// Returns pairs of different devices that compute the same bits: two CPU devices and, if there are
// two GPUs, these.
std::vector<std::pair<Device, Device>> device_pairs();

// Returns true and marks the test as skipped, with the reason, if no GPU is available:
// `if (skip_without_cuda()) return;`
bool skip_without_cuda();

// The same if no memory is cached (framework/memory/small_blocks.h: uses_uncached_allocator).
bool skip_without_cache();

// Calls tensor_close with |got - want| <= tolerance * (1 + |want|).
testing::AssertionResult close(const Tensor& got, const Tensor& want, double tolerance);
testing::AssertionResult close(const Tensor& got, const Shape& shape,
                               const std::vector<double>& want, double tolerance);
testing::AssertionResult close(const std::vector<double>& got, const std::vector<double>& want,
                               double tolerance);

// Checks that f throws an E (or a class derived from it) whose message begins with `text`.
template <class E, class F> testing::AssertionResult refuses(F&& f, const std::string& text) {
  try {
    (void)f();
  } catch (const E& error) {
    if (std::string(error.what()).starts_with(text)) return testing::AssertionSuccess();
    return testing::AssertionFailure()
           << "the message is: " << error.what() << "\n  expected: " << text;
  } catch (const std::exception& error) {
    return testing::AssertionFailure() << "another type of exception was thrown: " << error.what();
  }
  return testing::AssertionFailure() << "nothing was thrown; expected: " << text;
}

}  // namespace taper::v0::test
