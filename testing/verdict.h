// What taper::testing compares, and what came of it: without GoogleTest, so that a user's tests may
// have whichever they like (testing/taper_testing.h).
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "framework/tensor/tensor.h"

namespace testing {
class AssertionResult;
}

namespace taper::v0::test {

// EXPECT_TRUE takes it and shows the failure.
struct Verdict {
  std::string failure{};  // empty: passed

  operator bool() const { return failure.empty(); }
  operator ::testing::AssertionResult() const;
};

// A failure names the first element and the worst, and counts them.
Verdict tensor_close(const Tensor& got, const Tensor& want, double rtol, double atol);
// Shape, dtype and every bit pattern equal, whatever the devices and layouts.
Verdict same_bits(const Tensor& a, const Tensor& b);

Verdict passes_gradcheck(const std::function<Tensor(const std::vector<Tensor>&)>& f,
                         const std::vector<Tensor>& inputs);
Verdict passes_gradgradcheck(const std::function<Tensor(const std::vector<Tensor>&)>& f,
                             const std::vector<Tensor>& inputs);

// Against a safetensors file: dtypes too, and every bit unless a tolerance is given.
Verdict matches_golden(const Tensor& got, const std::filesystem::path& file, double rtol = 0,
                       double atol = 0);
// The same for several by name, as model.state_dict().
Verdict matches_golden(const std::vector<NamedTensor>& got, const std::filesystem::path& file,
                       double rtol = 0, double atol = 0);
// The weights that a run ended with: model.safetensors in its directory. (Every step: `taper
// check`.)
Verdict matches_golden(const std::filesystem::path& run, const std::filesystem::path& file,
                       double rtol = 0, double atol = 0);

// All elements on the host, whatever the device, dtype and layout.
std::vector<double> values_of(const Tensor& x);

}  // namespace taper::v0::test
