// The rules of the tape (https://pytorch.org/docs/stable/notes/autograd.html).
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "autograd/engine.h"
#include "autograd/ops/binary_ops.h"
#include "autograd/ops/index/index_ops.h"
#include "autograd/ops/random_ops.h"
#include "autograd/ops/reduce_ops.h"
#include "autograd/ops/unary_ops.h"
#include "framework/factory/factories.h"
#include "tests/testing.h"

namespace taper::v0::test {
namespace {

const std::string kUsedUp =
    "Trying to backward through the graph a second time (or directly access saved tensors after "
    "they have already been freed). Saved intermediate values of the graph are freed when you call "
    "backward() or grad(). Specify retain_graph = true if you need to backward through the "
    "graph a second time or if you need to access saved tensors after calling backward.";

class Tape : public testing::TestWithParam<Device> {
 protected:
  Tensor leaf(const TensorData& values, DType dtype = kFloat64) const {
    return tensor(values, {.dtype = dtype, .device = GetParam(), .requires_grad = true});
  }
  Tensor constant(const TensorData& values) const {
    return tensor(values, {.dtype = kFloat64, .device = GetParam()});
  }
};

std::string name_of_device(const testing::TestParamInfo<Device>& info) {
  return info.param.is_cuda() ? "cuda" : "cpu";
}
INSTANTIATE_TEST_SUITE_P(Devices, Tape, testing::ValuesIn(all_devices()), name_of_device);

// --- backward ---

TEST_P(Tape, BackwardPutsGradientsIntoLeaves) {
  const Tensor x = leaf({1, 2, 3});
  (x * x).sum().backward();
  EXPECT_TRUE(close(x.grad(), {3}, {2, 4, 6}, 0));
}

TEST_P(Tape, ASecondGraphAddsToTheGradient) {
  const Tensor x = leaf({2});
  (x * x).sum().backward();
  (x * 3).sum().backward();
  EXPECT_TRUE(close(x.grad(), {1}, {7}, 0));
  x.set_grad({});
  (x * 3).sum().backward();
  EXPECT_TRUE(close(x.grad(), {1}, {3}, 0));
}

TEST_P(Tape, AGraphIsUsedUpByItsPass) {
  const Tensor x = leaf({2});
  const Tensor y = (x * x).sum();
  y.backward();
  EXPECT_TRUE(refuses<Error>([&] { return y.backward(), 0; }, kUsedUp));
  EXPECT_TRUE(close(x.grad(), {1}, {4}, 0));
}

TEST_P(Tape, RetainGraphAllowsASecondPass) {
  const Tensor x = leaf({2});
  const Tensor y = (x * x).sum();
  y.backward({.retain_graph = true});
  y.backward();
  EXPECT_TRUE(close(x.grad(), {1}, {8}, 0));
  EXPECT_TRUE(refuses<Error>([&] { return y.backward(), 0; }, kUsedUp));
}

TEST_P(Tape, WithoutAGradientTheOutputMustBeScalar) {
  const Tensor x = leaf({1, 2});
  EXPECT_TRUE(refuses<Error>([&] { return (x * 2).backward(), 0; },
                             "grad can be implicitly created only for scalar outputs"));
  EXPECT_TRUE(refuses<Error>([&] { return (x * 2).backward(constant({1})), 0; },
                             "Mismatch in shape: grad_output[0] has a shape of [1] and output[0] "
                             "has a shape of [2]."));
  (x * 2).backward(constant({1, 10}));
  EXPECT_TRUE(close(x.grad(), {2}, {2, 20}, 0));
}

TEST_P(Tape, BackwardNeedsSomethingOnTheTape) {
  EXPECT_TRUE(
      refuses<Error>([&] { return constant({1}).sum().backward(), 0; },
                     "element 0 of tensors does not require grad and does not have a grad_fn"));
}

TEST_P(Tape, DiamondsAndRepeatedUseAddUp) {
  const Tensor x = leaf({3});
  const Tensor a = x * 2, b = x * x;
  (a * b + a + x + x).sum().backward();
  // d/dx (2x^3 + 2x + 2x) = 6x^2 + 4
  EXPECT_TRUE(close(x.grad(), {1}, {58}, 0));
}

TEST_P(Tape, LeavesThatShareAGradientDoNotShareItsMemory) {
  const Tensor a = leaf({1, 2}), b = leaf({3, 4});
  (a + b).sum().backward();
  a.grad().mul_(wrap_scalar(100));
  EXPECT_TRUE(close(b.grad(), {2}, {1, 1}, 0));
  const Tensor c = leaf({1, 2}), d = leaf({3, 4});
  const Tensor dy = constant({5, 6});
  (c + d).backward(dy);
  c.grad().add_(wrap_scalar(1));
  EXPECT_TRUE(close(d.grad(), {2}, {5, 6}, 0));
  EXPECT_TRUE(close(dy, {2}, {5, 6}, 0)) << "the caller's own tensor was changed";
}

TEST_P(Tape, ALeafMayBeTheOutputItself) {
  const Tensor x = leaf({2}).requires_grad_();
  const Tensor s = full({}, 2.0, {.device = GetParam(), .requires_grad = true});
  s.backward();
  EXPECT_TRUE(close(s.grad(), {}, {1}, 0));
  x.backward(constant({7}));
  x.backward(constant({1}));
  EXPECT_TRUE(close(x.grad(), {1}, {8}, 0));
}

TEST_P(Tape, SeveralOutputsGoBackwardTogether) {
  const Tensor x = leaf({2});
  const std::vector<Tensor> outputs{(x * 3).sum(), (x * x).sum()};
  backward(outputs);
  EXPECT_TRUE(close(x.grad(), {1}, {7}, 0));
}

TEST_P(Tape, GradientsOfIntermediatesAreKeptOnRequestOnly) {
  const Tensor x = leaf({2});
  const Tensor y = x * 3, z = y * y;
  y.retain_grad();
  z.sum().backward();
  EXPECT_TRUE(close(y.grad(), {1}, {12}, 0));
  EXPECT_FALSE(z.grad().defined());
  EXPECT_TRUE(refuses<Error>([&] { return constant({1}).retain_grad(), 0; },
                             "can't retain_grad on a Tensor that does not require grad"));
}

// --- grad ---

TEST_P(Tape, GradTouchesNoLeaf) {
  const Tensor x = leaf({2}), w = leaf({5});
  const Tensor y = x * w;
  const std::vector<Tensor> dx = grad({(y * y).sum()}, {x, y});
  EXPECT_TRUE(close(dx[0], {1}, {100}, 0));
  EXPECT_TRUE(close(dx[1], {1}, {20}, 0));
  EXPECT_FALSE(x.grad().defined());
  EXPECT_FALSE(w.grad().defined());
}

// The graph from which an input was computed is not visited and stays usable.
TEST_P(Tape, GradRunsOnlyWhatLiesBetween) {
  const Tensor x = ones({2}, {.device = GetParam(), .requires_grad = true});
  const Tensor h = exp(x), sibling = exp(x * 2), y = (h * h * sibling).sum();
  int asked = 0;
  const auto count = [&](const Tensor&) { ++asked; };
  x.register_hook(count);
  sibling.register_hook(count);
  (void)grad({y}, {h});
  EXPECT_EQ(asked, 0);
  h.sum().backward();
  EXPECT_EQ(asked, 1);
  // An input that another input depends on.
  const Tensor u = exp(x), v = exp(u);
  const std::vector<Tensor> both = grad({v.sum()}, {u, v, x}, {.retain_graph = true});
  EXPECT_TRUE(close(both[0], v, 1e-6));
  EXPECT_TRUE(close(both[1], ones_like(v), 0));
  EXPECT_TRUE(close(both[2], u * v, 1e-6));
}

TEST_P(Tape, GradRefusesInputsThatAreNotInTheGraph) {
  const Tensor x = leaf({2}), other = leaf({3});
  EXPECT_TRUE(refuses<Error>([&] { return grad({x.sum()}, {constant({1})}); },
                             "One of the differentiated Tensors does not require grad"));
  EXPECT_TRUE(refuses<Error>(
      [&] { return grad({x.sum()}, {other}); },
      "One of the differentiated Tensors appears to not have been used in the graph. Set "
      "allow_unused = true if this is the desired behavior."));
  EXPECT_FALSE(grad({x.sum()}, {other}, {.allow_unused = true})[0].defined());
}

TEST_P(Tape, GradTakesInputsAsTheyCome) {
  const Tensor x = leaf({1, 2});
  const auto twice = grad({(x * x).sum()}, {x, x});
  EXPECT_TRUE(close(twice[0], {2}, {2, 4}, 0));
  EXPECT_TRUE(close(twice[1], {2}, {2, 4}, 0));
  const Tensor y = x * 2;
  const auto itself = grad({y}, {y, x}, {constant({1, 10})});
  EXPECT_TRUE(close(itself[0], {2}, {1, 10}, 0));
  EXPECT_TRUE(close(itself[1], {2}, {2, 20}, 0));
  EXPECT_TRUE(close(grad({x}, {x}, {constant({3, 4})})[0], {2}, {3, 4}, 0));
  // A gradient of another dtype is converted.
  const Tensor ints = tensor({1, 2}, {.device = GetParam()});
  const Tensor dx = grad({x * 2}, {x}, {ints})[0];
  EXPECT_EQ(dx.dtype(), kFloat64);
  EXPECT_TRUE(close(dx, {2}, {2, 4}, 0));
}

TEST_P(Tape, GradRefusesWhatDoesNotFitTogether) {
  const Tensor x = leaf({1, 2});
  const Tensor one = tensor(1, {.device = GetParam()});
  EXPECT_TRUE(
      refuses<ValueError>([&] { return grad({x.sum()}, {}); }, "grad requires non-empty inputs."));
  EXPECT_TRUE(
      refuses<Error>([&] { return grad({one}, {x}); },
                     "element 0 of tensors does not require grad and does not have a grad_fn"));
  EXPECT_TRUE(refuses<Error>([&] { return grad({x.sum()}, {one}); },
                             "One of the differentiated Tensors does not require grad"));
  EXPECT_TRUE(refuses<Error>(
      [&] {
        return grad({x.sum(), x.sum()}, {x}, {one});
      },
      "got 2 tensors and 1 gradients"));
  EXPECT_TRUE(refuses<Error>([&] { return grad({}, {x}); },
                             "One of the differentiated Tensors appears to not have been used"));
  const auto unused = grad({x.sum()}, {x, leaf({1})}, {.allow_unused = true});
  EXPECT_TRUE(unused[0].defined());
  EXPECT_FALSE(unused[1].defined());
}

TEST_P(Tape, CreateGraphGivesHigherDerivatives) {
  const Tensor x = leaf({2});
  const Tensor y = (x * x * x * x).sum();
  const Tensor first = grad({y}, {x}, {.create_graph = true})[0];
  const Tensor second = grad({first.sum()}, {x}, {.create_graph = true})[0];
  const Tensor third = grad({second.sum()}, {x})[0];
  EXPECT_TRUE(close(first, {1}, {32}, 0));
  EXPECT_TRUE(close(second, {1}, {48}, 0));
  EXPECT_TRUE(close(third, {1}, {48}, 0));
}

TEST_P(Tape, APenaltyOnAGradientTrains) {
  const Tensor x = leaf({1, 2}), w = leaf({3, 4});
  const Tensor dx = grad({(tanh(x * w)).sum()}, {x}, {.create_graph = true})[0];
  square(dx).sum().backward();
  EXPECT_TRUE(w.grad().defined());
}

// --- modes and leaves ---

TEST_P(Tape, NothingIsRecordedUnderNoGrad) {
  const Tensor x = leaf({2});
  {
    const NoGradGuard no_grad;
    EXPECT_FALSE((x * 2).requires_grad());
    {
      const AutoGradMode grad_again(true);
      EXPECT_TRUE((x * 2).requires_grad());
    }
    EXPECT_FALSE((x * 2).requires_grad());
  }
  EXPECT_TRUE((x * 2).requires_grad());
}

TEST_P(Tape, NoGradEndsWithAnException) {
  EXPECT_THROW(
      {
        const NoGradGuard no_grad;
        throw Error("x");
      },
      Error);
  EXPECT_TRUE(is_grad_enabled());
}

TEST_P(Tape, DetachLeavesTheTapeButSharesMemory) {
  const Tensor x = leaf({1, 2});
  const Tensor y = x * 2, z = y.detach();
  EXPECT_FALSE(z.requires_grad());
  EXPECT_TRUE(z.is_leaf());
  EXPECT_EQ(z.data_ptr(), y.data_ptr());
  (x * z).sum().backward();
  EXPECT_TRUE(close(x.grad(), {2}, {2, 4}, 0));
}

TEST_P(Tape, LeavesAreWhatNoOpMade) {
  const Tensor x = leaf({1});
  EXPECT_TRUE(x.is_leaf());
  EXPECT_EQ(x.grad_fn(), nullptr);
  const Tensor y = x * 2;
  EXPECT_FALSE(y.is_leaf());
  EXPECT_STREQ(y.grad_fn(), "MulBackward0");
  EXPECT_TRUE((constant({1}) * 2).is_leaf());
  EXPECT_TRUE(refuses<Error>([&] { return y.requires_grad_(false), 0; },
                             "you can only change requires_grad flags of leaf variables."));
  EXPECT_TRUE(refuses<Error>(
      [&] { return zeros({2}, {.dtype = kInt64, .device = GetParam(), .requires_grad = true}); },
      "Only Tensors of floating point and complex dtype can require gradients"));
}

TEST_P(Tape, AnAssignedGradientMustFit) {
  const Tensor x = leaf({1, 2});
  EXPECT_TRUE(
      refuses<Error>([&] { return x.set_grad(constant({1})), 0; },
                     "attempting to assign a gradient of size '[1]' to a tensor of size '[2]'. "
                     "Please ensure that the gradient and the tensor are the same"));
  EXPECT_TRUE(refuses<Error>(
      [&] { return x.set_grad(ones({2}, {.dtype = kFloat32, .device = GetParam()})), 0; },
      "attempting to assign a gradient with dtype '"));
}

TEST_P(Tape, NumbersTakePartWithoutBeingOnTheTape) {
  const Tensor x = leaf({2, 4});
  (1 / x + 3 * x - x / 2).sum().backward();
  EXPECT_TRUE(close(x.grad(), {2}, {-0.25 + 2.5, -0.0625 + 2.5}, 1e-15));
}

// --- moves ---

TEST_P(Tape, CastsReturnTheGradientInTheSourcesDtype) {
  const Tensor x = leaf({1, 2}, kFloat32);
  const Tensor y = x.to(kFloat64);
  EXPECT_STREQ(y.grad_fn(), "ToCopyBackward0");
  (y * 3).sum().backward();
  EXPECT_EQ(x.grad().dtype(), kFloat32);
  EXPECT_TRUE(close(x.grad(), {2}, {3, 3}, 0));
  EXPECT_TRUE(x.to(kFloat32).is_same(x));
  EXPECT_FALSE(x.to(kInt64).requires_grad());
}

TEST(TapeMoves, MovesReturnTheGradientToTheSourcesDevice) {
  if (skip_without_cuda()) return;
  const Tensor x = tensor({1.0, 2.0}, {.requires_grad = true});
  const Tensor y = x.cuda();
  EXPECT_FALSE(y.is_leaf());
  EXPECT_STREQ(y.grad_fn(), "ToCopyBackward0");
  (y * 3).sum().backward();
  EXPECT_EQ(x.grad().device(), Device("cpu"));
  EXPECT_TRUE(close(x.grad(), {2}, {3, 3}, 0));
  EXPECT_FALSE(y.grad().defined());
}

TEST(TapeMoves, ANumberOnTheCpuGetsItsGradientThere) {
  if (skip_without_cuda()) return;
  const Tensor scale = full({}, 2.0, {.requires_grad = true});
  const Tensor x = ones({3}, {.device = "cuda", .requires_grad = true});
  (x * scale).sum().backward();
  EXPECT_EQ(scale.grad().device(), Device("cpu"));
  EXPECT_TRUE(close(scale.grad(), {}, {3}, 0));
  EXPECT_TRUE(close(x.grad(), {3}, {2, 2, 2}, 0));
}

// --- prod and embedding: gradients that accumulate in one element ---

TEST_P(Tape, ProdHasAGradientWhereAFactorIsZero) {
  const Tensor one = leaf({2, 0, 3});
  prod(one).backward();
  EXPECT_TRUE(close(one.grad(), {3}, {0, 6, 0}, 0));
  const Tensor two = leaf({0, 5, 0});
  prod(two).backward();
  EXPECT_TRUE(close(two.grad(), {3}, {0, 0, 0}, 0));
}

TEST_P(Tape, ExtremesShareTheGradientAmongEquals) {
  const Tensor x = leaf({1, 3, 3, 2});
  amax(x).backward();
  EXPECT_TRUE(close(x.grad(), {4}, {0, 0.5, 0.5, 0}, 0));
  const Tensor a = leaf({1, 2}), b = leaf({1, 5});
  maximum(a, b).sum().backward();
  EXPECT_TRUE(close(a.grad(), {2}, {0.5, 0}, 0));
  EXPECT_TRUE(close(b.grad(), {2}, {0.5, 1}, 0));
}

TEST_P(Tape, DropoutOutsideTrainingIsItsInput) {
  const Tensor x = leaf({1, 2});
  EXPECT_TRUE(dropout(x, 0.5, false).is_same(x));
  EXPECT_TRUE(dropout(x, 0, true).is_same(x));
}

}  // namespace
}  // namespace taper::v0::test
