// Components that a test registers are removed after it, and those that its suite registers are
// removed after the suite. Tests can therefore run in any order, repeatedly, and in one process.
#include <functional>
#include <vector>

#include <gtest/gtest.h>

#include "apps/runner/components/components.h"
#include "modules/layers/linear.h"
#include "tests/testing.h"

namespace taper::v0::runner {
namespace {

// Remembers the contents of all registries.
class RegistrySnapshot {
 public:
  RegistrySnapshot() {
    remember(layers);
    remember(models);
    remember(losses);
    remember(schedules);
    remember(optimizers);
    remember(metric_types);
    remember(data_types);
    remember(image_transforms);
    remember(callbacks);
  }
  void restore() const {
    for (const auto& restore_one : restores_) restore_one();
  }

 private:
  template <class Registry> void remember(Registry& (*registry)()) {
    restores_.emplace_back([registry, saved = registry()] { registry() = saved; });
  }
  std::vector<std::function<void()>> restores_;
};

class RegistrationScopes : public ::testing::EmptyTestEventListener {
  void OnTestSuiteStart(const ::testing::TestSuite&) override { snapshots_.emplace_back(); }
  void OnTestStart(const ::testing::TestInfo&) override { snapshots_.emplace_back(); }
  void OnTestEnd(const ::testing::TestInfo&) override { restore_last(); }
  void OnTestSuiteEnd(const ::testing::TestSuite&) override { restore_last(); }
  void restore_last() {
    snapshots_.back().restore();
    snapshots_.pop_back();
  }
  std::vector<RegistrySnapshot> snapshots_;
};

// The list of listeners deletes the listener.
const bool kHasListener = [] {
  ::testing::UnitTest::GetInstance()->listeners().Append(new RegistrationScopes);
  return true;
}();

struct ScopedOptions {
  template <class V> void describe(V&) {}
};

// All tests of this suite register the same name. The second one would fail if the name remained.
class Registrations : public ::testing::TestWithParam<int> {
 protected:
  static void SetUpTestSuite() {
    register_layer<ScopedOptions>("registered_by_suite", make);
    ASSERT_TRUE(kHasListener);
  }
  static std::unique_ptr<Module> make(const ScopedOptions&, const LayerSite&) {
    return std::make_unique<Linear>(1, 1);
  }
};

TEST_P(Registrations, OfATestEndWithItAndThoseOfItsSuiteRemain) {
  EXPECT_TRUE(layers().is_added("registered_by_suite"));
  register_layer<ScopedOptions>("registered_by_test", make);
  EXPECT_TRUE(layers().is_added("registered_by_test"));
  EXPECT_THROW(register_layer<ScopedOptions>("registered_by_test", make), ValueError);
}
INSTANTIATE_TEST_SUITE_P(Twice, Registrations, ::testing::Values(1, 2));

}  // namespace
}  // namespace taper::v0::runner
