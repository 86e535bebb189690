// Buffers that are saved, and buffers that are not.
#include <gtest/gtest.h>

#include "autograd/ops/binary_ops.h"
#include "modules/layers/containers.h"
#include "modules/layers/linear.h"
#include "modules/members.h"
#include "tests/modules/modules.h"
#include "tests/testing.h"

namespace taper::v0::test {
namespace {

struct WithTable : ModuleOf<WithTable> {
  Child<Linear> fc{*this, "fc", 2, 2};
  Buffer table{*this, "table", numbers({4}), {.persistent = false}};
  Buffer count{*this, "count", zeros({}, {.dtype = kInt64})};
  Tensor forward(const Tensor& x) { return fc(x); }
};

TEST(UnsavedBuffer, IsInNoStateDictAndInNoCheckOfItsKeys) {
  WithTable net, other;
  EXPECT_EQ(names_of(net.state_dict()), (Names{"count", "fc.weight", "fc.bias"}));
  EXPECT_EQ(names_of(net.named_buffers()), (Names{"table", "count"}));
  other.table = zeros({4});
  const IncompatibleKeys keys = other.load_state_dict(net.state_dict());
  EXPECT_TRUE(keys.missing_keys.empty() && keys.unexpected_keys.empty());
  EXPECT_TRUE(close(*other.table, zeros({4}), 0));
  std::vector<NamedTensor> state = net.state_dict();
  state.push_back({"table", ones({4})});
  EXPECT_TRUE(
      refuses<Error>([&] { return other.load_state_dict(state); },
                     "Error(s) in loading state_dict for WithTable:\n\tUnexpected key(s) in "
                     "state_dict: \"table\"."));
}

TEST(UnsavedBuffer, IsMovedClonedAndAssigned) {
  WithTable net;
  const Tensor table = *net.table;
  net.to(kFloat64);
  EXPECT_EQ(table.dtype(), kFloat64);
  const WithTable copy = clone(net);
  EXPECT_TRUE(close(*copy.table, *net.table, 0));
  EXPECT_FALSE(copy.table->is_same(*net.table));
  EXPECT_EQ(names_of(copy.state_dict()), names_of(net.state_dict()));
  WithTable moved = std::move(net);
  EXPECT_EQ(names_of(moved.state_dict()), (Names{"count", "fc.weight", "fc.bias"}));
  EXPECT_TRUE(moved.table->is_same(table));
}

TEST(UnsavedBuffer, MayBeRegisteredByHandAndBelowOtherModules) {
  Module by_hand;
  by_hand.register_buffer("saved", ones({1}));
  by_hand.register_buffer("unsaved", ones({1}), {.persistent = false});
  EXPECT_EQ(names_of(by_hand.state_dict()), (Names{"saved"}));
  struct Outer : Module {
    Child<ListOf<WithTable>> list{*this, "list", 2};
  } outer;
  EXPECT_EQ(names_of(outer.state_dict()),
            (Names{"list.0.count", "list.0.fc.weight", "list.0.fc.bias", "list.1.count",
                   "list.1.fc.weight", "list.1.fc.bias"}));
}

}  // namespace
}  // namespace taper::v0::test
