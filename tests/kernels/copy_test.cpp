// Copies between layouts on a GPU equal those on the CPU.
#include <gtest/gtest.h>

#include "autograd/ops/binary_ops.h"
#include "autograd/ops/shape_ops.h"
#include "framework/factory/factories.h"
#include "tests/testing.h"

namespace taper::v0::test {
namespace {

struct CopyRow {
  Shape sizes, order;
};

// Tiles, short dimensions of up to 16 elements beside a long one, in both directions, and what lies
// just beyond these limits.
TEST(Copy, PermutedOnAGpuAsOnTheCpu) {
  if (skip_without_cuda()) return;
  const CopyRow rows[] = {
      {{64, 65}, {1, 0}},
      {{5, 33, 9}, {0, 2, 1}},
      {{5, 9, 33}, {0, 2, 1}},
      {{4, 31, 9}, {0, 2, 1}},
      {{3, 256, 3, 3}, {0, 2, 3, 1}},
      {{3, 3, 3, 256}, {0, 3, 1, 2}},
      {{3, 3, 3, 257}, {0, 3, 1, 2}},
      {{2, 512, 16}, {0, 2, 1}},
      {{2, 16, 512}, {0, 2, 1}},
      {{2, 512, 17}, {0, 2, 1}},
      {{300, 2}, {1, 0}},
      {{2, 300}, {1, 0}},
      {{2, 3, 4, 40, 5}, {1, 0, 4, 3, 2}},
      {{1000, 1, 7}, {2, 0, 1}},
  };
  for (const auto& [sizes, order] : rows) {
    for (const DType dtype : kAllDTypes) {
      const Tensor from =
          remainder(arange(sizes.numel() + 3), 101).to(dtype).narrow(0, 3, sizes.numel());
      const Tensor there = remainder(arange(sizes.numel() + 3), 101)
                               .to(dtype)
                               .to(Device("cuda"))
                               .narrow(0, 3, sizes.numel());
      const Tensor view = from.reshape(sizes).permute(order);
      const Tensor view_there = there.view(sizes).permute(order);
      const std::string where = concat_to_string(sizes, " ", order, " ", dtype);
      EXPECT_TRUE(same_bits(view.contiguous(), view_there.contiguous())) << where;
      Shape wider = view.shape();
      wider[-1] += 5;
      const auto part = [&](Device device) {
        return zeros(wider, {.dtype = dtype, .device = device}).narrow(-1, 2, view.size(-1));
      };
      const Tensor a = part("cpu"), b = part("cuda");
      a.copy_(view);
      b.copy_(view_there);
      EXPECT_TRUE(same_bits(a, b)) << where;
      const Tensor c = part("cpu"), d = part("cuda");
      c.fill_(1);
      d.copy_(c.to(Device("cuda")));
      EXPECT_TRUE(same_bits(c, d)) << where;
    }
  }
}

}  // namespace
}  // namespace taper::v0::test
