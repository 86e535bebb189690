// linear_cross_entropy in blocks of rows: the loss and gradients of the whole logits, in every
// dtype, with ignored targets, and without the memory of the logits.
#include <gtest/gtest.h>

#include "autograd/autocast.h"
#include "autograd/engine.h"
#include "autograd/ops/binary_ops.h"
#include "autograd/ops/matmul_ops.h"
#include "autograd/ops/nn/loss_ops.h"
#include "autograd/ops/reduce_ops.h"
#include "autograd/ops/shape_ops.h"
#include "framework/factory/factories.h"
#include "framework/memory/cpu_allocator.h"
#include "modules/models/gpt.h"
#include "tests/testing.h"

namespace taper::v0::test {
namespace {

using Tensors = std::vector<Tensor>;

struct Case {
  int64_t rows, classes, channels;
  Reduction reduction = Reduction::kMean;
  int64_t ignored = 0;  // the first rows have the class that is ignored
};
const Case kCases[] = {{500, 64, 16},
                       {300, 65, 8},
                       {257, 1000, 24, Reduction::kSum},
                       {400, 10, 5, Reduction::kMean, 200},
                       {130, 129, 8, Reduction::kSum, 129},
                       {1, 70, 8}};

struct Inputs {
  Tensor x, weight, target;
  CrossEntropyOptions options;
};

// The same numbers in every dtype and on every device.
Inputs inputs_of(const Case& c, Device device, DType dtype) {
  manual_seed(1);
  const TensorOptions wide{.dtype = kFloat64};
  Inputs in{randn({c.rows, c.channels}, wide).to(device, dtype).detach().requires_grad_(),
            randn({c.classes, c.channels}, wide).to(device, dtype).detach().requires_grad_(),
            randint(0, c.classes, {c.rows}),
            {.reduction = c.reduction}};
  in.target.narrow(0, 0, c.ignored).fill_(kIgnoreIndex);
  in.target = in.target.to(device);
  return in;
}

// Blocks have the fewest rows, so that every case has several.
Tensor in_blocks(const Inputs& in) {
  return linear_cross_entropy(in.x, in.weight, in.target, in.options, 1);
}

double tolerance_of(DType dtype) {
  if (dtype == kFloat64) return 1e-12;
  return dtype == kFloat32 ? 1e-5 : dtype == kFloat16 ? 2e-2 : 1e-1;
}

TEST(LinearCrossEntropy, EqualsTheTwoFunctionsInFloat64) {
  for (const Device device : all_devices()) {
    for (const DType dtype : {kFloat64, kFloat32, kFloat16, kBFloat16}) {
      for (const Case& c : kCases) {
        SCOPED_TRACE(concat_to_string(device, " ", dtype, " ", c.rows, " ", c.classes));
        const Inputs in = inputs_of(c, device, dtype);
        const Tensor x = in.x.to(kFloat64).detach().requires_grad_();
        const Tensor weight = in.weight.to(kFloat64).detach().requires_grad_();
        const Tensor want = cross_entropy(linear(x, weight), in.target, in.options);
        const Tensor got = in_blocks(in);
        EXPECT_EQ(got.dtype(), dtype);
        const double tolerance = tolerance_of(dtype);
        EXPECT_TRUE(close(got / double(c.rows), want / double(c.rows), tolerance));
        const Tensors dx = grad({got}, {in.x, in.weight}), dwant = grad({want}, {x, weight});
        for (size_t i = 0; i < dx.size(); ++i) EXPECT_TRUE(close(dx[i], dwant[i], tolerance));
        // Each operand alone, and no gradient at all.
        EXPECT_TRUE(same_bits(grad({in_blocks(in)}, {in.weight})[0], dx[1]));
        const NoGradGuard no_grad;
        EXPECT_TRUE(same_bits(in_blocks(in), got));
      }
    }
  }
}

TEST(LinearCrossEntropy, OneOperandMayBeConstant) {
  for (const Device device : all_devices()) {
    const Inputs in = inputs_of(kCases[0], device, kFloat32);
    const Tensors both = grad({in_blocks(in)}, {in.x, in.weight});
    Inputs frozen = in;
    frozen.weight = in.weight.detach();
    EXPECT_TRUE(same_bits(grad({in_blocks(frozen)}, {in.x})[0], both[0]));
    frozen = in;
    frozen.x = in.x.detach();
    EXPECT_TRUE(same_bits(grad({in_blocks(frozen)}, {in.weight})[0], both[1]));
  }
}

TEST(LinearCrossEntropy, BackwardCanRunTwiceAndBeDifferentiated) {
  for (const Device device : all_devices()) {
    const Inputs in = inputs_of(kCases[3], device, kFloat64);
    const Tensor loss = in_blocks(in) * 3.0;
    const Tensors first = grad({loss}, {in.x, in.weight}, {.retain_graph = true});
    const Tensors again = grad({loss}, {in.x, in.weight}, {.retain_graph = true});
    const Tensors recorded = grad({loss}, {in.x, in.weight}, {.create_graph = true});
    const Tensor whole = cross_entropy(linear(in.x, in.weight), in.target, in.options) * 3.0;
    const Tensors want = grad({whole}, {in.x, in.weight}, {.create_graph = true});
    Tensor sum_got, sum_want;
    for (size_t i = 0; i < first.size(); ++i) {
      EXPECT_TRUE(same_bits(first[i], again[i]));
      EXPECT_TRUE(close(recorded[i], want[i], 1e-12));
    }
    const auto square = [](const Tensors& d) { return sum(d[0] * d[0]) + sum(d[1] * d[1]); };
    const Tensors second = grad({square(recorded)}, {in.x, in.weight});
    const Tensors second_want = grad({square(want)}, {in.x, in.weight});
    for (size_t i = 0; i < second.size(); ++i) {
      EXPECT_TRUE(close(second[i], second_want[i], 1e-10));
    }
  }
}

// A loss scale that float16 cannot hold must not overflow before the division by the rows.
TEST(LinearCrossEntropy, TakesTheLossScaleOfFloat16) {
  for (const Device device : all_devices()) {
    const Inputs in = inputs_of(kCases[0], device, kFloat16);
    const Inputs wide = inputs_of(kCases[0], device, kFloat64);
    const AutocastGuard half(device.type(), kFloat16);
    const Tensor x = in.x.to(kFloat32).detach().requires_grad_();
    const Tensor weight = in.weight.to(kFloat32).detach().requires_grad_();
    const Tensor loss = linear_cross_entropy(x, weight, in.target, {}, 1);
    EXPECT_EQ(loss.dtype(), kFloat32);
    const Tensors got = grad({loss * 65536.0}, {x, weight});
    const AutocastGuard off{AutocastState()};
    const Tensor want = cross_entropy(linear(wide.x, wide.weight), wide.target);
    const Tensors dwant = grad({want}, {wide.x, wide.weight});
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(got[i].dtype(), kFloat32);
      EXPECT_TRUE(close(got[i] / 65536.0, dwant[i], 2e-2));
    }
  }
}

TEST(LinearCrossEntropy, OtherOptionsCallTheTwoFunctions) {
  for (const Device device : all_devices()) {
    Inputs in = inputs_of(kCases[3], device, kFloat32);
    const Tensor logits = linear(in.x, in.weight);
    CrossEntropyOptions weights, smooth, none;
    weights.weight = rand({in.weight.size(0)}, {.device = device});
    smooth.label_smoothing = 0.1;
    none.reduction = Reduction::kNone;
    for (const CrossEntropyOptions& o : {weights, smooth, none}) {
      const Tensor got = linear_cross_entropy(in.x, in.weight, in.target, o, 1);
      EXPECT_TRUE(same_bits(got, cross_entropy(logits, in.target, o)));
    }
  }
}

TEST(LinearCrossEntropy, RefusesWhatTheTwoFunctionsRefuse) {
  const Inputs in = inputs_of(kCases[0], "cpu", kFloat32);
  const auto call = [&](const Tensor& x, const Tensor& target, int64_t bytes = 1) {
    return [=] { return linear_cross_entropy(x, in.weight, target, {}, bytes); };
  };
  EXPECT_TRUE(refuses<Error>(call(in.x.narrow(1, 0, 3), in.target),
                             "mat1 and mat2 shapes cannot be multiplied (500x3 and 16x64)"));
  EXPECT_TRUE(refuses<Error>(call(in.x.to(kFloat64), in.target),
                             "expected m1 and m2 to have the same dtype, but got: double != float "
                             "(addmm of [500, 16] and [16, 64])"));
  EXPECT_TRUE(
      refuses<ValueError>(call(in.x, in.target.narrow(0, 0, 3)),
                          "Expected input batch_size (500) to match target batch_size (3)."));
  EXPECT_TRUE(refuses<IndexError>(call(in.x, full({500}, 64, {.dtype = kInt64})),
                                  "Target 64 is out of bounds. cross_entropy: element 0 of target "
                                  "must be in [0, 64), or -100 to be ignored"));
  EXPECT_TRUE(refuses<ValueError>(call(in.x, in.target, 0),
                                  "linear_cross_entropy: max_block_bytes must be positive, got 0"));
}

TEST(LinearCrossEntropy, LogitsNeverExistAsAWhole) {
  constexpr int64_t kRows = 8192, kClasses = 2000, kLogits = kRows * kClasses * 4;
  const Case c{kRows, kClasses, 4};
  const Inputs in = inputs_of(c, "cpu", kFloat32);
  const int64_t before = int64_t(cpu::memory_stats().allocated);
  cpu::reset_peak();
  linear_cross_entropy(in.x, in.weight, in.target, {}, kLogits / 16).backward();
  EXPECT_LT(int64_t(cpu::memory_stats().peak) - before, kLogits / 4);
}

TEST(LinearCrossEntropy, AGptsLossIsThatOfItsLogits) {
  for (const Device device : all_devices()) {
    manual_seed(2);
    GPT net({.vocab_size = 70, .block_size = 64, .n_layer = 2, .n_head = 2, .n_embd = 16});
    net.to(device);
    const Tensor tokens = randint(0, 70, {8, 64}).to(device), next = roll(tokens, {-1}, {1});
    const Tensor logits = net(tokens);
    const Tensor want = cross_entropy(logits.flatten(0, 1), next.flatten());
    want.backward();
    const Tensor dwant = net.lm_head->weight->grad().clone();
    net.zero_grad();
    const Tensor got = net.loss(tokens, next, {}, 1);
    got.backward();
    EXPECT_TRUE(close(got, want, 1e-5));
    EXPECT_TRUE(close(net.lm_head->weight->grad(), dwant, 1e-5));
    // Hooks see the logits.
    int calls = 0;
    const auto hook =
        net.lm_head->register_forward_hook([&](Module&, const Tensor&, const Tensor& y) {
          ++calls;
          return y;
        });
    EXPECT_TRUE(same_bits(net.loss(tokens, next, {}, 1), want));
    EXPECT_EQ(calls, 1);
  }
}

}  // namespace
}  // namespace taper::v0::test
