// Hooks on gradients
// (https://pytorch.org/docs/stable/notes/autograd.html#backward-hooks-execution).
#include <gtest/gtest.h>

#include "autograd/engine.h"
#include "autograd/ops/binary_ops.h"
#include "autograd/ops/unary_ops.h"
#include "autograd/tensor_hooks.h"
#include "framework/factory/factories.h"
#include "framework/memory/cpu_allocator.h"
#include "tests/testing.h"

namespace taper::v0::test {
namespace {

using Log = std::vector<std::vector<double>>;

class HooksOn : public testing::TestWithParam<Device> {
 protected:
  Tensor leaf(const TensorData& values) const {
    return tensor(values, {.dtype = kFloat64, .device = GetParam(), .requires_grad = true});
  }
  // A hook that does not change the gradient.
  auto look() {
    return [this](const Tensor& dy) { log_.push_back(values_of(dy)); };
  }
  Log log_;
};

INSTANTIATE_TEST_SUITE_P(Devices, HooksOn, testing::ValuesIn(all_devices()),
                         [](const auto& device) {
                           return device.param.is_cuda() ? "cuda" : "cpu";
                         });

TEST_P(HooksOn, ALeafRunInOrderBeforeAccumulation) {
  const Tensor a = leaf({1, 2});
  HookHandle first = a.register_hook(look());
  a.register_hook([](const Tensor& dy) { return dy * 10; });
  a.register_hook(look());
  (a * 3).sum().backward();
  EXPECT_EQ(log_, (Log{{3, 3}, {30, 30}}));
  first.remove();
  first.remove();
  (a * 3).sum().backward();
  EXPECT_EQ(log_.size(), 3u);
  EXPECT_TRUE(close(a.grad(), {2}, {60, 60}, 0));
  EXPECT_TRUE(close(grad({(a * 3).sum()}, {a})[0], {2}, {30, 30}, 0));
}

// Gradients of the last layers can be used before those of the first are known.
TEST_P(HooksOn, ALeafRunAsSoonAsItsGradientIsWhole) {
  const Tensor first = leaf({1, 2}), last = leaf({3, 4}), both = leaf({5, 6});
  std::vector<std::string> order;
  const auto note = [&](const char* name) {
    return [&order, name](const Tensor&) { order.push_back(name); };
  };
  for (int pass = 0; pass < 2; ++pass) {
    order.clear();
    const Tensor a = first * both, b = a * a;
    const Tensor y = (b * last * both).sum();
    b.register_hook(note("b"));
    a.register_hook(note("a"));
    if (pass == 0) {
      first.register_post_accumulate_grad_hook(note("first"));
      last.register_post_accumulate_grad_hook(note("last"));
      both.register_post_accumulate_grad_hook(note("both"));
    }
    y.backward();
    EXPECT_EQ(order, (std::vector<std::string>{"last", "b", "a", "both", "first"}));
  }
  EXPECT_TRUE(close(first.grad(), {2}, {2 * 2 * 3 * 125., 2 * 2 * 2 * 4 * 216.}, 0));
}

TEST_P(HooksOn, ALeafAreSeenByGraphsMadeBefore) {
  const Tensor a = leaf({1, 2});
  const Tensor y = (a * 3).sum();
  a.register_hook([](const Tensor& dy) { return dy * 2; });
  y.backward();
  EXPECT_TRUE(close(a.grad(), {2}, {6, 6}, 0));
}

TEST_P(HooksOn, AResultRunOnTheWholeGradientBeforeItIsKept) {
  const Tensor a = leaf({1, 2});
  const Tensor y = a * 3, z = y * 2 + y;
  y.register_hook([](const Tensor& dy) { return dy * 5; });
  y.retain_grad();
  y.register_hook(look());
  z.sum().backward();
  EXPECT_EQ(log_, (Log{{15, 15}}));
  EXPECT_TRUE(close(y.grad(), {2}, {15, 15}, 0));
  EXPECT_TRUE(close(a.grad(), {2}, {45, 45}, 0));
}

TEST_P(HooksOn, GradientsMayBeDifferentiatedAgain) {
  const Tensor a = leaf({2});
  a.register_hook([](const Tensor& dy) { return dy * dy; });
  const Tensor dx = grad({(a * a).sum()}, {a}, {.create_graph = true})[0];
  EXPECT_TRUE(close(dx, {1}, {16}, 0));
}

TEST_P(HooksOn, LeavesAfterAccumulationSeeTheSum) {
  const Tensor a = leaf({1, 2});
  a.register_post_accumulate_grad_hook([&](const Tensor& p) {
    EXPECT_TRUE(p.is_same(a));
    log_.push_back(values_of(p.grad()));
    p.set_grad({});
  });
  (a * 3 + a).sum().backward();
  (a * 3).sum().backward();
  (void)grad({(a * 3).sum()}, {a});
  EXPECT_EQ(log_, (Log{{4, 4}, {3, 3}}));
  EXPECT_FALSE(a.grad().defined());
}

TEST_P(HooksOn, OneMayRemoveItself) {
  const Tensor a = leaf({1});
  HookHandle handle;
  int calls = 0;
  handle = a.register_hook([&](const Tensor&) {
    ++calls;
    handle.remove();
  });
  for (int i = 0; i < 2; ++i) (a * 3).sum().backward();
  EXPECT_EQ(calls, 1);
}

struct WrongHook {
  const char* name;
  Tensor (*replace)(const Tensor& dy);
  const char* text;
};

const WrongHook kWrong[] = {
    {"shape", [](const Tensor&) { return ones({3}, {.dtype = kFloat64}); },
     "hook '0' has changed the size of value"},
    {"broadcastable shape", [](const Tensor&) { return ones({1}, {.dtype = kFloat64}); },
     "hook '0' has changed the size of value"},
    {"dtype", [](const Tensor& dy) { return dy.to(kFloat32); },
     "hook '0' has changed the type of value (was "},
};

TEST_P(HooksOn, ReplacementsThatDoNotFitAreRefused) {
  for (const WrongHook& w : kWrong) {
    const Tensor a = leaf({1, 2});
    const Tensor y = a * 3;
    y.register_hook(w.replace);
    EXPECT_TRUE(refuses<Error>([&] { return y.sum().backward(), 0; }, w.text)) << w.name;
    EXPECT_FALSE(a.grad().defined());
  }
  const char* const no_grad = "cannot register a hook on a tensor that doesn't require gradient";
  const Tensor constant = leaf({1}).detach();
  EXPECT_TRUE(refuses<Error>([&] { return constant.register_hook(look()); }, no_grad));
  EXPECT_TRUE(
      refuses<Error>([&] { return constant.register_post_accumulate_grad_hook(look()); }, no_grad));
  EXPECT_TRUE(
      refuses<Error>([&] { return (leaf({1}) * 2).register_post_accumulate_grad_hook(look()); },
                     "post accumulate grad hooks cannot be registered on non-leaf tensors"));
}

TEST_P(HooksOn, ABackwardPassInsideKeepsItsGradientsApart) {
  const Tensor a = leaf({1, 2}), b = leaf({3, 4});
  const Tensor y = a * 3;
  y.register_hook([&](const Tensor&) {
    const AutoGradMode recording(true);
    (b * b).sum().backward();
  });
  y.sum().backward();
  EXPECT_TRUE(close(b.grad(), {2}, {6, 8}, 0));
  const Tensor z = a * 3;
  z.register_hook([&](const Tensor&) {
    const AutoGradMode recording(true);
    a.sum().backward();
  });
  a.set_grad({});
  // the outer pass has already computed a gradient of a when the inner pass adds its own
  (a + z).sum().backward();
  EXPECT_TRUE(close(a.grad(), {2}, {5, 5}, 0));
}

TEST_P(HooksOn, APassInsideMayRunTheSameNodes) {
  const Tensor a = leaf({1, 2}), y = a * 3, total = y.sum();
  bool inside = false;
  y.register_hook([&](const Tensor&) {
    if (std::exchange(inside, true)) return;
    total.backward({.retain_graph = true});
  });
  y.sum().backward();
  EXPECT_TRUE(close(a.grad(), {2}, {6, 6}, 0));
  EXPECT_TRUE(refuses<Error>([&] { return y.sum().backward(), 0; }, "Trying to backward through"));
}

TEST(Hooks, LeaveNoMemoryBehind) {
  const auto run = [] {
    const Tensor a = ones({64, 64}, {.requires_grad = true});
    a.register_hook([](const Tensor& dy) { return dy * 2; });
    const Tensor y = tanh(a);
    y.register_hook([](const Tensor& dy) { return dy * 2; });
    const HookHandle kept = y.register_hook([](const Tensor&) {});
    (y * y).sum().backward();
  };
  run();
  const size_t before = cpu::memory_stats().allocated;
  run();
  EXPECT_EQ(cpu::memory_stats().allocated, before);
}

}  // namespace
}  // namespace taper::v0::test
