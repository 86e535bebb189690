// The ranks that a test of tests/distributed runs on: the whole job's, on the CPU, or each on a GPU
// of its own where TAPER_TEST_DEVICE is "cuda".
#pragma once

#include <cstdlib>
#include <string>

#include "framework/distributed/communicator.h"

namespace taper::v0::test {

// All ranks, with checked calls and a timeout that a test can wait for.
const distributed::Communicator& world();
// "cpu", or what TAPER_TEST_DEVICE says.
inline std::string test_device_name() {
  const char* named = std::getenv("TAPER_TEST_DEVICE");
  return named ? named : "cpu";
}
// This rank's: that of world(), which need not be the current one.
inline Device test_device() { return world().device(); }
// The program of tests that start ranks of their own: all_reduces until a rank is lost. Each rank
// writes DIRECTORY/pidN when it is at work, and DIRECTORY/endN: "lost RANK: MESSAGE".
int endless(const std::string& directory, bool checked);
// Called by main() at the end of the tests, while MPI and CUDA are still there.
void forget_world();

}  // namespace taper::v0::test
