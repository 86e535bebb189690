// Every rank runs every test. Rank 0 prints all results, the other ranks print only failures.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/distributed/ranks.h"

// Defined by the leak sanitizer, if it is linked.
extern "C" __attribute__((weak)) void __lsan_do_leak_check();

namespace taper::v0::test {
namespace {

using distributed::Communicator;

std::optional<Communicator> the_world;

double timeout() {
  const char* given = std::getenv("TAPER_TEST_TIMEOUT");
  return given ? std::atof(given) : 60;
}

// Keeps the tests of all ranks in step. After each test the ranks exchange whether it failed. If it
// did, they replace world(): a rank that left the test early has skipped calls that the others
// made, so the calls of all later tests would be mismatched.
class KeepRanksInStep : public testing::EmptyTestEventListener {
 public:
  // The ranks communicate through a communicator that no test uses. Its timeout is longer, so that
  // ranks that wait in a test for a failed one reach the timeout of world() first.
  KeepRanksInStep()
      : ranks_(Communicator::world(test_device_name(), {.timeout = 60 + 2 * timeout()})) {}

  void OnTestEnd(const testing::TestInfo& info) override {
    const std::string name = info.test_suite_name() + std::string(".") + info.name();
    const char* result = info.result()->Failed() ? " failed" : " did not fail";
    try {
      compare_results(name, ranks_.all_gather_text(name + result));
    } catch (const Error& error) {
      std::fprintf(stderr, "cannot go on after %s: %s\n", name.c_str(), error.what());
      Communicator::abort(1);
    }
  }
  int num_failed() const { return num_failed_; }

 private:
  void compare_results(const std::string& name, const std::vector<std::string>& results) {
    std::string failed;
    for (int r = 0; r < ranks_.size(); ++r) {
      const std::string& result = results[size_t(r)];
      require(result.starts_with(name), ranks_.name_of(r), " ran another test: ", result);
      if (result == name + " failed")
        failed += concat_to_string(failed.empty() ? "" : ", ", ranks_.name_of(r));
    }
    if (failed.empty()) return;
    ++num_failed_;
    if (ranks_.rank() == 0) std::printf("%s failed on %s\n", name.c_str(), failed.c_str());
    forget_world();
    (void)world();  // now, while all ranks take part
  }

  Communicator ranks_;
  int num_failed_ = 0;
};

}  // namespace

const Communicator& world() {
  if (!the_world) {
    the_world = Communicator::world(test_device_name(), {.timeout = timeout(), .checked = true});
  }
  return *the_world;
}

void forget_world() { the_world.reset(); }

namespace {

// Returns the exit code, which is the same on all ranks: mpirun ends the others when one fails.
int run_on_all_ranks() {
  const auto in_step = std::make_unique<KeepRanksInStep>();
  (void)world();
  if (world().rank() > 0) GTEST_FLAG_SET(brief, true);
  testing::TestEventListeners& listeners = testing::UnitTest::GetInstance()->listeners();
  listeners.Append(in_step.get());
  const int own_status = RUN_ALL_TESTS();
  listeners.Release(in_step.get());
  forget_world();  // before in_step, of whose communicator it may be a part
  return in_step->num_failed() > 0 ? 1 : own_status;
}

}  // namespace
}  // namespace taper::v0::test

int main(int count, char** arguments) {
  if (count == 4 && std::string(arguments[1]) == "endless") {
    return taper::test::endless(arguments[2], std::string(arguments[3]) == "checked");
  }
  testing::InitGoogleTest(&count, arguments);
  const bool is_launched = taper::distributed::Communicator::is_launched();
  const int status = is_launched ? taper::test::run_on_all_ranks() : RUN_ALL_TESTS();
  taper::test::forget_world();
  // Checked here, while MPI's libraries are still loaded, because the suppressions of their leaks
  // use symbol names.
  if (__lsan_do_leak_check) __lsan_do_leak_check();
  return status;
}
