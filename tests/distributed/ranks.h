// The ranks that a test of tests/distributed runs on: the whole job's, on the CPU, or each on a GPU
// of its own where TAPER_TEST_DEVICE is "cuda".
#pragma once

#include <optional>

#include "framework/distributed/communicator.h"

namespace taper::test {

// All ranks, with checked calls and a timeout that a test can wait for.
const distributed::Communicator& world();
// This rank's: that of world(), which need not be the current one.
inline Device test_device() { return world().device(); }
// Called by main() at the end of the tests, while MPI and CUDA are still there.
void forget_world();

}  // namespace taper::test
