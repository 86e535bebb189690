// Recorded writes to views, and to tensors that have views. Values and gradients are those that
// PyTorch 2.11 printed for the same programs.
#include <gtest/gtest.h>

#include "autograd/engine.h"
#include "autograd/function.h"
#include "autograd/ops/binary_ops.h"
#include "autograd/ops/index/indexing.h"
#include "autograd/ops/index/inplace.h"
#include "autograd/ops/reduce_ops.h"
#include "autograd/ops/shape_ops.h"
#include "autograd/ops/unary_ops.h"
#include "framework/factory/factories.h"
#include "framework/memory/cpu_allocator.h"
#include "tests/testing.h"

namespace taper::v0::test {
namespace {

struct Program {
  const char* name;
  // Returns the changed y. The loss is the sum of its squares unless the program defines another
  // one.
  Tensor (*run)(const Tensor& a, const Tensor& b);
  std::vector<double> y, da, db;
};

const std::vector<double> kNone;

const Program kPrograms[] = {
    {"a product in a slice",
     [](const Tensor& a, const Tensor&) {
       const Tensor y = a * 3;
       y[0].mul_(2);
       EXPECT_STREQ(y.grad_fn(), "CopySlices");
       return y;
     },
     {6, 6, 9, 12},
     {72, 36, 54, 72},
     kNone},
    {"a copy into a slice",
     [](const Tensor& a, const Tensor& b) {
       const Tensor y = a * a, v = y.narrow(0, 1, 2);
       v.copy_(b);
       EXPECT_STREQ(v.grad_fn(), "AsStridedBackward0");
       return y;
     },
     {1, 5, 6, 16},
     {4, 0, 0, 256},
     {10, 12}},
    {"what a tensor names",
     [](const Tensor& a, const Tensor& b) {
       return index_put_(a * a, {tensor({3, 0}, {.device = a.device()})}, b);
     },
     {6, 4, 9, 5},
     {0, 32, 108, 0},
     {10, 12}},
    {"one element of a slice, twice",
     [](const Tensor& a, const Tensor& b) {
       const Tensor y = a * a;
       index_put_(y.narrow(0, 1, 3), {tensor({0, 0}, {.device = a.device()})}, b, true);
       return y;
     },
     {1, 15, 9, 16},
     {4, 120, 108, 256},
     {30, 30}},
    {"every second",
     [](const Tensor& a, const Tensor& b) {
       const Tensor y = a * a;
       index_put_(y, {Slice(None, None, 2)}, b);
       return y;
     },
     {5, 4, 6, 16},
     {0, 32, 0, 256},
     {10, 12}},
    {"a number where a mask is true",
     [](const Tensor& a, const Tensor&) {
       const Tensor y = a * a;
       index_put_(y, {y > 5}, 2);
       return y;
     },
     {1, 4, 2, 2},
     {4, 32, 0, 0},
     kNone},
    {"zeros in a slice",
     [](const Tensor& a, const Tensor&) {
       const Tensor y = a * a;
       y.narrow(0, 0, 2).zero_();
       return y;
     },
     {0, 0, 9, 16},
     {0, 0, 108, 256},
     kNone},
    {"a view that is used after its base changed",
     [](const Tensor& a, const Tensor&) {
       const Tensor y = a * 3, v = y.narrow(0, 0, 2);
       y.mul_(a);
       return v;
     },
     {3, 12},
     {36, 288, 0, 0},
     kNone},
    {"a constant buffer",
     [](const Tensor& a, const Tensor& b) {
       const Tensor x = zeros({4}, {.dtype = kFloat64, .device = a.device()});
       const Tensor v = x.narrow(0, 1, 2), w = x.narrow(0, 0, 2);
       EXPECT_FALSE(w.requires_grad());
       v.copy_(b);
       EXPECT_TRUE(w.requires_grad());
       EXPECT_FALSE(w.is_leaf());
       x[2].mul_(5);
       return x;
     },
     {0, 5, 30, 0},
     kNone,
     {10, 300}},
    {"a transposed matrix",
     [](const Tensor& a, const Tensor& b) {
       const Tensor y = (a * a).view({2, 2}).t();
       y[0].copy_(b);
       return y;
     },
     {5, 6, 4, 16},
     {0, 32, 0, 256},
     {10, 12}},
    {"an expanded view after its base changed",
     [](const Tensor& a, const Tensor&) {
       const Tensor y = a * 2, e = y.expand({3, 4});
       y.mul_(a);
       return e;
     },
     {2, 8, 18, 32, 2, 8, 18, 32, 2, 8, 18, 32},
     {48, 384, 1296, 3072},
     kNone},
    {"a quotient in a slice",
     [](const Tensor& a, const Tensor& b) {
       const Tensor y = a * a;
       y.narrow(0, 2, 2).div_(b - tensor({3.0, -2.0}, {.dtype = kFloat64, .device = a.device()}));
       return y;
     },
     {1, 4, 4.5, 2},
     {4, 32, 27, 4},
     {-20.25, -1}},
    {"one view of a view into another",
     [](const Tensor& a, const Tensor&) {
       const Tensor y = a * 1, v = y.view({2, 2}), w = v[1];
       y.mul_(3);
       w.add_(v[0]);
       return w;
     },
     {12, 18},
     {72, 108, 72, 108},
     kNone},
    {"a view changed twice and its base once",
     [](const Tensor& a, const Tensor&) {
       const Tensor y = a * 1, v = y.narrow(0, 0, 2);
       v.mul_(a.narrow(0, 2, 2));
       v.mul_(a.narrow(0, 0, 2));
       y.pow_(2);
       return v;
     },
     {9, 256},
     {648, 262144, 108, 65536},
     kNone},
    {"rows of an output, one by one",
     [](const Tensor& a, const Tensor& b) {
       const Tensor out = zeros({3, 2}, {.dtype = kFloat64, .device = a.device()});
       const Tensor h = b - 4;
       Tensor z = h;
       for (int i = 0; i < 3; ++i) {
         z = z * h;
         out[i].copy_(z);
       }
       return out;
     },
     {1, 4, 1, 8, 1, 16},
     kNone,
     {18, 1248}},
    {"bounds and a mask",
     [](const Tensor& a, const Tensor&) {
       const Tensor y = a * 2;
       y.clamp_(3, 7);
       const Tensor mask = tensor({true, false, false, true}, {.device = a.device()});
       y.masked_fill_(mask, 0.5);
       return y;
     },
     {0.5, 4, 6, 0.5},
     {0, 16, 24, 0},
     kNone},
    {"a function of one tensor in a slice",
     [](const Tensor& a, const Tensor&) {
       const Tensor y = a * 2;
       y.narrow(0, 1, 2).neg_().relu_();
       return y;
     },
     {2, 0, 0, 8},
     {8, 0, 0, 32},
     kNone},
};

TEST(ViewWrites, GiveWhatPyTorchGives) {
  for (const Device device : all_devices()) {
    for (const Program& p : kPrograms) {
      const TensorOptions options{.dtype = kFloat64, .device = device, .requires_grad = true};
      const Tensor a = tensor({1, 2, 3, 4}, options), b = tensor({5, 6}, options);
      const Tensor y = p.run(a, b);
      EXPECT_TRUE(close(values_of(y), p.y, 1e-15)) << p.name;
      (y * y).sum().backward();
      for (const auto& [leaf, want] : {std::pair(a, p.da), std::pair(b, p.db)}) {
        EXPECT_EQ(leaf.grad().defined(), !want.empty()) << p.name;
        if (want.empty()) continue;
        EXPECT_TRUE(close(values_of(leaf.grad()), want, 1e-14)) << p.name;
      }
    }
  }
}

TEST(ViewWrites, AreFollowedThroughViewsOfViews) {
  for (const Device device : all_devices()) {
    const Tensor a =
        tensor({1, 2, 3, 4, 5, 6}, {.dtype = kFloat64, .device = device, .requires_grad = true});
    const Tensor y = (a * a).view({2, 3}), v = y[1], w = v.narrow(0, 1, 2);
    w.mul_(a.narrow(0, 0, 2));
    for (const Tensor& t : {y, v, w}) EXPECT_STREQ(t.grad_fn(), "AsStridedBackward0");
    (y * y).sum().backward();
    EXPECT_TRUE(close(v, {3}, {16, 25, 72}, 0));
    EXPECT_TRUE(close(a.grad(), {6}, {1254, 5216, 108, 256, 500, 3456}, 0));
  }
}

TEST(ViewWrites, HaveSecondDerivatives) {
  for (const Device device : all_devices()) {
    const TensorOptions options{.dtype = kFloat64, .device = device, .requires_grad = true};
    const Tensor a = tensor({1, 2, 3, 4}, options), b = tensor({2, 3}, options);
    const Tensor y = a * a;
    y.narrow(0, 1, 2).mul_(b);
    const std::vector<Tensor> g = grad({(y * y * y).sum()}, {a, b}, {.create_graph = true});
    EXPECT_TRUE(close(g[0], {4}, {6, 1536, 39366, 6144}, 0));
    EXPECT_TRUE(close(g[1], {2}, {768, 19683}, 0));
    const std::vector<Tensor> gg = grad({g[0].sum() + g[1].sum()}, {a, b});
    EXPECT_TRUE(close(gg[0], {4}, {30, 6144, 104976, 7680}, 0));
    EXPECT_TRUE(close(gg[1], {2}, {3072, 52488}, 0));

    // The old value of x is needed for the factor's gradient, and is itself differentiated.
    const Tensor z = a * a;
    z.mul_(a);
    const Tensor dz = grad({(z * z).sum()}, {a}, {.create_graph = true})[0];
    EXPECT_TRUE(close(dz, {4}, {6, 192, 1458, 6144}, 0));
    EXPECT_TRUE(close(grad({dz.sum()}, {a})[0], {4}, {30, 480, 2430, 7680}, 0));
  }
}

TEST(ViewWrites, AgreeWithDifferences) {
  const auto f = [](const std::vector<Tensor>& in) {
    const Tensor y = in[0] * 1, v = y.transpose(0, 1);
    v.narrow(0, 1, 2).sigmoid_();
    y[0].copy_(in[1].expand({3}));
    v[2].exp_().tanh_();
    y.narrow(1, 0, 2).sqrt_().log_().abs_();
    y.div_(in[1] + 3);
    return y;
  };
  for (const Device device : all_devices()) {
    const TensorOptions options{.dtype = kFloat64, .device = device};
    EXPECT_TRUE(
        gradcheck(f, {tensor({{1, 2, 3}, {4, 5, 6}}, options) * 0.1 + 1, tensor({0.5}, options)}));
  }
}

struct Refusal {
  const char* name;
  void (*run)(const Tensor& leaf);
  const char* text;
};

const char* const kViewOfLeaf =
    "a view of a leaf Variable that requires grad is being used in an in-place operation.";
const char* const kNoGradView =
    "A view was created in no_grad mode and is being modified inplace with grad mode enabled. "
    "Given that this use case is ambiguous and error-prone, it is forbidden.";

Tensor view_without_grad(const Tensor& x) {
  const NoGradGuard no_grad;
  return x[0];
}

const Refusal kRefusals[] = {
    {"a slice of a leaf", [](const Tensor& a) { a[0].mul_(2); }, kViewOfLeaf},
    {"all of a leaf",
     [](const Tensor& a) {
       a.view({2, 2}).fill_(2);
     },
     kViewOfLeaf},
    {"a view older than requires_grad_",
     [](const Tensor& a) {
       const Tensor x = a.detach(), v = x[0];
       x.requires_grad_();
       v.uniform_();
     },
     kViewOfLeaf},
    {"a no-grad view of a leaf", [](const Tensor& a) { view_without_grad(a).mul_(2); },
     kNoGradView},
    {"a no-grad view of a result", [](const Tensor& a) { view_without_grad(a * 1).mul_(2); },
     kNoGradView},
    {"a view of a no-grad view",
     [](const Tensor& a) {
       view_without_grad((a * 1).view({2, 2})).view({2, 1}).mul_(2);
     },
     kNoGradView},
    {"a recorded value into a no-grad view of a constant",
     [](const Tensor& a) { view_without_grad(a.detach()).copy_(a[1]); }, kNoGradView},
    {"an operand in other memory (fine)",
     [](const Tensor& a) { (a * 1).narrow(0, 0, 3).mul_((a * 1).narrow(0, 1, 3)); }, ""},
    {"an operand that overlaps the target",
     [](const Tensor& a) {
       const Tensor y = a * 1;
       y.narrow(0, 0, 3).mul_(y.narrow(0, 1, 3));
     },
     "unsupported operation: some elements of the input tensor and the written-to tensor refer to "
     "a single memory location. Please clone() the tensor before performing the operation."},
    {"an expanded tensor",
     [](const Tensor& a) {
       (a * 1).expand({2, 4}).mul_(2);
     },
     "unsupported operation: more than one element of the written-to tensor refers to a single "
     "memory location. Please clone() the tensor before performing the operation."},
    {"a saved view that changed",
     [](const Tensor& a) {
       const Tensor v = (a * 2).view({2, 2}), s = v * v;
       v.add_(1);
       s.sum().backward();
     },
     "one of the variables needed for gradient computation has been modified by an inplace "
     "operation: ["},
};

TEST(ViewWrites, AreRefusedWhereTheTapeCannotFollow) {
  for (const Device device : all_devices()) {
    for (const Refusal& r : kRefusals) {
      const Tensor a = tensor({1.0, 2.0, 3.0, 4.0}, {.device = device, .requires_grad = true});
      const auto run = [&] { return r.run(a), 0; };
      if (*r.text == '\0') {
        EXPECT_NO_THROW(run()) << r.name;
      } else {
        EXPECT_TRUE(refuses<Error>(run, r.text)) << r.name;
      }
      EXPECT_TRUE(close(a, {4}, {1, 2, 3, 4}, 0)) << r.name;
    }
  }
}

TEST(ViewWrites, UnderNoGradLeaveTheTapeAsItWas) {
  for (const Device device : all_devices()) {
    const Tensor a = tensor({1.0, 2.0}, {.device = device, .requires_grad = true});
    const Tensor y = a * 3, seen = y[1];
    {
      const NoGradGuard no_grad;
      a[0].mul_(2);
      y[0].fill_(7);
    }
    EXPECT_TRUE(close(a, {2}, {2, 2}, 0));
    EXPECT_TRUE(a.is_leaf());
    EXPECT_STREQ(y.grad_fn(), "MulBackward0");
    EXPECT_STRNE(seen.grad_fn(), "AsStridedBackward0");
    y.sum().backward();
    EXPECT_TRUE(close(a.grad(), {2}, {3, 3}, 0));
  }
}

TEST(ViewWrites, OfADetachedTensorDoNotReachTheOriginal) {
  for (const Device device : all_devices()) {
    const Tensor a = tensor({1.0, 2.0}, {.device = device, .requires_grad = true});
    const Tensor y = a * 2, d = y.detach();
    d[0].mul_(a[1]);
    EXPECT_STREQ(d.grad_fn(), "CopySlices");
    EXPECT_STREQ(y.grad_fn(), "MulBackward0");
    EXPECT_TRUE(close(y, {2}, {4, 4}, 0));
  }
}

TEST(ViewWrites, KeepRetainedGradientsAndHooksWherePyTorchHasThem) {
  for (const Device device : all_devices()) {
    const TensorOptions options{.dtype = kFloat64, .device = device, .requires_grad = true};
    const Tensor a = tensor({1, 2}, options);
    const Tensor y = a * 3;
    std::vector<std::vector<double>> seen;
    const auto look = [&](const Tensor& dy) { seen.push_back(values_of(dy)); };
    y.retain_grad();
    y.register_hook(look);
    y[0].mul_(2);
    y.register_hook(look);
    y.sum().backward();
    EXPECT_EQ(seen, (std::vector<std::vector<double>>{{1, 1}, {2, 1}}));
    EXPECT_TRUE(close(y.grad(), {2}, {1, 1}, 0));
  }
}

TEST(ViewWrites, KeepTheLayoutOfTheBase) {
  for (const Device device : all_devices()) {
    const Tensor a = tensor({{1.0, 2.0}, {3.0, 4.0}}, {.device = device, .requires_grad = true});
    const Tensor y = (a * 1).t().clone();
    EXPECT_FALSE(y.is_contiguous());
    y[0].mul_(5);
    (y * y).sum().backward();
    EXPECT_TRUE(close(a.grad(), {2, 2}, {50, 4, 150, 8}, 0));
  }
}

TEST(ViewWrites, LeaveNoMemoryBehind) {
  const auto run = [](bool backward) {
    const Tensor a = ones({64, 64}, {.requires_grad = true});
    const Tensor y = a * 1, v = y[0];
    v.mul_(exp(v));
    if (backward) return (y * y).sum().backward();
    // A saved tensor that later depends on the op can only be refused, but it must be freed.
    const Tensor out = zeros({3, 64, 64});
    for (int i = 0; i < 2; ++i) out[i + 1].copy_(tanh(out[i] * a) * out[i]);
    y.add_(v * v);
  };
  for (const bool backward : {false, true}) {
    run(backward);
    const size_t before = cpu::memory_stats().allocated;
    run(backward);
    EXPECT_EQ(cpu::memory_stats().allocated, before);
  }
}

}  // namespace
}  // namespace taper::v0::test
