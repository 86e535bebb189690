// The comparisons of taper::testing and their results. They do not depend on GoogleTest, so tests
// may use any version of it (testing/taper_testing.h).
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

// A result that EXPECT_TRUE accepts and whose failure it prints.
struct Verdict {
  std::string failure{};  // empty: passed

  operator bool() const { return failure.empty(); }
  operator ::testing::AssertionResult() const;
};

// Compares tensors with tolerances. The message of a failure names the first and the worst element,
// and counts the elements that differ.
Verdict tensor_close(const Tensor& got, const Tensor& want, double rtol, double atol);
// Passes if shape, dtype and every bit pattern are equal, whatever the devices and layouts.
Verdict same_bits(const Tensor& a, const Tensor& b);

Verdict passes_gradcheck(const std::function<Tensor(const std::vector<Tensor>&)>& f,
                         const std::vector<Tensor>& inputs);
Verdict passes_gradgradcheck(const std::function<Tensor(const std::vector<Tensor>&)>& f,
                             const std::vector<Tensor>& inputs);

// Compares a tensor with a golden file, including the dtype. Every bit must be equal unless a
// tolerance is given. `file` is a safetensors file, or a JSON file, which has a section for each
// platform on which it was recorded and holds at most 100000 elements.
//
// TAPER_UPDATE_GOLDEN=1 in the environment writes the safetensors file. It also writes a JSON file
// that is missing, or adds a section for this machine. TAPER_BLESS="reason" replaces numbers, and
// keeps author (GIT_AUTHOR_NAME or `git config user.name`), date and reason in the file.
Verdict matches_golden(const Tensor& got, const std::filesystem::path& file, double rtol = 0,
                       double atol = 0);
// Compares several tensors by name, such as model.state_dict().
Verdict matches_golden(const std::vector<NamedTensor>& got, const std::filesystem::path& file,
                       double rtol = 0, double atol = 0);
// Compares the final weights of a run: model.safetensors in its directory. (`taper check` compares
// every step.)
Verdict matches_golden(const std::filesystem::path& run, const std::filesystem::path& file,
                       double rtol = 0, double atol = 0);

// Returns all elements on the host, whatever the device, dtype and layout.
std::vector<double> values_of(const Tensor& x);

}  // namespace taper::v0::test
