// In-place changes of tensors, with and without recording.
#include "autograd/ops/index/inplace.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <tuple>
#include <type_traits>

#include <gtest/gtest.h>

#include "autograd/node.h"
#include "autograd/ops/binary_ops.h"
#include "autograd/ops/index/index_ops.h"
#include "autograd/ops/index/indexing.h"
#include "autograd/ops/reduce_ops.h"
#include "autograd/ops/shape_ops.h"
#include "autograd/ops/unary_ops.h"
#include "framework/factory/factories.h"
#include "tests/testing.h"

namespace taper::v0::test {
namespace {

const std::string kLeaf =
    "a leaf Variable that requires grad is being used in an in-place operation.";
const std::string kModified =
    "one of the variables needed for gradient computation has been modified by an inplace "
    "operation: [";

struct InPlace {
  const char* name;
  void (*change)(const Tensor& x, const Tensor& other);
  double (*value)(double x, double other);
  // The derivatives d value / dx and d value / d other.
  double (*dx)(double x, double other);
  double (*dother)(double x, double other);
};

const InPlace kChanges[] = {
    {"add_", [](const Tensor& x, const Tensor& o) { x.add_(o); },
     [](double x, double o) { return x + o; }, [](double, double) { return 1.0; },
     [](double, double) { return 1.0; }},
    {"add_ with alpha", [](const Tensor& x, const Tensor& o) { x.add_(o, 2.5); },
     [](double x, double o) { return x + 2.5 * o; }, [](double, double) { return 1.0; },
     [](double, double) { return 2.5; }},
    {"sub_", [](const Tensor& x, const Tensor& o) { x.sub_(o); },
     [](double x, double o) { return x - o; }, [](double, double) { return 1.0; },
     [](double, double) { return -1.0; }},
    {"mul_", [](const Tensor& x, const Tensor& o) { x.mul_(o); },
     [](double x, double o) { return x * o; }, [](double, double o) { return o; },
     [](double x, double) { return x; }},
    {"div_", [](const Tensor& x, const Tensor& o) { x.div_(o); },
     [](double x, double o) { return x / o; }, [](double, double o) { return 1 / o; },
     [](double x, double o) { return -x / o / o; }},
    {"copy_", [](const Tensor& x, const Tensor& o) { x.copy_(o); },
     [](double, double o) { return o; }, [](double, double) { return 0.0; },
     [](double, double) { return 1.0; }},
};

TEST(InPlace, GradientsFlowThroughTheChange) {
  for (const Device device : all_devices()) {
    for (const InPlace& c : kChanges) {
      const TensorOptions options{.dtype = kFloat64, .device = device, .requires_grad = true};
      const Tensor a = tensor({1.5, -2, 4}, options), b = tensor({2, 0.5, -8}, options);
      const Tensor y = a * 3;
      c.change(y, b);
      y.sum().backward();
      std::vector<double> values, da, db;
      for (size_t i = 0; i < 3; ++i) {
        const double x = 3 * values_of(a)[i], o = values_of(b)[i];
        values.push_back(c.value(x, o));
        da.push_back(3 * c.dx(x, o));
        db.push_back(c.dother(x, o));
      }
      EXPECT_TRUE(close(y, {3}, values, 1e-15)) << c.name;
      EXPECT_TRUE(close(a.grad(), {3}, da, 1e-15)) << c.name;
      EXPECT_TRUE(close(b.grad(), {3}, db, 1e-15)) << c.name;
    }
  }
}

TEST(InPlace, ABroadcastOperandGetsItsGradientSummed) {
  for (const Device device : all_devices()) {
    for (const InPlace& c : kChanges) {
      const Tensor x = zeros({2, 3}, {.dtype = kFloat64, .device = device});
      const Tensor b = full({3}, 2.0, {.dtype = kFloat64, .device = device, .requires_grad = true});
      c.change(x, b);
      x.sum().backward();
      EXPECT_EQ(b.grad().shape(), (Shape{3})) << c.name;
    }
  }
}

TEST(InPlace, ALeafThatRequiresGradIsRefusedExceptUnderNoGrad) {
  for (const Device device : all_devices()) {
    const Tensor x = ones({2}, {.device = device, .requires_grad = true});
    const Tensor one = ones({2}, {.device = device});
    for (const InPlace& c : kChanges) {
      EXPECT_TRUE(refuses<Error>([&] { return c.change(x, one), 0; }, kLeaf)) << c.name;
    }
    EXPECT_TRUE(refuses<Error>([&] { return x.fill_(3), 0; }, kLeaf));
    EXPECT_TRUE(refuses<Error>([&] { return x.zero_(), 0; }, kLeaf));
    EXPECT_TRUE(refuses<Error>([&] { return x.uniform_(), 0; }, kLeaf));
    EXPECT_TRUE(refuses<Error>([&] { return x.normal_(), 0; }, kLeaf));
    EXPECT_TRUE(close(x, one, 0));
    const NoGradGuard no_grad;
    x.add_(one);
    EXPECT_TRUE(close(x, {2}, {2, 2}, 0));
    EXPECT_TRUE(x.is_leaf());
  }
}

TEST(InPlace, ASavedInputThatChangedBehindTheTapeIsRefused) {
  for (const Device device : all_devices()) {
    const Tensor a = ones({2}, {.device = device, .requires_grad = true});
    const Tensor b = ones({2}, {.device = device});
    const Tensor y = (a * b).sum();
    b.add_(wrap_scalar(1));
    EXPECT_TRUE(refuses<Error>([&] { return y.backward(), 0; },
                               kModified + (device.is_cuda() ? "cuda." : "") +
                                   "FloatTensor [2]] is at version 1; expected version 0 instead"));
    EXPECT_FALSE(a.grad().defined());
  }
}

TEST(InPlace, ASavedOutputThatChangedBehindTheTapeIsRefused) {
  for (const Device device : all_devices()) {
    const Tensor x = ones({2}, {.device = device, .requires_grad = true});
    const Tensor y = exp(x);
    y.detach().zero_();
    EXPECT_TRUE(refuses<Error>(
        [&] { return y.sum().backward(), 0; },
        kModified + (device.is_cuda() ? "cuda." : "") +
            "FloatTensor [2]], which is output 0 of ExpBackward0, is at version 1; expected "
            "version 0 instead"));
  }
}

TEST(InPlace, AChangeOfWhatNobodySavedIsFine) {
  for (const Device device : all_devices()) {
    const Tensor x = ones({2}, {.device = device, .requires_grad = true});
    const Tensor y = x + 1;
    y.mul_(wrap_scalar(5));
    y.add_(wrap_scalar(1));
    y.sum().backward();
    EXPECT_TRUE(close(x.grad(), {2}, {5, 5}, 0));
  }
}

TEST(InPlace, FillStopsTheGradient) {
  for (const Device device : all_devices()) {
    const Tensor x = ones({2}, {.device = device, .requires_grad = true});
    const Tensor y = x * 3;
    y.fill_(9);
    (y * 2 + x).sum().backward();
    EXPECT_TRUE(close(x.grad(), {2}, {1, 1}, 0));
  }
}

TEST(InPlace, VersionsCountTheChanges) {
  const Tensor x = ones({4});
  EXPECT_EQ(x.version(), 0u);
  x.add_(wrap_scalar(1));
  x.zero_();
  x.narrow(0, 0, 2).fill_(3);
  EXPECT_EQ(x.version(), 3u);
  EXPECT_EQ(x.detach().version(), 3u);
  EXPECT_EQ(x.clone().version(), 0u);
}

TEST(InPlace, ResultsThatDoNotFitAreRefusedAndChangeNothing) {
  for (const Device device : all_devices()) {
    const Tensor ints = ones({2}, {.dtype = kInt64, .device = device});
    const Tensor x = ones({2}, {.device = device});
    EXPECT_TRUE(refuses<Error>([&] { return ints.add_(x), 0; },
                               "result type Float can't be cast to the desired output type Long"));
    EXPECT_TRUE(refuses<Error>([&] { return ints.div_(ints), 0; },
                               "result type Float can't be cast to the desired output type Long"));
    EXPECT_TRUE(refuses<Error>(
        [&] {
          return x.add_(ones({3, 2}, {.device = device})), 0;
        },
        "output with shape [2] doesn't match the broadcast shape [3, 2]"));
    EXPECT_TRUE(refuses<Error>(
        [&] {
          return x.copy_(ones({3, 2}, {.device = device})), 0;
        },
        "output with shape [2] doesn't match the broadcast shape [3, 2]"));
    EXPECT_TRUE(refuses<Error>(
        [&] {
          return x.expand({3, 2}).add_(x), 0;
        },
        "unsupported operation: more than one element of the written-to tensor "
        "refers to a single memory location. Please clone() the tensor before "
        "performing the operation."));
    EXPECT_TRUE(close(x, {2}, {1, 1}, 0));
    EXPECT_EQ(x.version(), 0u);
  }
}

TEST(InPlace, ATensorMayChangeByItself) {
  for (const Device device : all_devices()) {
    const Tensor x = tensor({1.0, 2.0, 3.0}, {.device = device});
    x.add_(x);
    x.mul_(x);
    EXPECT_TRUE(close(x, {3}, {4, 16, 36}, 0));
  }
}

TEST(InPlace, CopyConvertsBroadcastsAndCrossesDevices) {
  for (const Device from : all_devices()) {
    for (const Device to : all_devices()) {
      const Tensor x = zeros({2, 3}, {.dtype = kFloat16, .device = to});
      x.copy_(tensor({1, 2, 3}, {.dtype = kInt64, .device = from}));
      EXPECT_TRUE(close(x, {2, 3}, {1, 2, 3, 1, 2, 3}, 0));
      x.t().copy_(ones({3, 2}, {.dtype = kFloat64, .device = from}));
      EXPECT_TRUE(close(x, {2, 3}, {1, 1, 1, 1, 1, 1}, 0));
    }
  }
}

// One check covers recorded and unrecorded calls, for every operand.
TEST(InPlace, OperandsThatDoNotFitAreRefusedOnTheTapeAndOffIt) {
  struct Row {
    Shape x, other;
    const char* text;
  };
  const Row rows[] = {
      {{}, {0}, "output with shape [] doesn't match the broadcast shape [0]"},
      {{3, 1}, {3, 0}, "output with shape [3, 1] doesn't match the broadcast shape [3, 0]"},
      {{4}, {3, 4}, "output with shape [4] doesn't match the broadcast shape [3, 4]"},
      {{4}, {3}, "The size of tensor a (4) must match the size of tensor b (3)"},
  };
  const std::function<void(const Tensor&, const Tensor&)> changes[] = {
      [](auto& x, auto& o) { x.masked_fill_(ne(o, 0), 7); },
      [](auto& x, auto& o) { x.copy_(o); },
      [](auto& x, auto& o) { x.add_(o); },
      [](auto& x, auto& o) { x.sub_(o); },
      [](auto& x, auto& o) { x.mul_(o); },
      [](auto& x, auto& o) { x.div_(o); },
      [](auto& x, auto& o) { x.pow_(o); },
  };
  for (const Device device : all_devices()) {
    for (const bool recorded : {false, true}) {
      for (const Row& row : rows) {
        for (const auto& change : changes) {
          const Tensor leaf = zeros(row.x, {.device = device, .requires_grad = recorded});
          const Tensor x = leaf * 1, other = ones(row.other, {.device = device});
          EXPECT_TRUE(refuses<Error>([&] { return change(x, other), 0; }, row.text));
          EXPECT_EQ(x.version(), 0u);
        }
      }
    }
  }
}

// The result is a handle, not a reference to the temporary that was changed.
static_assert(std::is_same_v<decltype(zeros({3}).add_(1)), Tensor>);
static_assert(std::is_same_v<decltype(zeros({3}) += zeros({3})), Tensor>);
static_assert(std::is_same_v<decltype(zeros({3}).requires_grad_()), Tensor>);
static_assert(std::is_same_v<decltype(fill_(zeros({3}), 1)), Tensor>);

TEST(InPlace, ResultsOutliveTheTemporaryThatWasChanged) {
  const Tensor& w = zeros({3}).add_(1);
  const Shape &shape = zeros({2, 3}).shape(), &strides = zeros({2, 3}).strides();
  EXPECT_TRUE(close(w, {3}, {1, 1, 1}, 0));
  EXPECT_EQ(shape, Shape({2, 3}));
  EXPECT_EQ(strides, Shape({3, 1}));
}

// As in LibTorch, assigning to an expression writes into its memory; assigning to a variable
// rebinds it.
TEST(Assignment, ToAnExpressionWritesIntoTheMemory) {
  for (const Device device : all_devices()) {
    const Tensor x = zeros({3, 2}, {.device = device});
    const Tensor y = tensor({1, 2}, {.dtype = kInt64, .device = device});
    x[0] = y;
    x.narrow(0, 1, 1) = 3;
    x.t()[1].narrow(0, 1, 2) = tensor(4.5, {.device = device});
    EXPECT_TRUE(close(x, {3, 2}, {1, 2, 3, 4.5, 0, 4.5}, 0));
    x[0] = x[1] = 6;
    EXPECT_TRUE(close(x, {3, 2}, {6, 6, 6, 6, 0, 4.5}, 0));
    EXPECT_TRUE(refuses<Error>([&] { return (x[0] = ones({3}, {.device = device})), 0; },
                               "The size of tensor a (2) must match the size of tensor b (3)"));
  }
}

TEST(Assignment, ToAnExpressionIsRecorded) {
  const Tensor a = tensor({1.0, 2.0, 3.0, 4.0}, {.requires_grad = true});
  const Tensor b = tensor(5.0, {.requires_grad = true});
  const Tensor x = a * a;
  x[1] = b * 2;
  x.narrow(0, 2, 1) = 7;
  sum(x * x).backward();
  EXPECT_TRUE(close(x, {4}, {1, 10, 7, 16}, 0));
  EXPECT_TRUE(close(a.grad(), {4}, {4, 0, 0, 256}, 0));
  EXPECT_TRUE(close(b.grad(), {}, {40}, 0));
  EXPECT_TRUE(refuses<Error>(
      [&] { return (a[0] = 1), 0; },
      "a view of a leaf Variable that requires grad is being used in an in-place operation."));
}

TEST(Assignment, ToAnUndefinedExpressionIsRefused) {
  const Tensor w = ones({2}, {.requires_grad = true});
  const char* kText = "Expected a proper Tensor but got an undefined Tensor";
  EXPECT_TRUE(refuses<Error>([&] { return (w.grad() = ones({2})), 0; }, kText));
  EXPECT_TRUE(refuses<Error>([&] { return (w.grad() = 0), 0; }, kText));
  EXPECT_TRUE(refuses<Error>([&] { return (w.detach()[0] = Tensor()), 0; }, kText));
}

// Rows selected by a tensor are a copy. Writing to it would be lost, so it does not compile.
template <class T>
concept Assignable = requires(T x, T y) {
  x[y] = y;
};
static_assert(!Assignable<Tensor>);

struct Target {
  const char* name;
  Tensor (*f)(const Tensor& x);
};

TEST(Assignment, ToACopyIsRefused) {
  const Target copies[] = {
      {"a mask", [](const Tensor& x) { return x.index({x > 1}); }},
      {"rows",
       [](const Tensor& x) {
         return x.index({tensor({0, 1}).to(x.device())});
       }},
      {"gather",
       [](const Tensor& x) {
         return x.gather(0, zeros({1, 2}, {.dtype = kInt64}).to(x.device()));
       }},
      {"index_select",
       [](const Tensor& x) { return x.index_select(0, tensor({1}).to(x.device())); }},
      {"masked_select", [](const Tensor& x) { return x.masked_select(x > 1); }},
      {"reshape of a transpose", [](const Tensor& x) { return x.t().reshape({6}); }},
      {"contiguous of a transpose", [](const Tensor& x) { return x.t().contiguous(); }},
      {"another dtype", [](const Tensor& x) { return x.to(kFloat64); }},
      {"clone", [](const Tensor& x) { return x.clone(); }},
      {"a result", [](const Tensor& x) { return x + 1; }},
      {"a part of a result", [](const Tensor& x) { return sort(x).values; }},
  };
  const char* kText = "the expression on the left of the assignment gives a copy of shape [";
  for (const Device device : all_devices()) {
    const Tensor x = arange(6.0, {.device = device}).reshape({3, 2});
    for (const bool records : {true, false}) {
      const AutoGradMode mode(records);
      for (const Target& c : copies) {
        EXPECT_TRUE(refuses<Error>([&] { return (c.f(x) = 3), 0; }, kText)) << c.name;
        EXPECT_TRUE(refuses<Error>([&] { return (c.f(x) = x), 0; }, kText)) << c.name;
        EXPECT_TRUE(refuses<Error>([&] { return (c.f(x) += 3), 0; }, kText)) << c.name;
        EXPECT_TRUE(refuses<Error>([&] { return (c.f(x) *= x), 0; }, kText)) << c.name;
      }
    }
    EXPECT_TRUE(
        refuses<Error>([&] { return (x[tensor({1}, {.device = device})] += 1), 0; }, kText));
    EXPECT_TRUE(close(x, {3, 2}, {0, 1, 2, 3, 4, 5}, 0));
  }
}

TEST(Assignment, ToAViewOrAHandleWritesThere) {
  const Target views[] = {
      {"select", [](const Tensor& x) { return x.select(0, 1); }},
      {"narrow", [](const Tensor& x) { return x.narrow(0, 1, 2); }},
      {"slice", [](const Tensor& x) { return x.slice(1, 0, 2, 2); }},
      {"slices in brackets",
       [](const Tensor& x) {
         return x.index({Slice(1, None), 0});
       }},
      {"a chain", [](const Tensor& x) { return x.t()[1].narrow(0, 0, 1); }},
      {"view", [](const Tensor& x) { return x.view({6}); }},
      {"reshape without a copy", [](const Tensor& x) { return x.reshape({6}); }},
      {"contiguous", [](const Tensor& x) { return x.contiguous(); }},
      {"the same place and dtype", [](const Tensor& x) { return x.to(x.device(), x.dtype()); }},
      {"detach", [](const Tensor& x) { return x.detach(); }},
      {"a part of a split", [](const Tensor& x) { return x.split(1)[2]; }},
      {"a handle", [](const Tensor& x) { return x; }},
  };
  for (const Device device : all_devices()) {
    for (const bool records : {true, false}) {
      const AutoGradMode mode(records);
      for (const Target& c : views) {
        const Tensor x = zeros({3, 2}, {.device = device});
        c.f(x) = 3;
        EXPECT_TRUE(close(c.f(x), full_like(c.f(x), 3), 0)) << c.name;
        c.f(x) += 1;
        EXPECT_TRUE(close(c.f(x), full_like(c.f(x), 4), 0)) << c.name;
      }
    }
  }
  std::vector<float> lent(2);
  from_blob(lent.data(), {2}) = 3;
  EXPECT_EQ(lent, (std::vector<float>{3, 3}));
  const Tensor w = ones({2}, {.requires_grad = true});
  w.sum().backward();
  w.grad() = 5;
  EXPECT_TRUE(close(w.grad(), {2}, {5, 5}, 0));
}

TEST(Assignment, ToAVariableMakesItAnotherHandle) {
  const Tensor one = ones({1}), two = one * 2;
  Tensor a = one, b = two;
  std::swap(a, b);
  EXPECT_TRUE(a.is_same(two) && b.is_same(one));
  EXPECT_TRUE(std::exchange(a, {}).is_same(two) && !a.defined());
  a = true ? b : two;
  EXPECT_TRUE(a.is_same(one));
  b = std::move(a);
  EXPECT_TRUE(b.is_same(one) && !a.defined());

  std::vector<Tensor> list{one, two, one};
  list.erase(list.begin());
  EXPECT_TRUE(list[0].is_same(two) && list[1].is_same(one));
  list[0] = list.back();
  std::reverse(list.begin(), list.end());
  list.assign(2, two);
  EXPECT_TRUE(list[0].is_same(two) && list[1].is_same(two));

  NamedTensor named{"one", one}, other{"two", two};
  named = other;
  EXPECT_TRUE(named.tensor.is_same(two));
  std::tie(a, b) = std::pair(one, two);
  EXPECT_TRUE(a.is_same(one) && b.is_same(two));
  std::optional<Tensor> maybe = one;
  maybe = two;
  EXPECT_TRUE(maybe->is_same(two));
  EXPECT_TRUE(close(one, {1}, {1}, 0));
  EXPECT_TRUE(close(two, {1}, {2}, 0));
}

}  // namespace
}  // namespace taper::v0::test
