// Messages when MPI or NCCL is missing, or when a launcher's variables are invalid. Runs as one
// process without a launcher.
#include <cstdlib>
#include <map>

#include "framework/cuda/cuda.h"
#include "framework/distributed/backend.h"
#include "framework/distributed/links.h"
#include "tests/distributed/ranks.h"
#include "tests/testing.h"

namespace taper::v0::distributed {
namespace {

TEST(Missing, MpiIsNamedWithWhatToInstall) {
  setenv("TAPER_MPI_PLUGIN", "/nowhere/taper_mpi.so", 1);
  const std::string reason = Communicator::unavailable_reason("cpu");
  for (const char* part :
       {"/nowhere/taper_mpi.so", "scripts/install.sh distributed", "MPI, for CPU"}) {
    EXPECT_NE(reason.find(part), std::string::npos) << part << "\nis not in: " << reason;
  }
  EXPECT_TRUE(test::refuses<Error>([] { return Communicator::world("cpu"); }, reason));
  // For GPUs, one message lists everything that is missing.
  const std::string both = Communicator::unavailable_reason("cuda");
  EXPECT_NE(both.find("/nowhere/taper_mpi.so"), std::string::npos) << both;
  if (!kHasCuda) {
    EXPECT_NE(both.find("NCCL, for CUDA tensors"), std::string::npos) << both;
  }
  unsetenv("TAPER_MPI_PLUGIN");
}

// Returns the rank that Taper derives from these variables and from those of rank 1 of 2. "" makes
// a variable empty.
Launched rank_with(const std::map<std::string, std::string>& other) {
  std::map<std::string, std::string> all = {{"RANK", "1"},
                                            {"WORLD_SIZE", "2"},
                                            {"LOCAL_RANK", "1"},
                                            {"MASTER_ADDR", "node-0"},
                                            {"MASTER_PORT", "29500"}};
  for (const auto& [name, value] : other) all[name] = value;
  struct Unset {
    const std::map<std::string, std::string>& names;
    ~Unset() {
      for (const auto& [name, value] : names) unsetenv(name.c_str());
    }
  } unset{all};
  for (const auto& [name, value] : all) setenv(name.c_str(), value.c_str(), 1);
  EXPECT_TRUE(by_environment());
  // The same message is a part of unavailable_reason().
  try {
    return launched_rank();
  } catch (const Error& error) {
    const std::string on_gpu = Communicator::unavailable_reason("cuda");
    EXPECT_NE(on_gpu.find(error.what()), std::string::npos) << on_gpu;
    throw;
  }
}

TEST(Missing, VariablesOfALauncherAreReadStrictly) {
  const Launched me = rank_with({});
  EXPECT_EQ(me.rank, 1);
  EXPECT_EQ(me.size, 2);
  EXPECT_EQ(me.local_rank, 1);
  EXPECT_EQ(me.address, "node-0:29500");
  // torchrun's agent itself listens at the given port; NCCL may have an address of its own.
  EXPECT_EQ(rank_with({{"TORCHELASTIC_RUN_ID", "none"}}).address, "node-0:29501");
  EXPECT_EQ(rank_with({{"NCCL_COMM_ID", "10.0.0.1:7"}, {"MASTER_PORT", ""}}).address, "10.0.0.1:7");

  const auto refused = [](const std::map<std::string, std::string>& other,
                          const std::string& part) {
    EXPECT_TRUE(test::refuses<Error>([&] { rank_with(other); }, part)) << part;
  };
  for (const char* name : {"WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"}) {
    refused({{name, ""}}, concat_to_string("RANK is set, but ", name, " is not"));
  }
  refused({{"RANK", ""}}, "WORLD_SIZE is set, but RANK is not");
  for (const char* value : {"one", "-1", "1.5", "1 ", "99999999999"}) {
    refused({{"RANK", value}}, concat_to_string("RANK is '", value, "': expected a whole number"));
  }
  refused({{"RANK", "2"}}, "RANK is 2, but WORLD_SIZE is 2");
  refused({{"WORLD_SIZE", "0"}}, "RANK is 1, but WORLD_SIZE is 0");
  refused({{"MASTER_PORT", "65536"}},
          "MASTER_PORT is '65536': expected a whole number, 0 or more, at most 65535");
  refused({{"MASTER_PORT", "65535"}, {"TORCHELASTIC_RUN_ID", "none"}},
          "MASTER_PORT is '65535': expected a whole number, 0 or more, at most 65534");
}

TEST(Missing, LinksOfGpusAreToldOnceWhereTheyAreAlike) {
  const auto alike = [](int, int) { return std::string("NVLink, 18 links"); };
  EXPECT_EQ(link_lines(0, alike), "");
  EXPECT_EQ(link_lines(1, alike), "");
  EXPECT_EQ(link_lines(2, alike), "links    cuda:0 and cuda:1: NVLink, 18 links\n");
  EXPECT_EQ(link_lines(8, alike), "links    each two GPUs: NVLink, 18 links\n");
  const auto pairs = [](int a, int b) {
    return std::string(b == a + 1 && a % 2 == 0 ? "NVLink, 4 links" : "PCIe");
  };
  EXPECT_EQ(link_lines(3, pairs),
            "links    cuda:0 and cuda:1: NVLink, 4 links\n"
            "links    cuda:0 and cuda:2: PCIe\nlinks    cuda:1 and cuda:2: PCIe\n");
}

}  // namespace
}  // namespace taper::v0::distributed
