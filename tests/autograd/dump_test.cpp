// The tape as text.
#include <gtest/gtest.h>

#include "autograd/ops/binary_ops.h"
#include "autograd/ops/index/inplace.h"
#include "autograd/ops/reduce_ops.h"
#include "autograd/ops/unary_ops.h"
#include "autograd/print.h"
#include "framework/factory/factories.h"
#include "tests/locale_guard.h"

namespace taper::v0::test {
namespace {

TEST(Dump, ListsNodesFromTheResultToTheLeaves) {
  const Tensor x = ones({2, 3}, {.requires_grad = true}), w = ones({3}, {.requires_grad = true});
  const Tensor h = x * w;
  const Tensor y = (h + h * 2).sum();
  EXPECT_EQ(dump_tape(y, {{"net.\"w\"", w}}),
            "#0 SumBackward0 [] <- #1\n"
            "#1 AddBackward0 <- #3, #2\n"
            "#2 MulBackward0 <- #3, -\n"
            "#3 MulBackward0 <- #4, #5\n"
            "#4 AccumulateGrad [2, 3]\n"
            "#5 AccumulateGrad net.\"w\" [3]\n");
  EXPECT_EQ(dump_tape_dot(exp(w), {{"net.\"w\"", w}}),
            "digraph tape {\n"
            "  n0 [label=\"ExpBackward0 [3]\"];\n"
            "  n0 -> n1;\n"
            "  n1 [label=\"AccumulateGrad net.\\\"w\\\" [3]\", shape=box];\n"
            "}\n");
}

TEST(Dump, NumbersDoNotFollowTheProgramsLocale) {
  const GroupedLocaleGuard locale(',');
  Tensor y = ones({1200}, {.requires_grad = true});
  for (int i = 0; i < 1001; ++i) y = y * 1.0;
  const std::string text = dump_tape(y), dot = dump_tape_dot(y);
  EXPECT_NE(text.find("#1000 MulBackward0 <- #1001, -\n#1001 AccumulateGrad [1200]\n"), text.npos);
  EXPECT_NE(dot.find("  n1000 -> n1001;\n"), dot.npos);
  EXPECT_EQ(dot.find("1,0"), dot.npos);
}

TEST(Dump, OfLeavesConstantsAndChangedViews) {
  const Tensor x = ones({2}, {.requires_grad = true});
  EXPECT_EQ(dump_tape(x), "#0 AccumulateGrad [2]\n");
  EXPECT_EQ(dump_tape(x.detach()), "");
  const Tensor y = x * 2, v = y.view({2, 1});
  y.mul_(3);
  EXPECT_EQ(dump_tape(v).find("#0 AsStridedBackward0 [2, 1] <- #1\n#1 MulBackward0 <- #2, -\n"), 0u)
      << dump_tape(v);
}

}  // namespace
}  // namespace taper::v0::test
