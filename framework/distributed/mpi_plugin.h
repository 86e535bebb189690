// What taper_mpi.so gives. MPIs share no ABI, so the plugin alone is built against the one that is
// there; it needs no object of Taper's library.
#pragma once

#include <cstddef>
#include <memory>

#include "framework/distributed/backend.h"

namespace taper::v0::distributed {

// One of MPI's communicators. Functions throw Error with MPI's words; none of them waits for other
// ranks but split(). A request is null, or to be given to test() until that is true.
class MpiRanks {
 public:
  struct Request;

  virtual ~MpiRanks() = default;
  virtual int rank() = 0;
  virtual int size() = 0;
  virtual std::unique_ptr<MpiRanks> split(int color, int key) = 0;
  // `count` elements of a rank's part; an average is a sum.
  virtual Request* start(Kind kind, ReduceOp op, DType dtype, const void* in, void* out,
                         size_t count, int root) = 0;
  virtual Request* send(const std::string& bytes, int to) = 0;
  virtual Request* receive(std::string& bytes, int from) = 0;
  virtual bool test(Request* request) = 0;
};

struct MpiPlugin {
  static constexpr int kVersion = 2;
  static constexpr const char* kSymbol = "taper_mpi_plugin";

  int version;
  // MPI_COMM_WORLD, after MPI_Init_thread unless the program has called that, which then ends MPI,
  // too. Needs MPI_THREAD_SERIALIZED.
  MpiRanks* (*begin)();
  // MPI_Finalize, where begin() began it.
  void (*end)();
  void (*abort)(int exit_code);
};

}  // namespace taper::v0::distributed
