// The graph as a data structure: how it is freed, its state after exceptions, threads.
#include <stdexcept>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "autograd/engine.h"
#include "autograd/ops/binary_ops.h"
#include "autograd/ops/index/inplace.h"
#include "autograd/ops/matmul_ops.h"
#include "autograd/ops/reduce_ops.h"
#include "autograd/ops/shape_ops.h"
#include "autograd/ops/unary_ops.h"
#include "framework/factory/factories.h"
#include "framework/memory/cpu_allocator.h"
#include "tests/testing.h"

namespace taper::v0::test {
namespace {

constexpr int kDeep = 1'000'000;

Tensor chain(const Tensor& x, int length) {
  Tensor y = x;
  for (int i = 0; i < length; ++i) y = neg(y);
  return y;
}

TEST(Graph, AMillionOpsGoBackwardAndAreFreedWithoutRecursion) {
  const Tensor x = ones({}, {.requires_grad = true});
  {
    const Tensor y = chain(x, kDeep);
    y.backward();
  }
  EXPECT_EQ(x.grad().item<float>(), 1);
}

TEST(Graph, AMillionOpsAreFreedWithoutHavingRun) {
  const Tensor x = ones({}, {.requires_grad = true});
  (void)chain(x, kDeep);
  // Also through closures: each node keeps the output of the one before.
  Tensor y = x;
  for (int i = 0; i < kDeep / 4; ++i) y = y * y;
}

TEST(Graph, LeavesNoMemoryBehind) {
  const auto train = [] {
    const Tensor x = ones({64, 64}, {.requires_grad = true});
    for (int i = 0; i < 3; ++i) {
      const Tensor h = tanh(matmul(x, x) * 0.01);
      const Tensor y = sigmoid(exp(h)) * relu(h) + softmax(h, 1);
      if (i == 1) continue;  // a graph that is never run
      y.sum().backward();
    }
    const Tensor dx = grad({(tanh(x) * x).sum()}, {x}, {.create_graph = true})[0];
    (void)grad({dx.sum()}, {x});
  };
  train();
  const size_t before = cpu::memory_stats().allocated;
  train();
  EXPECT_EQ(cpu::memory_stats().allocated, before);
}

// With create_graph a gradient holds the graph that it came from. If an exception left it in a
// node, the graph would hold itself.
TEST(Graph, AFailedPassLeavesNoMemoryBehind) {
  const auto fail = [] {
    const Tensor x = ones({64, 64}, {.requires_grad = true});
    const Tensor y = record("FusedBackward0", x.detach() * 2, {x}, [](Gradients& g) {
      refuse_second_derivative("fused", g.dy());
      g.dx(0) = g.dy() * 2;
    });
    EXPECT_THROW((void)grad({(y * y).sum()}, {x}, {}, true, true), NotImplementedError);
  };
  fail();
  const size_t before = cpu::memory_stats().allocated;
  fail();
  EXPECT_EQ(cpu::memory_stats().allocated, before);
}

TEST(Graph, InPlaceChangesLeaveNoMemoryBehind) {
  const auto change = [] {
    const Tensor x = ones({64, 64}, {.requires_grad = true});
    const Tensor y = x * 2;
    for (int i = 0; i < 3; ++i) y.mul_(x);
    (void)tanh(y);
  };
  change();
  const size_t before = cpu::memory_stats().allocated;
  change();
  EXPECT_EQ(cpu::memory_stats().allocated, before);
}

// An op whose backward pass throws on request.
Tensor fragile(const Tensor& x, const bool* fails) {
  return record("FragileBackward0", x.detach().clone(), {x}, [fails](Gradients& g) {
    if (*fails) throw std::runtime_error("no");
    g.dx(0) = g.dy();
  });
}

TEST(Graph, AnExceptionInAPassDoesNotTouchTheNext) {
  for (const Device device : all_devices()) {
    const Tensor x = ones({2}, {.device = device, .requires_grad = true});
    bool fails = true;
    const Tensor y = x * 2;
    const Tensor loss = (fragile(y, &fails) + y * 3).sum();
    EXPECT_THROW(loss.backward({.retain_graph = true}), std::runtime_error);
    EXPECT_TRUE(is_grad_enabled());
    EXPECT_FALSE(x.grad().defined());
    fails = false;
    loss.backward();
    EXPECT_TRUE(close(x.grad(), {2}, {8, 8}, 0));
  }
}

TEST(Graph, UserFunctionsAreRecordedInAFewLines) {
  for (const Device device : all_devices()) {
    const auto cube = [](const Tensor& x) {
      Tensor y = x.detach() * x.detach() * x.detach();
      return record("CubeBackward0", y, {x}, [x = SavedTensor(x)](Gradients& g) {
        const Tensor u = x.get(g);
        g.dx(0) = g.dy() * u * u * 3;
      });
    };
    const Tensor x = tensor({2.0}, {.dtype = kFloat64, .device = device});
    EXPECT_TRUE(gradcheck([&](const std::vector<Tensor>& in) { return cube(in[0]); }, {x}));
    const Tensor leaf = x.clone().requires_grad_();
    EXPECT_STREQ(cube(leaf).grad_fn(), "CubeBackward0");
    const Tensor dx = grad({cube(leaf)}, {leaf}, {ones_like(x)}, {.create_graph = true})[0];
    EXPECT_TRUE(close(grad({dx}, {leaf}, {ones_like(x)})[0], {1}, {12}, 0));
  }
}

TEST(Graph, GradcheckNamesAWrongGradient) {
  const auto wrong = [](const std::vector<Tensor>& in) {
    const Tensor& x = in[0];
    Tensor y = x.detach() * 2;
    if (!x.requires_grad()) return y;
    return record("WrongBackward0", y, {x}, [](Gradients& g) { g.dx(0) = g.dy() * 2.1; });
  };
  const Tensor x = ones({2}, {.dtype = kFloat64});
  EXPECT_TRUE(
      refuses<Error>([&] { return gradcheck(wrong, {x}); },
                     "gradcheck: input 0 of shape [2], element 0: the analytic gradient is "));
  EXPECT_TRUE(refuses<Error>([&] { return gradcheck(wrong, {ones({2})}); },
                             "gradcheck needs float64 inputs, got float32"));
}

// Functions that compute a gradient themselves: a gradient penalty, and a Hessian-vector product.
Tensor penalty(const std::vector<Tensor>& in) {
  const Tensor y = (exp(in[0]) * in[1]).sum();
  const std::vector<Tensor> dx = grad({y}, {in[0], in[1]}, {.create_graph = true});
  return (dx[0] * dx[0]).sum() * dx[1];
}
Tensor hessian_product(const std::vector<Tensor>& in) {
  const Tensor dx =
      grad({(in[0] * in[0] * in[0] * in[1]).sum()}, {in[0]}, {.create_graph = true})[0];
  return grad({dx}, {in[0]}, {in[1]}, {.create_graph = true})[0];
}

TEST(Graph, GradcheckFollowsFunctionsThatCallGrad) {
  for (const Device device : all_devices()) {
    const TensorOptions options{.dtype = kFloat64, .device = device};
    const std::vector<Tensor> in{tensor({0.3, -0.4}, options), tensor({1.5, 0.7}, options)};
    for (const auto& f : {penalty, hessian_product}) {
      EXPECT_TRUE(gradcheck(f, in));
      EXPECT_TRUE(gradgradcheck(f, in));
      const NoGradGuard no_grad;  // independent of the caller's mode
      EXPECT_TRUE(gradcheck(f, in));
      EXPECT_TRUE(gradgradcheck(f, in));
    }
  }
}

// The gradient is right but does not depend on x, so its own gradient is lost.
TEST(Graph, GradgradcheckNamesAWrongSecondGradient) {
  const auto once = [](const std::vector<Tensor>& in) {
    const Tensor& x = in[0];
    return record("OnceBackward0", x.detach() * x.detach(), {x},
                  [slope = x.detach() * 2](Gradients& g) { g.dx(0) = g.dy() * slope; });
  };
  const Tensor x = ones({2}, {.dtype = kFloat64});
  EXPECT_TRUE(gradcheck(once, {x}));
  EXPECT_TRUE(
      refuses<Error>([&] { return gradgradcheck(once, {x}); },
                     "gradgradcheck: input 0 of shape [2], element 0: the analytic gradient is 0, "
                     "the numerical one is "));
  EXPECT_TRUE(refuses<Error>([&] { return gradgradcheck(once, {ones({2})}); },
                             "gradgradcheck needs float64 inputs, got float32"));
}

// More nodes than 16 bits can count.
constexpr int64_t kWide = 70'000;

TEST(Graph, ANodeMayHaveSeventyThousandInputs) {
  std::vector<Tensor> leaves;
  for (int64_t i = 0; i < kWide; ++i) leaves.push_back(zeros({1}, {.requires_grad = true}));
  (cat(leaves, 0) * arange(kWide)).sum().backward();
  for (const int64_t i : {int64_t(1), int64_t(65'536), kWide - 1}) {
    EXPECT_EQ(leaves[size_t(i)].grad().item<double>(), double(i));
  }
}

TEST(Graph, ANodeMayHaveSeventyThousandOutputs) {
  const Tensor x = zeros({kWide}, {.requires_grad = true});
  const std::vector<Tensor> parts = split(x, 1);
  ASSERT_EQ(parts.size(), size_t(kWide));
  (parts[65'536] * 3 + parts.back() * 5).sum().backward();
  EXPECT_EQ(x.grad()[65'536].item<double>(), 3);
  EXPECT_EQ(x.grad()[kWide - 1].item<double>(), 5);
  EXPECT_EQ(x.grad().sum().item<double>(), 8);
}

TEST(Graph, RecordTakesAnyNumberOfInputs) {
  std::vector<Tensor> x;
  for (int i = 0; i < 12; ++i) x.push_back(ones({}, {.requires_grad = true}));
  const Tensor y = record(
      "TwelveBackward0", ones({}),
      {x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7], x[8], x[9], x[10], x[11]}, [](Gradients& g) {
        for (size_t i = 0; i < 12; ++i) g.dx(i) = g.dy() * double(i);
      });
  y.backward();
  for (int i = 0; i < 12; ++i) EXPECT_EQ(x[size_t(i)].grad().item<double>(), i);
}

double descend(uint64_t seed) {
  Generator generator(seed);
  const Tensor w = randn({8, 8}, {}, &generator).requires_grad_();
  const Tensor x = randn({4, 8}, {}, &generator);
  for (int i = 0; i < 50; ++i) {
    w.set_grad({});
    const Tensor loss = square(tanh(matmul(x, w)) - 0.5).mean();
    loss.backward();
    const NoGradGuard no_grad;
    w.sub_(w.grad(), 0.1);
  }
  return square(tanh(matmul(x, w)) - 0.5).mean().item<double>();
}

TEST(Graph, ThreadsWithTheirOwnGraphsDoNotMeet) {
  const double alone[] = {descend(1), descend(2)};
  double together[2];
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&together, i] { together[i] = descend(uint64_t(i) + 1); });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(together[0], alone[0]);
  EXPECT_EQ(together[1], alone[1]);
}

TEST(Graph, GradModeBelongsToItsThread) {
  const NoGradGuard no_grad;
  bool elsewhere = false;
  std::thread([&] { elsewhere = is_grad_enabled(); }).join();
  EXPECT_TRUE(elsewhere);
}

}  // namespace
}  // namespace taper::v0::test
