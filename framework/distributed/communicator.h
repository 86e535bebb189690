// Ranks, one process each, that work together (https://pytorch.org/docs/stable/distributed.html):
// collectives on CPU tensors by MPI, on CUDA tensors by NCCL. Both are loaded at first use.
//
//   const auto world = distributed::Communicator::world("cpu");   // under mpirun -n 4
//   world.all_reduce(grad, distributed::ReduceOp::kAvg).wait();
//
// All ranks of a communicator must call the same collectives in the same order, with tensors of the
// same shapes and dtypes. If calls are checked (CommunicatorOptions::checked) and two of them
// differ, every rank throws Error that names both, and no data are exchanged. If a rank does not
// call a collective within the timeout, the others throw RankError that names it, and the
// communicator can no longer be used.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "framework/base/text_enum.h"
#include "framework/tensor/tensor.h"

namespace taper::v0::distributed {

// How elements are combined. For bools, sum and max are "or" and min is "and". avg requires
// floating-point tensors.
struct ReduceOpValues {
  enum class Value : uint8_t { kSum, kMax, kMin, kAvg };
  static constexpr Value kSum = Value::kSum, kMax = Value::kMax, kMin = Value::kMin,
                         kAvg = Value::kAvg;
  static constexpr const char* kOption = "op";
  static constexpr const char* kWords[] = {"sum", "max", "min", "avg"};
};
using ReduceOp = TextEnum<ReduceOpValues>;

// The source location of a call. It replaces std::source_location, which clang 14 lacks.
// `file` must have static lifetime.
struct SourceLocation {
  const char* file;
  int line;
  static constexpr SourceLocation current(const char* file = __builtin_FILE(),
                                          int line = __builtin_LINE()) {
    return {file, line};
  }
};

// Reports that a rank has ended, hangs or cannot be reached, or that the connection failed.
struct RankError : Error {
  explicit RankError(const std::string& message, int lost = -1) : Error(message), rank(lost) {}
  int rank;  // rank in the communicator; -1 if several ranks failed or the rank is unknown
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

  Work() = default;  // a completed operation
  explicit Work(std::unique_ptr<Pending> pending);
  ~Work();
  Work(Work&&) = default;
  Work& operator=(Work&& other) noexcept {
    std::swap(pending_, other.pending_);
    return *this;
  }
  // Waits for the collective. With MPI, blocks until the results are available. With NCCL, makes
  // the current stream wait and returns immediately. Throws RankError if the collective failed.
  void wait();
  bool done() { return !pending_ || pending_->done(); }

 private:
  std::unique_ptr<Pending> pending_;
};

struct CommunicatorOptions {
  double timeout = 600;  // seconds after which an unfinished collective is an error; 0: unlimited
  // Whether ranks compare their calls before they execute them. By default MPI compares. NCCL,
  // where comparing is expensive, compares only if the environment has TAPER_CHECK_COLLECTIVES=1.
  std::optional<bool> checked = std::nullopt;
};

class Backend;

// A handle to a group of ranks; copies refer to the same group. Use it from one thread at a time.
class Communicator {
 public:
  // Returns the communicator of all ranks of the job. On the CPU these are MPI's ranks, as mpirun
  // or srun started them. On "cuda" NCCL connects them, and each rank uses the GPU whose number is
  // its local rank. With launchers other than MPI's, the environment variables RANK, WORLD_SIZE,
  // LOCAL_RANK, MASTER_ADDR and MASTER_PORT give the ranks. Throws Error that names everything that
  // is missing and what to install.
  static Communicator world(Device device = DeviceType::kCpu,
                            const CommunicatorOptions& options = {});
  // Returns a communicator of this process alone. It needs neither MPI nor NCCL; collectives are
  // copies.
  static Communicator alone(Device device = DeviceType::kCpu);
  // Returns why world(device) would throw before it contacts other ranks; empty if it would not.
  static std::string unavailable_reason(Device device = DeviceType::kCpu);
  // Returns whether a launcher started this process as one of several.
  static bool is_launched();

