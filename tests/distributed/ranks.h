// The ranks on which a test of tests/distributed runs: all ranks of the job, on the CPU or, with
// TAPER_TEST_DEVICE=cuda, each on a GPU of its own.
#pragma once

#include <cstdlib>
#include <string>

#include "framework/distributed/communicator.h"

namespace taper::v0::test {

// Returns the communicator of all ranks, with checked calls and a timeout that a test can wait for.
const distributed::Communicator& world();
// Returns the value of TAPER_TEST_DEVICE, by default "cpu".
inline std::string test_device_name() {
  const char* named = std::getenv("TAPER_TEST_DEVICE");
  return named ? named : "cpu";
}
// Returns this rank's device: that of world(), which is not necessarily the current one.
inline Device test_device() { return world().device(); }
// Runs in the ranks that a test starts: all_reduces until a rank is lost. Each rank writes
// DIRECTORY/pidN when it has started its work, and at the end "lost RANK: MESSAGE" to
// DIRECTORY/endN.
int endless(const std::string& directory, bool checked);
// Called by main() after the tests, while MPI and CUDA can still be used.
void forget_world();

}  // namespace taper::v0::test
