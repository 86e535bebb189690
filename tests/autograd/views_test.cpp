// Views share memory with their tensor, and gradients flow back through them.
#include <gtest/gtest.h>

#include "autograd/node.h"
#include "autograd/ops/binary_ops.h"
#include "autograd/ops/shape_ops.h"
#include "framework/factory/factories.h"
#include "tests/testing.h"

namespace taper::v0::test {
namespace {

struct View {
  const char* name;
  Tensor (*of)(const Tensor&);
};

// Views of a [2, 3, 4] tensor.
const View kViews[] = {
    {"view",
     [](const Tensor& x) {
       return x.view({6, 4});
     }},
    {"reshape",
     [](const Tensor& x) {
       return x.reshape({4, -1});
     }},
    {"flatten", [](const Tensor& x) { return x.flatten(); }},
    {"unsqueeze", [](const Tensor& x) { return x.unsqueeze(1); }},
    {"squeeze", [](const Tensor& x) { return x.narrow(0, 0, 1).squeeze(0); }},
    {"transpose", [](const Tensor& x) { return x.transpose(0, 2); }},
    {"t", [](const Tensor& x) { return x.select(0, 0).t(); }},
    {"permute",
     [](const Tensor& x) {
       return x.permute({1, 2, 0});
     }},
    {"expand",
     [](const Tensor& x) {
       return x.expand({5, 2, 3, 4});
     }},
    {"narrow", [](const Tensor& x) { return x.narrow(2, 0, 2); }},
    {"select", [](const Tensor& x) { return x.select(0, 0); }},
    {"index", [](const Tensor& x) { return x[0]; }},
    {"detach", [](const Tensor& x) { return x.detach(); }},
    {"contiguous", [](const Tensor& x) { return x.contiguous(); }},
};

TEST(Views, ShareMemoryAndVersionWithTheirTensor) {
  for (const Device device : all_devices()) {
    for (const View& view : kViews) {
      const Tensor x = zeros({2, 3, 4}, {.device = device});
      const Tensor y = view.of(x);
      EXPECT_EQ(y.storage(), x.storage()) << view.name;
      x.fill_(7);
      EXPECT_TRUE(close(y, full_like(y.clone(), 7), 0)) << view.name;
      EXPECT_EQ(y.version(), 1u) << view.name;
    }
  }
}

TEST(Views, AChangeThroughAViewShowsInItsTensor) {
  for (const Device device : all_devices()) {
    const Tensor x = zeros({2, 3}, {.device = device});
    x.t()[1].add_(tensor({5.0, 6.0}, {.device = device}));
    EXPECT_TRUE(close(x, {2, 3}, {0, 5, 0, 0, 6, 0}, 0));
  }
}

TEST(Views, OfOtherStridesAreExactlyThoseThatExist) {
  struct Case {
    Shape shape, strides, wanted;
    bool possible;
  };
  const Case cases[] = {
      {{2, 3}, {3, 1}, {6}, true},           {{2, 3}, {1, 2}, {6}, false},
      {{2, 3}, {1, 2}, {2, 3, 1}, true},     {{2, 3}, {1, 2}, {2, 1, 3}, true},
      {{2, 4}, {8, 1}, {2, 2, 2}, true},     {{2, 4}, {8, 1}, {8}, false},
      {{4, 2}, {4, 2}, {8}, true},           {{2, 2, 3}, {6, 3, 1}, {4, 3}, true},
      {{2, 2, 3}, {3, 6, 1}, {4, 3}, false}, {{2, 2, 3}, {3, 6, 1}, {2, 6}, false},
      {{1, 3}, {99, 1}, {3}, true},          {{3, 1}, {1, 99}, {3, 1, 1}, true},
      {{2, 3}, {0, 1}, {2, 3}, true},        {{2, 3}, {0, 1}, {6}, false},
      {{2, 2}, {0, 0}, {4}, true},           {{0, 3}, {1, 7}, {3, 0}, true},
  };
  for (const Case& c : cases) {
    const Tensor x = view_as(arange(100), c.shape, c.strides, 0);
    const std::string what = concat_to_string(c.shape, " strides ", c.strides, " as ", c.wanted);
    if (!c.possible) {
      EXPECT_TRUE(refuses<Error>([&] { return x.view(c.wanted); },
                                 "view size is not compatible with input tensor's size and stride"))
          << what;
    } else {
      EXPECT_EQ(x.view(c.wanted).storage(), x.storage()) << what;
    }
    EXPECT_TRUE(close(x.reshape(c.wanted), c.wanted, values_of(x), 0)) << what;
  }
}

TEST(Views, GradientsOfOverlappingWindowsAdd) {
  for (const Device device : all_devices()) {
    const Tensor x = ones({4}, {.device = device, .requires_grad = true});
    (x.narrow(0, 0, 3) * x.narrow(0, 1, 3)).sum().backward();
    EXPECT_TRUE(close(x.grad(), {4}, {1, 2, 2, 1}, 0));
  }
}

TEST(Views, ExpandedGradientsAreSummedBack) {
  for (const Device device : all_devices()) {
    const Tensor x = ones({3, 1}, {.device = device, .requires_grad = true});
    (x.expand({2, 3, 4}) * arange(4, {.device = device})).sum().backward();
    EXPECT_TRUE(close(x.grad(), {3, 1}, {12, 12, 12}, 0));
    EXPECT_TRUE(x.grad().is_contiguous());
  }
}

}  // namespace
}  // namespace taper::v0::test
