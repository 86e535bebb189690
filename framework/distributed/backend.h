// What MPI and NCCL each do for a Communicator, which has checked the arguments.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "framework/distributed/communicator.h"
#include "framework/distributed/peers.h"

namespace taper::v0::distributed {

enum class Kind : uint8_t { all_reduce, reduce_scatter, all_gather, all_to_all, broadcast };

// In place where `in` is `out`.
struct Part {
  Tensor out, in;
  int root = 0;
};

class Backend;

// What messages tell of a collective: as little as can be kept of every one. It holds no tensor.
struct Call {
  Kind kind = {};
  ReduceOp op = {};
  DType dtype = {};  // of the first part, as shape and root
  Shape shape = {};
  int root = 0;
  Site site = {};
  const Backend* ranks = nullptr;  // none: `what` is all
  std::string what = {};           // in place of what stands before the site
};
// "all_reduce(sum) of float32 [3, 4] at net.cpp:12 on rank 0 (node-7)".
std::string to_string(const Call& call);

struct Collective : Call {
  std::vector<Part> parts;  // one; of a broadcast any number
  bool async_op = false;
};

class Backend {
 public:
  virtual ~Backend() { peers->leave(); }
  virtual std::unique_ptr<Work::Pending> start(Collective call) = 0;
  // `mine` of every rank, in order; all of one length. Waits; `text` is for errors.
  virtual std::vector<std::string> exchange(const std::string& mine, const std::string& text) = 0;
  virtual std::shared_ptr<Backend> split(int color, int key) = 0;
  // Throws RankError if an asynchronous failure has not been reported yet.
  virtual void check() {}
  // Whether ranks compare their next call.
  virtual bool compares() const { return checked; }

  int rank = 0, size = 1;
  Device device;
  CommunicatorOptions options;
  bool checked = false;
  std::shared_ptr<Peers> peers = std::make_shared<Peers>();

  std::string name_of(int r) const { return peers->name_of(r); }
  // Asks every rank for its host and process.
  void meet();
  int local_rank() const;
};

// Whether variables name this process's rank, and no launcher of MPI's started it.
bool by_environment();
// A rank as RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT name it; the address is of
// rank 0, NCCL's NCCL_COMM_ID. Throws Error where one is missing or cannot be.
struct Launched {
  int rank, size, local_rank;
  std::string address;
};
Launched launched_rank();

// Loads the plugin of MPI, once. Throws Error saying what is missing.
std::shared_ptr<Backend> mpi_world(const CommunicatorOptions& options);
std::string mpi_unavailable_reason();
// Ends all processes of the job, where MPI has begun.
void abort_mpi(int exit_code);

#ifdef TAPER_WITH_NCCL
inline constexpr bool kHasNccl = true;
#else
inline constexpr bool kHasNccl = false;
#endif
// A job's ranks as NCCL gets them: through MPI, or from the environment where `mpi` is null.
std::shared_ptr<Backend> nccl_world(Device device, const CommunicatorOptions& options,
                                    const std::shared_ptr<Backend>& mpi);
std::string nccl_unavailable_reason();

}  // namespace taper::v0::distributed
