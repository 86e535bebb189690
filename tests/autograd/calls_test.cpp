// Calls in the usual forms compile under `using namespace taper` and select the intended function.
#include <cmath>
#include <sstream>

#include <gtest/gtest.h>

#include "taper.h"
#include "tests/testing.h"

using namespace taper;

namespace {

TEST(Calls, TakeOneDimension) {
  const Tensor x = tensor({{1., 2.}, {3., 5.}});
  EXPECT_EQ(sum(x, 1).to_floats(), (std::vector<float>{3, 8}));
  EXPECT_EQ(x.sum(-1, true).shape(), (Shape{2, 1}));
  EXPECT_EQ(x.mean(0).to_floats(), (std::vector<float>{2, 3.5}));
  EXPECT_EQ(x.amax(1).to_floats(), (std::vector<float>{2, 5}));
  EXPECT_EQ(zeros(3).shape(), Shape{3});
  EXPECT_EQ(ones(2).sum().item<float>(), 2);
  EXPECT_EQ(rand(4, {.dtype = kFloat64}).dtype(), kFloat64);
  EXPECT_EQ(x.view(-1).size(0), 4);
}

TEST(Calls, ComputeInPlaceWithNumbers) {
  Tensor x = ones(2);
  x += 1;
  x *= 3;
  x -= 2;
  x /= 4;
  EXPECT_EQ(x.to_floats(), (std::vector<float>{1, 1}));
}

TEST(Calls, CompareByElement) {
  const Tensor x = tensor({1, 2, 3}), y = tensor({3, 2, 1});
  EXPECT_EQ((x == y).to_vector<bool>(), (std::vector<bool>{false, true, false}));
  EXPECT_EQ((x != 2).to_vector<bool>(), (std::vector<bool>{true, false, true}));
  EXPECT_EQ((2 < x).to_vector<bool>(), (std::vector<bool>{false, false, true}));
  EXPECT_EQ((2 == x).to_vector<bool>(), (std::vector<bool>{false, true, false}));
  EXPECT_EQ(((x >= 2) & (y >= 2)).to_vector<bool>(), (std::vector<bool>{false, true, false}));
}

// Functions are also methods.
TEST(Calls, AreMethods) {
  const Tensor x = tensor({{1., -2.}, {3., 4.}});
  EXPECT_EQ(x.abs().max().item<float>(), 4);
  EXPECT_EQ(x.relu().log1p().exp().shape(), x.shape());
  EXPECT_TRUE(test::close(x.std(), x.var().sqrt(), 1e-6));
  EXPECT_EQ(x.softmax(-1).sum().item<float>(), 2);
  EXPECT_EQ(x.matmul(x.t()).shape(), (Shape{2, 2}));
  const auto [values, indices] = x.sort(1);
  EXPECT_EQ(indices.to_vector<int64_t>(), (std::vector<int64_t>{1, 0, 0, 1}));
}

struct CalledNet : Module {
  Child<Conv2d> c{*this, "c", 1, 8, 3, {.padding = 1}};
  Child<LayerNorm> norm{*this, "norm", 64};
  Tensor forward(const Tensor& x) override { return c(x); }
};

TEST(Calls, MakeLayersAndOptimizers) {
  Linear plain(3, 4, false);
  EXPECT_FALSE(plain.bias.defined());
  CalledNet net;
  EXPECT_EQ(net.type_name(), "CalledNet");
  optim::Adam optimizer(net.parameters());
  std::ostringstream text;
  text << net << zeros(3).shape();
  EXPECT_NE(text.str().find("(c): Conv2d(1, 8, kernel_size=(3, 3)"), std::string::npos);
  EXPECT_NE(text.str().find("[3]"), std::string::npos);
}

// With `using namespace std` these names would select functions of the C library.
TEST(Calls, DoNotFallIntoTheCLibrary) {
  const Tensor x = tensor({4., 9.});
  EXPECT_EQ(sqrt(x).to_floats(), (std::vector<float>{2, 3}));
  EXPECT_EQ(pow(2, tensor({1., 3.})).to_floats(), (std::vector<float>{2, 8}));
  EXPECT_EQ(remainder(5, tensor({3., 4.})).to_floats(), (std::vector<float>{2, 1}));
  EXPECT_EQ(round(x).to_floats(), x.to_floats());
  EXPECT_EQ(fmod(x, 4).to_floats(), (std::vector<float>{0, 1}));
}

}  // namespace
