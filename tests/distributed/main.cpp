// Every rank runs every test; the first prints, the others say what failed.
#include <cstdlib>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "tests/distributed/ranks.h"

// Of a leak sanitizer, where there is one.
extern "C" __attribute__((weak)) void __lsan_do_leak_check();

namespace taper::v0::test {
namespace {

std::optional<distributed::Communicator> the_world;

}  // namespace

const distributed::Communicator& world() {
  if (!the_world) {
    the_world =
        distributed::Communicator::world(test_device_name(), {.timeout = 60, .checked = true});
  }
  return *the_world;
}

void forget_world() { the_world.reset(); }

}  // namespace taper::v0::test

int main(int count, char** arguments) {
  if (count == 4 && std::string(arguments[1]) == "endless") {
    return taper::test::endless(arguments[2], std::string(arguments[3]) == "checked");
  }
  testing::InitGoogleTest(&count, arguments);
  if (taper::distributed::Communicator::is_launched() && taper::test::world().rank() > 0) {
    GTEST_FLAG_SET(brief, true);
  }
  const int status = RUN_ALL_TESTS();
  taper::test::forget_world();
  // While MPI's parts still have names, by which what they lose is left out.
  if (__lsan_do_leak_check) __lsan_do_leak_check();
  return status;
}
