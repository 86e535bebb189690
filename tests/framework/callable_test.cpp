// What public headers have in place of std::function, std::unique_ptr, std::shared_ptr and
// std::atomic.
#include "framework/callable.h"

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "framework/base/error.h"
#include "framework/memory/pointers.h"

namespace taper {
namespace {

using Add = Callable<int(int)>;

int add_one(int x) { return x + 1; }

TEST(Callable, HoldsWhatCanBeCalled) {
  const std::function<int(int)> given = [](int x) { return x + 2; };
  EXPECT_EQ(Add(add_one)(1), 2);
  EXPECT_EQ(Add(&add_one)(1), 2);
  EXPECT_EQ(Add(given)(1), 3);
  EXPECT_EQ(Add([&](short x) { return given(x); })(1), 3);
  EXPECT_EQ((std::function<int(int)>(Add(add_one))(1)), 2);
  std::string seen;
  Callable<void(const std::string&)>([&](const std::string& x) { return (seen = x).size(); })("x");
  EXPECT_EQ(seen, "x");
}

TEST(Callable, IsEmptyWhereItWasGivenNothing) {
  int (*none)(int) = nullptr;
  EXPECT_FALSE(Add() || Add(nullptr) || Add(none) || Add(std::function<int(int)>()));
  EXPECT_TRUE(bool(Add([](int x) { return x; })));
  EXPECT_THROW(Add()(1), Error);
}

TEST(Callable, ACopyHasAStateOfItsOwn) {
  Add count = [n = 0](int x) mutable { return n += x; };
  EXPECT_EQ(count(1), 1);
  Add copy = count;
  EXPECT_EQ(copy(1), 2);
  EXPECT_EQ(count(1), 2);
  const Add moved = std::move(count);
  EXPECT_EQ(moved(1), 3);
  EXPECT_FALSE(count);  // NOLINT(bugprone-use-after-move)
}

struct Base {
  virtual ~Base() = default;
  int value = 0;
};
struct Derived : Base {
  explicit Derived(std::vector<int>& gone) : gone_(gone) {}
  ~Derived() override { gone_.push_back(value); }
  std::vector<int>& gone_;
};

TEST(Owned, ConvertsFromAndToStandardPointers) {
  std::vector<int> gone;
  {
    Owned<Base> owned = std::make_unique<Derived>(gone);
    owned->value = 3;
    std::unique_ptr<Base> unique = std::move(owned);
    EXPECT_FALSE(owned);  // NOLINT(bugprone-use-after-move)
    std::shared_ptr<Base> shared = Owned<Base>(std::move(unique));
    EXPECT_EQ(shared->value, 3);
    std::unique_ptr<Base> direct(Owned<Base>(new Derived(gone)));
    EXPECT_TRUE(gone.empty());
  }
  EXPECT_EQ(gone, (std::vector<int>{0, 3}));
  EXPECT_FALSE(Owned<Base>(nullptr));
}

TEST(Shared, KeepsItsObjectUntilTheLastGoes) {
  std::vector<int> gone;
  Shared<const Base> last;
  {
    auto made = Shared<Derived>::make(gone);
    made->value = 1;
    last = Shared<const Base>(made);
    const Shared<const Base> copy = last;
  }
  EXPECT_TRUE(gone.empty());
  last = std::make_unique<Derived>(gone);
  EXPECT_EQ(gone, std::vector<int>{1});
  const std::shared_ptr<Base> theirs = std::make_shared<Derived>(gone);
  last = theirs;
  EXPECT_EQ(gone, (std::vector<int>{1, 0}));
  EXPECT_EQ(theirs.use_count(), 2);
  int anybodys = 5;
  EXPECT_EQ(*Shared<int>::unowned(&anybodys), 5);
}

TEST(Atomic, CountsAndTakesStandardOrders) {
  Atomic<int> count = 1;
  EXPECT_EQ(count.fetch_add(2, std::memory_order_relaxed), 1);
  int expected = 2;
  EXPECT_FALSE(count.compare_exchange_strong(expected, 7, std::memory_order_acq_rel));
  EXPECT_EQ(expected, 3);
  EXPECT_TRUE(count.compare_exchange_strong(expected, 7));
  EXPECT_EQ(++count, 8);
  count |= 3;
  count &= 9;
  EXPECT_EQ(count.load(std::memory_order_acquire), 9);
}

}  // namespace
}  // namespace taper
