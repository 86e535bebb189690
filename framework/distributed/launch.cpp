// Reads from the environment which launcher started this process.
#include <climits>
#include <cstdlib>
#include <system_error>

#include "framework/distributed/backend.h"
#include "framework/io/text_utils.h"

namespace taper::v0::distributed {
namespace {

const char* variable(const char* name) {
  const char* value = std::getenv(name);
  return value && *value ? value : nullptr;
}

std::string text_of(const char* name) {
  if (const char* value = variable(name)) return value;
  throw Error(variable("RANK") ? "RANK" : "WORLD_SIZE", " is set, but ", name,
              " is not: ranks that no MPI starts need RANK, WORLD_SIZE, LOCAL_RANK, "
              "MASTER_ADDR and MASTER_PORT");
}

int number_of(const char* name, int most = INT_MAX) {
  const std::string text = text_of(name);
  int value = -1;
  const bool is_number = detail::parse_number(text.c_str(), value) == std::errc();
  if (is_number && value >= 0 && value <= most) return value;
  throw Error(name, " is '", text, "': expected a whole number, 0 or more",
              most < INT_MAX ? concat_to_string(", at most ", most) : "");
}

bool by_mpi() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK", "PMI_RANK"}) {
    if (variable(name)) return true;
  }
  return false;
}

}  // namespace

bool by_environment() { return !by_mpi() && (variable("RANK") || variable("WORLD_SIZE")); }

bool Communicator::is_launched() {
  if (!by_mpi() && !variable("WORLD_SIZE")) return false;
  // A job with a single rank, as under srun -n 1, needs no MPI.
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "WORLD_SIZE", "SLURM_NTASKS"}) {
    if (const char* size = variable(name)) return std::string_view(size) != "1";
  }
  return true;
}

Launched launched_rank() {
  Launched me{number_of("RANK"), number_of("WORLD_SIZE"), number_of("LOCAL_RANK"), ""};
  require(me.rank < me.size, "RANK is ", me.rank, ", but WORLD_SIZE is ", me.size,
          ": ranks are numbered from 0");
  // Under torchrun, its agent listens on MASTER_PORT itself.
  const bool is_taken = variable("TORCHELASTIC_RUN_ID");
  const char* given = variable("NCCL_COMM_ID");
  me.address = given ? given
                     : concat_to_string(text_of("MASTER_ADDR"), ":",
                                        number_of("MASTER_PORT", 65535 - is_taken) + is_taken);
  return me;
}

}  // namespace taper::v0::distributed
