// Graphs that share leaves, views and subgraphs, built and run on several threads at once. The sums
// are exact in any order.
#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "autograd/activation_checkpoint.h"
#include "autograd/autocast.h"
#include "autograd/engine.h"
#include "autograd/function.h"
#include "autograd/ops/binary_ops.h"
#include "autograd/ops/index/inplace.h"
#include "autograd/ops/matmul_ops.h"
#include "autograd/ops/nn/loss_ops.h"
#include "autograd/ops/random_ops.h"
#include "autograd/ops/unary_ops.h"
#include "autograd/tensor_hooks.h"
#include "framework/factory/factories.h"
#include "framework/factory/low_precision_cache.h"
#include "tests/testing.h"

namespace taper::v0::test {
namespace {

constexpr int kThreads = 3, kRounds = 150;
// With fewer rounds, threads that are not in step may miss each other.
constexpr int kManyRounds = 5000;

// Runs body(number) `rounds` times on each thread.
void in_threads(int rounds, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&body, rounds, i] {
      for (int round = 0; round < rounds; ++round) body(i);
    });
  }
  for (std::thread& t : threads) t.join();
}

struct Square : Function<Square> {
  static Tensor forward(Context& ctx, const Tensor& x) {
    ctx.save_for_backward({x});
    return x * x;
  }
  static std::vector<Tensor> backward(Context& ctx, const std::vector<Tensor>& dy) {
    return {dy[0] * ctx.saved_tensors()[0] * 2};
  }
};

Tensor leaf(const Shape& shape) { return ones(shape, {.requires_grad = true}); }

TEST(Threads, RecordedForwardPassesShareLeaves) {
  const Tensor x = ones({2, 3}), w = leaf({3, 3}), b = leaf({3});
  in_threads(kManyRounds, [&](int) { (void)tanh(matmul(x, w) + b); });
  EXPECT_FALSE(w.grad().defined());
}

TEST(Threads, GradientsOfSharedLeavesAddUp) {
  const Tensor w = leaf({4}), b = leaf({4});
  std::atomic<int> seen{0}, added{0};
  w.register_hook([&](const Tensor&) { ++seen; });
  w.register_post_accumulate_grad_hook([&](const Tensor&) { ++added; });
  in_threads(kManyRounds, [&](int i) { (w * double(i + 1) + b * w).sum().backward(); });
  const double each = kManyRounds * (1 + 2 + 3), passes = kManyRounds * kThreads;
  EXPECT_TRUE(close(w.grad(), {4}, std::vector<double>(4, each + passes), 0));
  EXPECT_TRUE(close(b.grad(), {4}, std::vector<double>(4, passes), 0));
  EXPECT_EQ(seen, passes);
  EXPECT_EQ(added, passes);
}

TEST(Threads, GradOfSharedLeavesIsEachThreadsOwn) {
  const Tensor w = leaf({4});
  std::atomic<int> wrong{0};
  in_threads(kManyRounds, [&](int i) {
    const Tensor dw = grad({(w * w * double(i + 1)).sum()}, {w}, {.create_graph = true})[0];
    if (!same_bits(dw.detach(), full({4}, 2. * (i + 1)))) ++wrong;
    if (!same_bits(grad({dw.sum()}, {w})[0], full({4}, 2. * (i + 1)))) ++wrong;
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_FALSE(w.grad().defined());
}

TEST(Threads, PassesMayShareAPartOfTheirGraphs) {
  const Tensor w = leaf({3, 4}), labels = zeros({3}, {.dtype = kInt64});
  const Tensor trunk = Square::apply(w * 1), loss = cross_entropy(trunk, labels, Reduction::kSum);
  w.register_hook([](const Tensor&) {});
  trunk.retain_grad();
  const Tensor alone = grad({loss}, {w}, {.retain_graph = true})[0];
  std::atomic<int> wrong{0};
  in_threads(kRounds, [&](int i) {
    (trunk * double(i + 1)).sum().backward({.retain_graph = true});
    if (!same_bits(grad({loss}, {w}, {.retain_graph = true})[0], alone)) ++wrong;
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_TRUE(close(w.grad(), {3, 4}, std::vector<double>(12, 2. * kRounds * (1 + 2 + 3)), 0));
}

TEST(Threads, OneOfSeveralPassesUsesAGraphUp) {
  const Tensor w = leaf({4});
  for (int round = 0; round < 30; ++round) {
    const Tensor y = Square::apply(w * w).sum();
    std::atomic<int> passed{0}, refused{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&] {
        try {
          y.backward();
          ++passed;
        } catch (const Error&) {
          ++refused;
        }
      });
    }
    for (std::thread& t : threads) t.join();
    EXPECT_EQ(passed + refused, kThreads);
    EXPECT_THROW(y.backward(), Error);
  }
}

TEST(Threads, AViewWhoseBaseWasWrittenToIsSharedToo) {
  for (int round = 0; round < 20; ++round) {
    const Tensor w = leaf({2, 4}), base = w * 1, view = base[0];
    base.mul_(2);
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&] { (view * 3).sum().backward({.retain_graph = true}); });
    }
    for (std::thread& t : threads) t.join();
    const double dw = 2 * 3 * kThreads;
    EXPECT_TRUE(close(w.grad(), {2, 4}, {dw, dw, dw, dw, 0, 0, 0, 0}, 0));
  }
}

TEST(Threads, HooksComeAndGoWhileOthersPass) {
  const Tensor w = leaf({4});
  in_threads(kRounds, [&](int i) {
    if (i != 0) return (w * 2).sum().backward();
    HookHandle handle = w.register_hook([](const Tensor& dy) { return dy * 1; });
    handle.remove();
  });
  EXPECT_TRUE(close(w.grad(), {4}, std::vector<double>(4, 2. * kRounds * (kThreads - 1)), 0));
}

TEST(Threads, LowPrecisionCopiesOfParametersComeAndGo) {
  const Tensor shared = leaf({8, 8}), x = ones({2, 8});
  shared.impl()->is_parameter = true;
  in_threads(kRounds, [&](int i) {
    if (i == 0) {
      for (const LowPrecisionCopy& known : low_precision_copies_since(0))
        EXPECT_GE(known.parameter.numel(), 64);
      return;
    }
    const AutocastGuard guard(DeviceType::kCpu, kBFloat16);
    const Tensor own = leaf({8, 8});
    own.impl()->is_parameter = true;
    matmul(matmul(x, own), shared).sum().backward();
  });
  EXPECT_TRUE(shared.grad().defined());
}

TEST(Threads, ACheckpointRepeatsItsOwnDraws) {
  const Tensor w = leaf({64});
  std::atomic<int> wrong{0};
  in_threads(kRounds, [&](int) {
    const Tensor x = ones({64}, {.requires_grad = true});
    const auto part = [&](const std::vector<Tensor>& in) {
      return dropout(dropout(in[0] * w, 0.2, true), 0.3, true);
    };
    const Tensor y = checkpoint(part, {x});
    y.sum().backward();
    if (!same_bits(x.grad(), y.detach())) ++wrong;
  });
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace taper::v0::test