  // Terminates all ranks of the job immediately; this rank ends with `exit_code`. Use it on a rank
  // that cannot continue.
  [[noreturn]] static void abort(int exit_code);

  int rank() const;
  int size() const;
  int local_rank() const;  // among the ranks of this host
  Device device() const;   // the device of its tensors
  // Returns for example "rank 1 (node-7)", for messages.
  std::string name_of(int rank) const;
  // Returns a communicator of the ranks that pass the same color, ordered by key, then by rank in
  // this communicator. All ranks must call it.
  Communicator split(int color, int key = 0, SourceLocation site = SourceLocation::current()) const;

  // Reduces x over all ranks, in place. For this and all following collectives: tensors must be
  // contiguous and on device(). If async_op is true, NCCL runs concurrently with the current stream
  // until wait(). Otherwise it runs in the order of the current stream, which is faster if the
  // result is needed at once. MPI always runs in the background.
  [[nodiscard]] Work all_reduce(const Tensor& x, ReduceOp op = ReduceOp::kSum,
                                BoolArg async_op = false,
                                SourceLocation site = SourceLocation::current()) const;
  // Reduces many tensors of one dtype, which must not share memory.
  [[nodiscard]] Work all_reduce(const std::vector<Tensor>& xs, ReduceOp op = ReduceOp::kSum,
                                BoolArg async_op = false,
                                SourceLocation site = SourceLocation::current()) const;
  // Reduces `in` over all ranks and stores part rank() of the result, out of size() equal parts, in
  // `out`.
  [[nodiscard]] Work reduce_scatter(const Tensor& out, const Tensor& in,
                                    ReduceOp op = ReduceOp::kSum, BoolArg async_op = false,
                                    SourceLocation site = SourceLocation::current()) const;
  // Concatenates the tensors `in` of all ranks, in order of ranks, and stores the result in `out`.
  [[nodiscard]] Work all_gather(const Tensor& out, const Tensor& in, BoolArg async_op = false,
                                SourceLocation site = SourceLocation::current()) const;
  // Splits `in` into size() equal parts and sends part r to rank r. Part r of `out` comes from rank
  // r.
  [[nodiscard]] Work all_to_all(const Tensor& out, const Tensor& in, BoolArg async_op = false,
                                SourceLocation site = SourceLocation::current()) const;
  // Copies the root's x to all ranks.
  [[nodiscard]] Work broadcast(const Tensor& x, IntArg root = 0, BoolArg async_op = false,
                               SourceLocation site = SourceLocation::current()) const;
  // Broadcasts many tensors, each from its own root.
  [[nodiscard]] Work broadcast(const std::vector<Tensor>& xs, const std::vector<int>& roots,
                               BoolArg async_op = false,
                               SourceLocation site = SourceLocation::current()) const;
  // Broadcasts tensors of any layout. Waits for the result.
  void broadcast_strided(const std::vector<Tensor>& xs, const std::vector<int>& roots,
                         SourceLocation site = SourceLocation::current()) const;
  // Returns the root's CPU tensors on all ranks. The other ranks need not know their names or
  // shapes. Waits.
  std::vector<NamedTensor> broadcast_named(const std::vector<NamedTensor>& given, IntArg root = 0,
                                           SourceLocation site = SourceLocation::current()) const;
  // Returns when all ranks have called it and, with GPUs, when their current streams have reached
  // it.
  void barrier(SourceLocation site = SourceLocation::current()) const;
  // Returns the texts that all ranks pass, in the order of the ranks. They may differ in length.
  // Waits.
  std::vector<std::string> all_gather_text(const std::string& text,
                                           SourceLocation site = SourceLocation::current()) const;
  // Throws RankError if a collective has failed since the last check: an NCCL collective that no
  // host waited for, or one in a replayed CUDA graph. Does not wait.
  void check() const;

 private:
  explicit Communicator(std::shared_ptr<Backend> backend) : backend_(std::move(backend)) {}

  std::shared_ptr<Backend> backend_;
};

}  // namespace taper::v0::distributed
