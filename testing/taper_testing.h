// Helpers for GoogleTest tests of models and training (CMake: link taper::testing).
//
//   EXPECT_TENSOR_CLOSE(model(x), want, 1e-5, 1e-8);
//   EXPECT_GRADCHECK([](const std::vector<Tensor>& x) { return my_loss(x[0], x[1]); }, {a, b});
//   EXPECT_MATCHES_GOLDEN(model(x), "golden/logits.safetensors");
//
// TAPER_UPDATE_GOLDEN=1 in the environment writes the golden files instead of comparing with them.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "framework/tensor.h"

// Shapes equal and every |got - want| <= atol + rtol * |want|
// (https://pytorch.org/docs/stable/testing.html); nan equals nan, and infinities equal themselves.
// Dtypes and devices may differ.
#define EXPECT_TENSOR_CLOSE(got, want, rtol, atol) \
  EXPECT_TRUE(::taper::test::tensor_close(got, want, rtol, atol))
// Gradients of f at float64 inputs agree with differences (gradcheck in autograd/engine.h). The
// inputs may be a list in braces.
#define EXPECT_GRADCHECK(f, ...) EXPECT_TRUE(::taper::test::passes_gradcheck(f, __VA_ARGS__))
// (value, file) or (value, file, rtol, atol): matches_golden below.
#define EXPECT_MATCHES_GOLDEN(value, ...) \
  EXPECT_TRUE(::taper::test::matches_golden(value, __VA_ARGS__))

namespace taper::test {

// A failure names the first element and the worst, and counts them.
testing::AssertionResult tensor_close(const Tensor& got, const Tensor& want, double rtol,
                                      double atol);
// Shape, dtype and every bit pattern equal, whatever the devices and layouts.
testing::AssertionResult same_bits(const Tensor& a, const Tensor& b);

testing::AssertionResult passes_gradcheck(
    const std::function<Tensor(const std::vector<Tensor>&)>& f, const std::vector<Tensor>& inputs);

// Against a safetensors file: dtypes too, and every bit unless a tolerance is given.
testing::AssertionResult matches_golden(const Tensor& got, const std::filesystem::path& file,
                                        double rtol = 0, double atol = 0);
// The same for several by name, as model.state_dict().
testing::AssertionResult matches_golden(const std::vector<NamedTensor>& got,
                                        const std::filesystem::path& file, double rtol = 0,
                                        double atol = 0);
// The weights that a run ended with: model.safetensors in its directory. (Every step: `taper
// check`.)
testing::AssertionResult matches_golden(const std::filesystem::path& run,
                                        const std::filesystem::path& file, double rtol = 0,
                                        double atol = 0);

// All elements on the host, whatever the device, dtype and layout.
std::vector<double> values_of(const Tensor& x);

}  // namespace taper::test
