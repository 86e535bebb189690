// What all tests share beyond what users have (testing/taper_testing.h): the devices there are,
// comparisons in one tolerance, refusals.
#pragma once

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "framework/tensor/tensor.h"
#include "testing/taper_testing.h"

namespace taper::v0::test {

// The CPU, and the GPU where one can be used: test bodies loop over these.
std::vector<Device> all_devices();

// True, with the test marked as skipped and the reason said, when no GPU can be used:
// `if (skip_without_cuda()) return;`
bool skip_without_cuda();

// The same where memory is not kept (framework/memory/small_blocks.h: allocates_plainly).
bool skip_without_cache();

// tensor_close with |got - want| <= tolerance * (1 + |want|).
testing::AssertionResult close(const Tensor& got, const Tensor& want, double tolerance);
testing::AssertionResult close(const Tensor& got, const Shape& shape,
                               const std::vector<double>& want, double tolerance);
testing::AssertionResult close(const std::vector<double>& got, const std::vector<double>& want,
                               double tolerance);

// f throws exactly E (or what derives from it) and the message begins with `text`.
template <class E, class F> testing::AssertionResult refuses(F&& f, const std::string& text) {
  try {
    (void)f();
  } catch (const E& error) {
    if (std::string(error.what()).starts_with(text)) return testing::AssertionSuccess();
    return testing::AssertionFailure() << "says: " << error.what() << "\n  not: " << text;
  } catch (const std::exception& error) {
    return testing::AssertionFailure() << "another kind of exception: " << error.what();
  }
  return testing::AssertionFailure() << "nothing was thrown; expected: " << text;
}

}  // namespace taper::v0::test
