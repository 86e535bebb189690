// How to test a user-defined model: it tests the forward pass, the gradients, and whether training
// still gives the same weights. Link taper::testing and GTest::gtest_main.
#include <taper/taper.h>
#include <taper/testing.h>

namespace {

using namespace taper;

struct Net : Module {
  Child<Linear> hidden{*this, "hidden", 4, 8};
  Child<Linear> out{*this, "out", 8, 2};
  Tensor forward(const Tensor& x) override { return out(tanh(hidden(x))); }
  std::string type_name() const override { return "Net"; }
};

TEST(Example, AFusedFormulaIsThatOfTheOps) {
  const Tensor x = tensor({-1.0, 0.0, 2.0});
  EXPECT_TENSOR_CLOSE(silu(x), x * sigmoid(x), 1e-6, 1e-8);
}

TEST(Example, TheGradientIsThatOfTheLoss) {
  const Tensor target = tensor({1.0, -1.0}, {.dtype = kFloat64});
  EXPECT_GRADCHECK(
      [&](const std::vector<Tensor>& x) { return mse_loss(tanh(x[0]) * x[1], target); },
      {tensor({0.5, -0.2}, {.dtype = kFloat64}), tensor({2.0, 3.0}, {.dtype = kFloat64})});
}

TEST(Example, TheSecondGradientIsThatOfThePenalty) {
  EXPECT_GRADGRADCHECK(
      [](const std::vector<Tensor>& x) { return tanh(x[0]) * x[1]; },
      {tensor({0.5, -0.2}, {.dtype = kFloat64}), tensor({2.0, 3.0}, {.dtype = kFloat64})});
}

// Compares the weights after twenty steps. The bits of a matrix product differ between kinds of
// CPUs, so a tolerance is given. After an intended change run with TAPER_UPDATE_GOLDEN=1.
TEST(Example, TrainingGivesTheWeightsThatItGave) {
  manual_seed(1);
  Net net;
  const Tensor x = randn({16, 4}), y = randn({16, 2});
  optim::SGD sgd(net.parameters(), {.lr = 0.1, .momentum = 0.9});
  for (int step = 0; step < 20; ++step) {
    sgd.zero_grad();
    mse_loss(net(x), y).backward();
    sgd.step();
  }
  EXPECT_MATCHES_GOLDEN(net.state_dict(), TAPER_SOURCE_DIR "/testing/example_golden.safetensors",
                        1e-4, 1e-5);
}

}  // namespace
