// What is said where MPI or NCCL are not there. Runs as one process without a launcher.
#include <cstdlib>

#include "framework/cuda/cuda.h"
#include "tests/distributed/ranks.h"
#include "tests/testing.h"

namespace taper::inline v0::distributed {
namespace {

TEST(Missing, MpiIsNamedWithWhatToInstall) {
  setenv("TAPER_MPI_PLUGIN", "/nowhere/taper_mpi.so", 1);
  const std::string reason = Communicator::unavailable_reason("cpu");
  for (const char* part :
       {"/nowhere/taper_mpi.so", "scripts/install.sh distributed", "MPI, for CPU"}) {
    EXPECT_NE(reason.find(part), std::string::npos) << part << "\nis not in: " << reason;
  }
  EXPECT_TRUE(test::refuses<Error>([] { return Communicator::world("cpu"); }, reason));
  // On GPUs all that is missing is in one message.
  const std::string both = Communicator::unavailable_reason("cuda");
  EXPECT_NE(both.find("/nowhere/taper_mpi.so"), std::string::npos) << both;
  if (!kHasCuda) {
    EXPECT_NE(both.find("NCCL, for CUDA tensors"), std::string::npos) << both;
  }
  unsetenv("TAPER_MPI_PLUGIN");
}

}  // namespace
}  // namespace taper::inline v0::distributed
