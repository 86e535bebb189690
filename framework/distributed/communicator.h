// Ranks, one process each, that work together (https://pytorch.org/docs/stable/distributed.html):
// collectives on CPU tensors by MPI, on CUDA tensors by NCCL. Both are loaded at first use.
//
//   const auto world = distributed::Communicator::world("cpu");   // under mpirun -n 4
//   world.all_reduce(grad, distributed::ReduceOp::avg).wait();
//
// All ranks of a communicator call the same collectives in the same order, with tensors of the same
// shapes and dtypes. Where that is checked, another call is an Error on every rank, which names
// both calls, and nothing has happened. A rank that does not come within the timeout is named in a
// RankError, and the communicator is of no use afterwards.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "framework/memory/pointers.h"
#include "framework/tensor/tensor.h"

namespace taper::v0::distributed {

// Of bools: sum and max are "or", min is "and". avg is for floating tensors.
enum class ReduceOp : uint8_t { sum, max, min, avg };

// Where a call stands, as std::source_location, which clang 14 does not have; `file` stays.
struct Site {
  const char* file;
  int line;
  static constexpr Site current(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
};

// A rank has ended, hangs or cannot be reached; or something between the ranks is broken.
struct RankError : Error {
  explicit RankError(const std::string& message, int lost = -1) : Error(message), rank(lost) {}
  int rank;  // of the communicator; -1: more than one, or nobody knows
};

// A collective that runs in the background. Keeps its tensors alive. Do not write inputs or read
// outputs before wait(). The destructor waits.
class Work {
 public:
  struct Pending {
    virtual ~Pending() = default;
    virtual bool done() = 0;
    virtual void wait() = 0;
  };

  Work() = default;  // nothing to wait for
  explicit Work(Owned<Pending> pending);
  ~Work();
  Work(Work&&) = default;
  Work& operator=(Work&& other) noexcept {
    std::swap(pending_, other.pending_);
    return *this;
  }
  // MPI: until the results are there. NCCL: makes the current stream wait; the host goes on.
  // Throws RankError for a collective that failed.
  void wait();
  bool done() { return !pending_ || pending_->done(); }

 private:
  Owned<Pending> pending_;
};

struct CommunicatorOptions {
  double timeout = 600;  // seconds until a collective that does not end is an error; 0: never
  // Whether ranks compare their calls first. None: MPI does; NCCL, where it costs much, with
  // TAPER_CHECK_COLLECTIVES=1 in the environment.
  std::optional<bool> checked = std::nullopt;
};

class Backend;

// A handle; copies are the same communicator. One thread at a time calls it.
class Communicator {
 public:
  // All ranks of the job. On the CPU: MPI's, as mpirun or srun started them. On "cuda": NCCL, each
  // rank on the GPU of its number on its host; ranks are MPI's or, for other launchers, those of
  // RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT in the environment. Throws Error,
  // naming all that is missing and what to install.
  static Communicator world(Device device = DeviceType::cpu,
                            const CommunicatorOptions& options = {});
  // One rank by itself, which needs neither MPI nor NCCL: collectives are copies.
  static Communicator alone(Device device = DeviceType::cpu);
  // Why world(device) would throw before any rank is asked; empty when it would not.
  static std::string unavailable_reason(Device device = DeviceType::cpu);
  // Whether a launcher started this process as one of several.
  static bool is_launched();

  // Ends all ranks of the job at once, this one with that code: for a rank that cannot go on.
  [[noreturn]] static void abort(int exit_code);

  int rank() const;
  int size() const;
  int local_rank() const;  // among the ranks of this host
  Device device() const;   // where its tensors are
  // "rank 1 (node-7)": for messages.
  std::string name_of(int rank) const;
  // The ranks that give the same colour, ordered by key, then by rank here. All ranks call it.
  Communicator split(int color, int key = 0, Site site = Site::current()) const;

  // In all of these tensors are contiguous and on device(). With async_op NCCL works beside the
  // current stream until wait(), else in its order: faster for what is waited for at once. MPI
  // works in the background either way.
  [[nodiscard]] Work all_reduce(const Tensor& x, ReduceOp op = ReduceOp::sum,
                                BoolArg async_op = false, Site site = Site::current()) const;
  // The same of many tensors of one dtype, none of them twice.
  [[nodiscard]] Work all_reduce(const std::vector<Tensor>& xs, ReduceOp op = ReduceOp::sum,
                                BoolArg async_op = false, Site site = Site::current()) const;
  // `out` is part rank() of `in`, of size() equal parts, reduced.
  [[nodiscard]] Work reduce_scatter(const Tensor& out, const Tensor& in,
                                    ReduceOp op = ReduceOp::sum, BoolArg async_op = false,
                                    Site site = Site::current()) const;
  // `out` is `in` of all ranks, in order.
  [[nodiscard]] Work all_gather(const Tensor& out, const Tensor& in, BoolArg async_op = false,
                                Site site = Site::current()) const;
  // Part r of `out` is part rank() of rank r's `in`, of size() equal parts.
  [[nodiscard]] Work all_to_all(const Tensor& out, const Tensor& in, BoolArg async_op = false,
                                Site site = Site::current()) const;
  // x becomes the root's.
  [[nodiscard]] Work broadcast(const Tensor& x, IntArg root = 0, BoolArg async_op = false,
                               Site site = Site::current()) const;
  // The same of many tensors, each from its own root.
  [[nodiscard]] Work broadcast(const std::vector<Tensor>& xs, const std::vector<int>& roots,
                               BoolArg async_op = false, Site site = Site::current()) const;
  // The same in any order of memory; waits.
  void broadcast_strided(const std::vector<Tensor>& xs, const std::vector<int>& roots,
                         Site site = Site::current()) const;
  // What the root gives, on all ranks, which need not know what it is: on the CPU; waits.
  std::vector<NamedTensor> broadcast_named(const std::vector<NamedTensor>& given, IntArg root = 0,
                                           Site site = Site::current()) const;
  // Returns when all ranks have called it (and their GPUs have come to it).
  void barrier(Site site = Site::current()) const;
  // A text of any length from every rank, in order.
  std::vector<std::string> all_gather_text(const std::string& text,
                                           Site site = Site::current()) const;
  // Throws RankError where a collective has failed since: one of NCCL's whose result nobody waited
  // for on the host, or one that a CUDA graph's replay made. Does not wait.
  void check() const;

 private:
  explicit Communicator(Shared<Backend> backend) : backend_(std::move(backend)) {}

  Shared<Backend> backend_;
};

}  // namespace taper::v0::distributed
