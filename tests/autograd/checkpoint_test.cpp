// Checkpoints: recomputation instead of saved tensors.
#include <functional>

#include <gtest/gtest.h>

#include "autograd/activation_checkpoint.h"
#include "autograd/engine.h"
#include "autograd/ops/binary_ops.h"
#include "autograd/ops/index/inplace.h"
#include "autograd/ops/matmul_ops.h"
#include "autograd/ops/random_ops.h"
#include "autograd/ops/unary_ops.h"
#include "framework/factory/factories.h"
#include "framework/memory/cpu_allocator.h"
#include "tests/testing.h"

namespace taper::v0::test {
namespace {

using Inputs = std::vector<Tensor>;
using Segment = std::function<Tensor(const Inputs&)>;

struct Case {
  const char* name;
  // A function of inputs {x [4, 4]} and a captured weight [4, 4].
  Segment (*segment)(const Tensor& w);
};

const Case kCases[] = {
    {"products",
     [](const Tensor& w) -> Segment {
       return [w](const Inputs& in) { return tanh(matmul(in[0], w)) * in[0]; };
     }},
    {"dropout",
     [](const Tensor& w) -> Segment {
       return [w](const Inputs& in) { return dropout(sigmoid(matmul(in[0], w)), 0.5) * w; };
     }},
    {"nested",
     [](const Tensor& w) -> Segment {
       return [w](const Inputs& in) {
         const Tensor h = exp(dropout(in[0] * w, 0.3));
         const auto inner = [w](const Inputs& deep) {
           return checkpoint([w](const Inputs& deepest) { return tanh(deepest[0] * w); },
                             {dropout(deep[0] * deep[0], 0.4)});
         };
         return checkpoint(inner, {h}) + h;
       };
     }},
    {"in place",
     [](const Tensor& w) -> Segment {
       return [w](const Inputs& in) {
         const Tensor y = in[0] * w;
         y[1].mul_(w[0]);
         y.sigmoid_();
         return y * y;
       };
     }},
    {"a gradient of its own",
     [](const Tensor& w) -> Segment {
       return [w](const Inputs& in) {
         const Tensor y = tanh(matmul(dropout(in[0], 0.3), w));
         const Tensor dx = grad({y.sum()}, {in[0]}, {.create_graph = true})[0];
         return dropout(y * dx * dx, 0.5) * w;
       };
     }},
    {"a gradient without a graph",
     [](const Tensor& w) -> Segment {
       return [w](const Inputs& in) {
         const Tensor y = sigmoid(in[0] * w), before = dropout(y, 0.4);
         const Tensor z = tanh(in[0] * w);
         const Tensor dx = grad({(exp(z) * z).sum()}, {in[0]})[0];
         return exp(before * dx) * w;
       };
     }},
    {"two gradients, one of the other",
     [](const Tensor& w) -> Segment {
       return [w](const Inputs& in) {
         const Tensor y = exp(in[0] * w * 0.1);
         const Tensor dx = grad({(y * y).sum()}, {in[0]}, {.create_graph = true})[0];
         const Tensor dw =
             grad({(tanh(dx) * dropout(dx, 0.5)).sum()}, {w}, {.create_graph = true})[0];
         return tanh(dx) * dw;
       };
     }},
    {"a nested gradient",
     [](const Tensor& w) -> Segment {
       return [w](const Inputs& in) {
         const auto inner = [w](const Inputs& deep) {
           const Tensor y = dropout(tanh(deep[0] * w), 0.2);
           return grad({(y * y).sum()}, {deep[0]}, {.create_graph = true})[0] * y;
         };
         const Tensor z = checkpoint(inner, {exp(in[0] * 0.5)});
         return grad({(z * z).sum()}, {in[0]}, {.create_graph = true})[0] + checkpoint(inner, {z});
       };
     }},
    {"a view of the input",
     [](const Tensor& w) -> Segment {
       return [w](const Inputs& in) { return matmul(in[0].t(), w).view({16}); };
     }},
};

struct Gradients3 {
  Tensor dx, dw, second;
};

Gradients3 gradients(const Case& c, Device device, bool checkpointed) {
  manual_seed(7);
  Generator generator(3);
  const TensorOptions options{.dtype = kFloat64, .device = device};
  const Tensor x = randn({4, 4}, options, &generator).requires_grad_();
  const Tensor w = randn({4, 4}, options, &generator).requires_grad_();
  const Tensor h = x * 2;
  const Segment f = c.segment(w);
  const Tensor y = checkpointed ? checkpoint(f, {h}) : f({h});
  const Tensor after = dropout(y, 0.5);
  const std::vector<Tensor> first = grad({(after * after).sum()}, {h, w}, {.create_graph = true});
  const Tensor second = grad({(first[0] * first[0]).sum()}, {w}, {.retain_graph = true})[0];
  (after * after).sum().backward();
  EXPECT_TRUE(close(first[1], w.grad(), 1e-14)) << c.name;
  return {x.grad(), w.grad(), second};
}

TEST(Checkpoint, GivesTheSameGradients) {
  for (const Device device : all_devices()) {
    for (const Case& c : kCases) {
      const Gradients3 plain = gradients(c, device, false);
      const PhiloxKey state = default_generator().state();
      const Gradients3 again = gradients(c, device, true);
      EXPECT_EQ(default_generator().state().stream, state.stream) << c.name;
      EXPECT_TRUE(same_bits(again.dx, plain.dx)) << c.name;
      EXPECT_TRUE(same_bits(again.dw, plain.dw)) << c.name;
      EXPECT_TRUE(same_bits(again.second, plain.second)) << c.name;
    }
  }
}

// Memory that a graph of eight segments uses.
struct Use {
  size_t held;
  std::vector<double> dw;
};

Use use(bool checkpointed, bool nested) {
  constexpr int kDepth = 8;
  const size_t before = cpu::memory_stats().allocated;
  Generator generator(3);
  const Tensor w = randn({64, 64}, {}, &generator).requires_grad_();
  const auto segment = [&](const Inputs& in) {
    Tensor h = in[0];
    for (int i = 0; i < 4; ++i) h = tanh(sigmoid(matmul(h, w)));
    return h;
  };
  const auto all = [&](const Inputs& in) {
    Tensor h = in[0];
    for (int i = 0; i < kDepth; ++i) h = checkpointed ? checkpoint(segment, {h}) : segment({h});
    return h;
  };
  const Tensor x = randn({64, 64}, {}, &generator);
  const Tensor y = nested ? checkpoint(all, {x}) : all({x});
  const size_t held = cpu::memory_stats().allocated - before;
  y.sum().backward();
  return {held, values_of(w.grad())};
}

TEST(Checkpoint, HoldsLessMemory) {
  constexpr size_t kTensor = 64 * 64 * sizeof(float);
  const Use plain = use(false, false), segments = use(true, false), nested = use(true, true);
  // Saved are w, x and two outputs for each of 8 * 4 steps; with segments, one tensor per segment.
  EXPECT_GE(plain.held, 64 * kTensor);
  EXPECT_LE(segments.held, 11 * kTensor);
  EXPECT_LE(nested.held, 4 * kTensor);
  EXPECT_EQ(segments.dw, plain.dw);
  EXPECT_EQ(nested.dw, plain.dw);
}

TEST(Checkpoint, LeavesNoMemoryBehind) {
  (void)use(true, true);
  const size_t before = cpu::memory_stats().allocated;
  (void)use(true, true);
  EXPECT_EQ(cpu::memory_stats().allocated, before);
}

TEST(Checkpoint, RunsOnceWithoutAGradient) {
  for (const Device device : all_devices()) {
    int runs = 0;
    const auto f = [&](const Inputs& in) {
      ++runs;
      return exp(in[0]);
    };
    const Tensor x = ones({2}, {.device = device, .requires_grad = true});
    (void)checkpoint(f, {x});
    {
      const NoGradGuard no_grad;
      EXPECT_TRUE(checkpoint(f, {x}).is_leaf());
    }
    EXPECT_EQ(runs, 2);
    checkpoint(f, {x}).sum().backward();
    EXPECT_EQ(runs, 4);
  }
}

// The inner pass needs tensors that were saved before it, so the function runs up to that point.
TEST(Checkpoint, AGradientInsideRunsTheFunctionUpToIt) {
  int begun = 0, ended = 0;
  const auto f = [&](const Inputs& in) {
    ++begun;
    const Tensor y = exp(in[0]);
    const Tensor dx = grad({y.sum()}, {in[0]}, {.create_graph = true})[0];
    ++ended;
    return dx * y;
  };
  const Tensor x = ones({2}, {.requires_grad = true});
  const Tensor y = checkpoint(f, {x});
  EXPECT_EQ(begun, 2);
  EXPECT_EQ(ended, 1);
  y.sum().backward();
  EXPECT_EQ(begun, 3);
  EXPECT_EQ(ended, 2);
}

TEST(Checkpoint, RefusesAFunctionThatDoesSomethingElse) {
  const Tensor x = ones({2}, {.requires_grad = true});
  bool again = false;
  const auto more = [&](const Inputs& in) {
    const Tensor y = exp(in[0]);
    return std::exchange(again, true) ? exp(y) : y;
  };
  EXPECT_TRUE(refuses<Error>([&] { return checkpoint(more, {x}).sum().backward(), 0; },
                             "taper::checkpoint: A different number of tensors was saved "
                             "during the original forward and recomputation.\nNumber of tensors "
                             "saved during forward: 1\nNumber of tensors saved during "
                             "recomputation: 2"));
  again = false;
  const auto other = [&](const Inputs& in) {
    return exp(std::exchange(again, true) ? in[0].to(kFloat64) : in[0]);
  };
  EXPECT_TRUE(refuses<Error>([&] { return checkpoint(other, {x}).sum().backward(), 0; },
                             "taper::checkpoint: Recomputed values for the following tensors "
                             "have different metadata than during the forward pass."));
  const Tensor h = x * 1;
  const Tensor y = checkpoint([](const Inputs& in) { return exp(in[0]); }, {h});
  h.add_(1);
  EXPECT_TRUE(refuses<Error>([&] { return y.sum().backward(), 0; },
                             "one of the variables needed for gradient computation has been "
                             "modified by an inplace operation: ["));
}

TEST(Checkpoint, AnExceptionEndsTheRegion) {
  const Tensor x = ones({2}, {.requires_grad = true});
  EXPECT_THROW((void)checkpoint([](const Inputs&) -> Tensor { throw Error("no"); }, {x}), Error);
  exp(x).sum().backward();
  EXPECT_TRUE(x.grad().defined());
  bool fails = false;
  const Tensor y = checkpoint(
      [&](const Inputs& in) {
        const Tensor e = exp(in[0]);
        if (fails) throw Error("no");
        return e;
      },
      {x});
  fails = true;
  EXPECT_THROW(y.sum().backward({.retain_graph = true}), Error);
  fails = false;
  y.sum().backward();
}

}  // namespace
}  // namespace taper::v0::test
