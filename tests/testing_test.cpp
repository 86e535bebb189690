// The messages of failing helpers for users' tests.
#include "tests/testing.h"

#include <cstdlib>
#include <filesystem>
#include <limits>
#include <string>

#include <unistd.h>

#include "autograd/function.h"
#include "autograd/ops/binary_ops.h"
#include "framework/factory/factories.h"

namespace taper::v0::test {
namespace {

namespace fs = std::filesystem;

void expect_fails(const testing::AssertionResult& result, const std::string& text) {
  EXPECT_FALSE(result) << "expected: " << text;
  EXPECT_NE(std::string(result.message()).find(text), std::string::npos)
      << "expected '" << text << "' in:\n"
      << result.message();
}

TEST(Testing, CloseMeansBothTolerancesOfPyTorch) {
  const double inf = std::numeric_limits<double>::infinity(), nan = inf - inf;
  const Tensor x = tensor({1.0, 100.0, inf, nan});
  EXPECT_TENSOR_CLOSE(x, x, 0, 0);
  EXPECT_TENSOR_CLOSE(tensor({1.0, 101.0, inf, nan}), x, 0.01, 0);
  EXPECT_TENSOR_CLOSE(tensor({2.0, 101.0, inf, nan}), x, 0, 1);
  EXPECT_TENSOR_CLOSE(x.to(kFloat64), x, 0, 0);
  expect_fails(
      tensor_close(tensor({{1.5, 2.0}, {3.0, 14.0}}), tensor({{1.0, 2.0}, {3.0, 4.0}}), 0.1, 0),
      "2 of 4 elements differ; at [0, 0]: 1.5, expected 1; furthest off at [1, 1]: 14, "
      "expected 4 (rtol 0.1, atol 0, float32 on cpu)");
  expect_fails(tensor_close(x, tensor({1.0, 100.0, inf, 0.0}), 1, 1),
               "1 of 4 elements differ; at [3]: nan");
  expect_fails(tensor_close(x, tensor({1.0, 100.0, -inf, nan}), 1, 1),
               "at [2]: inf, expected -inf");
  expect_fails(tensor_close(x, x.view({2, 2}), 1, 1), "shape [4], expected [2, 2]");
  expect_fails(tensor_close(Tensor(), x, 1, 1), "the tensor is undefined");
}

struct Wrong : Function<Wrong> {
  static Tensor forward(Context&, const Tensor& x) { return x * x; }
  static std::vector<Tensor> backward(Context&, const std::vector<Tensor>& dy) { return {dy[0]}; }
};

TEST(Testing, AWrongGradientIsNamed) {
  const auto f = [](const std::vector<Tensor>& x) { return Wrong::apply(x[0]); };
  expect_fails(passes_gradcheck(f, {tensor({3.0}, {.dtype = kFloat64})}),
               "input 0 of shape [1], element 0");
  expect_fails(passes_gradcheck(f, {tensor({3.0})}), "gradcheck needs float64 inputs");
  expect_fails(passes_gradgradcheck(f, {tensor({3.0})}), "gradgradcheck needs float64 inputs");
  const auto cube = [](const std::vector<Tensor>& x) { return x[0] * x[0] * x[0]; };
  EXPECT_GRADGRADCHECK(cube, {tensor({3.0, -1.0}, {.dtype = kFloat64})});
}

TEST(Testing, GoldenFilesAreWrittenWhenAskedAndComparedElse) {
  const fs::path dir = fs::temp_directory_path() / concat_to_string("taper_golden_", getpid());
  const fs::path file = dir / "x.safetensors";
  fs::create_directories(dir);
  const Tensor x = tensor({1.0, 2.0});
  expect_fails(matches_golden(x, file), "run with TAPER_UPDATE_GOLDEN=1");
  setenv("TAPER_UPDATE_GOLDEN", "1", 1);
  EXPECT_MATCHES_GOLDEN(x, file);
  unsetenv("TAPER_UPDATE_GOLDEN");
  EXPECT_MATCHES_GOLDEN(x, file);
  EXPECT_MATCHES_GOLDEN(x + 1e-6, file, 1e-5, 0);
  expect_fails(matches_golden(x + 1e-6, file), "x.safetensors, tensor: other bits at [0]");
  expect_fails(matches_golden(x + 1, file, 1e-5), "2 of 2 elements differ");
  expect_fails(matches_golden(x.to(kFloat64), file, 1e-5), "float64, expected float32");
  expect_fails(matches_golden(std::vector<NamedTensor>{{"y", x}}, file), "{ \"y\" }, ");
  // A run's directory is accepted in place of a file.
  fs::copy_file(file, dir / "model.safetensors");
  EXPECT_MATCHES_GOLDEN(dir, file);
  fs::remove_all(dir);
}

}  // namespace
}  // namespace taper::v0::test
