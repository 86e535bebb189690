// The ranks that a test of tests/distributed runs on: the whole job's, on the device that
// TAPER_TEST_DEVICE names, else on the CPU.
#pragma once

#include <optional>

#include "framework/distributed/communicator.h"

namespace taper::test {

Device test_device();
// All ranks, with checked calls and a timeout that a test can wait for.
const distributed::Communicator& world();
// Called by main() at the end of the tests, while MPI and CUDA are still there.
void forget_world();

}  // namespace taper::test
