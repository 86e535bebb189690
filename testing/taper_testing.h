// Helpers for GoogleTest tests of models and training (CMake: link taper::testing).
//
//   EXPECT_TENSOR_CLOSE(model(x), want, 1e-5, 1e-8);
//   EXPECT_GRADCHECK([](const std::vector<Tensor>& x) { return my_loss(x[0], x[1]); }, {a, b});
//   EXPECT_MATCHES_GOLDEN(model(x), "golden/logits.safetensors");
//   EXPECT_MATCHES_GOLDEN(train, "golden/net.json");          // Metrics train(uint64_t seed)
//   EXPECT_TRAINS_AS_WELL(train, "golden/net.json", {.seeds = 5});
//
// TAPER_UPDATE_GOLDEN=1 in the environment writes golden files that are missing, and safetensors
// files in any case. TAPER_BLESS="reason" replaces recorded numbers.
#pragma once

#include <gtest/gtest.h>

#include "testing/training_golden.h"
#include "testing/verdict.h"

// Passes if shapes are equal and every |got - want| <= atol + rtol * |want|
// (https://pytorch.org/docs/stable/testing.html). nan equals nan, and infinities equal themselves.
// Dtypes and devices may differ.
#define EXPECT_TENSOR_CLOSE(got, want, rtol, atol) \
  EXPECT_TRUE(::taper::test::tensor_close(got, want, rtol, atol))
// Passes if the gradients of f at float64 inputs agree with finite differences (gradcheck in
// autograd/engine.h). The inputs may be a list in braces.
#define EXPECT_GRADCHECK(f, ...) EXPECT_TRUE(::taper::test::passes_gradcheck(f, __VA_ARGS__))
// Passes if the gradients of f's gradients agree with finite differences (gradgradcheck in
// autograd/engine.h).
#define EXPECT_GRADGRADCHECK(f, ...) \
  EXPECT_TRUE(::taper::test::passes_gradgradcheck(f, __VA_ARGS__))
// The arguments are (value, file) or (value, file, rtol, atol), as for matches_golden in
// testing/verdict.h; or (training, file) or (training, file, options), as for matches_golden in
// testing/training_golden.h.
#define EXPECT_MATCHES_GOLDEN(value, ...) \
  EXPECT_TRUE(::taper::test::matches_golden(value, __VA_ARGS__))
// Passes if a training is not worse than recorded, by statistics over several seeds. The arguments
// are (training, file) or (training, file, options), as for trains_as_well in
// testing/training_golden.h.
#define EXPECT_TRAINS_AS_WELL(training, ...) \
  EXPECT_TRUE(::taper::test::trains_as_well(training, __VA_ARGS__))

inline taper::test::Verdict::operator ::testing::AssertionResult() const {
  return failure.empty() ? ::testing::AssertionSuccess() : ::testing::AssertionFailure() << failure;
}
