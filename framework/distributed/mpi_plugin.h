// The interface of taper_mpi.so. MPI implementations share no ABI, so only the plugin is compiled
// against the installed one. It needs no symbol of Taper's library.
#pragma once

#include <cstddef>
#include <memory>

#include "framework/distributed/backend.h"

namespace taper::v0::distributed {

// One MPI communicator. Functions throw Error with MPI's message. Only split() waits for other
// ranks. start(), send() and receive() return null if the operation is already complete; otherwise
// the caller passes the request to test() until test() returns true.
class MpiRanks {
 public:
  struct Request;

  virtual ~MpiRanks() = default;
  virtual int rank() = 0;
  virtual int size() = 0;
  virtual std::unique_ptr<MpiRanks> split(int color, int key) = 0;
  // Starts a collective over `count` elements of each rank's part. An average is computed as a sum.
  virtual Request* start(CollectiveKind kind, ReduceOp op, DType dtype, const void* in, void* out,
                         size_t count, int root) = 0;
  virtual Request* send(const std::string& bytes, int to) = 0;
  virtual Request* receive(std::string& bytes, int from) = 0;
  virtual bool test(Request* request) = 0;
};

struct MpiPlugin {
  static constexpr int kVersion = 2;
  static constexpr const char* kSymbol = "taper_mpi_plugin";

  int version;
  // Returns MPI_COMM_WORLD. Calls MPI_Init_thread unless the program has done so, in which case the
  // program also finalizes MPI. Requires MPI_THREAD_SERIALIZED.
  MpiRanks* (*begin)();
  // Calls MPI_Finalize if begin() initialized MPI.
  void (*end)();
  void (*abort)(int exit_code);
};

}  // namespace taper::v0::distributed
