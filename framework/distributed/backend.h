// The interface that the MPI and NCCL backends implement. Communicator checks the arguments first.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "framework/distributed/communicator.h"
#include "framework/distributed/peers.h"

namespace taper::v0::distributed {

enum class CollectiveKind : uint8_t {
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kAllToAll,
  kBroadcast
};

// One buffer of a collective. The operation is in place if `in` is `out`.
struct Part {
  Tensor out, in;
  int root = 0;
};

class Backend;

// Describes a collective for messages. It is small and holds no tensor, because one is kept for
// every running call.
struct CollectiveCall {
  CollectiveKind kind = {};
  ReduceOp op = ReduceOp::kSum;
  DType dtype = {};  // shape, dtype and root of the first part
  Shape shape = {};
  int root = 0;
  SourceLocation site = {};
  const Backend* ranks = nullptr;  // null: the message is `what` alone
  std::string what = {};           // replaces the text before the site
};
// Returns for example "all_reduce(sum) of float32 [3, 4] at net.cpp:12 on rank 0 (node-7)".
std::string to_string(const CollectiveCall& call);

struct Collective : CollectiveCall {
  std::vector<Part> parts;  // one part, except that a broadcast may have any number
  bool async_op = false;
};

class Backend {
 public:
  virtual ~Backend() { peers->leave(); }
  virtual std::unique_ptr<Work::Pending> start(Collective call) = 0;
  // Returns the text `mine` of every rank, in order of ranks. All texts have the same length. Waits
  // for the other ranks. `text` describes the call in errors.
  virtual std::vector<std::string> exchange(const std::string& mine, const std::string& text) = 0;
  virtual std::shared_ptr<Backend> split(int color, int key) = 0;
  // Throws RankError if an asynchronous failure has not been reported yet.
  virtual void check() {}
  // Returns whether ranks compare their next call before they execute it.
  virtual bool compares() const { return checked; }

  int rank = 0, size = 1;
  Device device;
  CommunicatorOptions options;
  bool checked = false;
  std::shared_ptr<Peers> peers = std::make_shared<Peers>();

  std::string name_of(int r) const { return peers->name_of(r); }
  // Exchanges host and process with all ranks.
  void meet();
  int local_rank() const;
};

// Returns whether environment variables give this process's rank. Returns false if an MPI launcher
// started it.
bool by_environment();
// The rank and size that RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT give. The
// address is that of rank 0 and serves as NCCL_COMM_ID. Throws Error if a variable is missing or
// invalid.
struct Launched {
  int rank, size, local_rank;
  std::string address;
};
Launched launched_rank();

// Loads the MPI plugin on the first call. Throws Error that names what is missing.
std::shared_ptr<Backend> mpi_world(const CommunicatorOptions& options);
std::string mpi_unavailable_reason();
// Terminates all processes of the job if MPI has been initialized.
void abort_mpi(int exit_code);

#ifdef TAPER_WITH_NCCL
inline constexpr bool kHasNccl = true;
#else
inline constexpr bool kHasNccl = false;
#endif
// Connects the ranks of the job through NCCL. The number and order of the ranks come from MPI, or
// from the environment if `mpi` is null.
std::shared_ptr<Backend> nccl_world(Device device, const CommunicatorOptions& options,
                                    const std::shared_ptr<Backend>& mpi);
std::string nccl_unavailable_reason();

}  // namespace taper::v0::distributed
