// Data parallel training of any module (PyTorch: DistributedDataParallel,
// https://pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html). Each
// rank runs forward and backward with its own part of the batch; gradients are joined over all
// ranks while the backward pass goes on.
//
//   DataParallel parallel(net, world);  // rank 0's weights and buffers on all ranks
//   for (...) {
//     optimizer.zero_grad();
//     cross_entropy(net(x), y).backward();
//     optimizer.step();                 // the same on all ranks
//   }
//
// The module is called as ever, and keeps its names. Equal gradients make clipping, loss scales and
// averages of weights equal on all ranks by themselves.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "framework/distributed/communicator.h"
#include "modules/module.h"

namespace taper::v0 {

// fastest: averages of all ranks' gradients, in the order that is fastest for so many ranks.
// tree: sums, for a caller that weights its losses, with the same bits for any number of ranks. A
// step's batch is cut into parts, `shards` of them; a rank's are the leaves rank * shards / size()
// and so on, each with a backward pass of its own, all but the last in a no_sync() scope. Leaves 2i
// and 2i + 1 are added, then these sums two by two, and so on. Gradients are dropped before a step.
enum class ReduceOrder : uint8_t { fastest, tree };

struct DataParallelOptions {
  // Gradients that are reduced together; the first has a 25th. Those of 1 MiB and more are so where
  // they lie, but for a tree or another dtype.
  int64_t bucket_bytes = 25 << 20;
  // float32 or bfloat16, in which gradients travel; none, and for float64: their own dtype.
  std::optional<DType> reduce_dtype = std::nullopt;
  // A parameter may go without a gradient, which then counts as 0; finish() follows each backward.
  bool allow_unused = false;
  ReduceOrder order = ReduceOrder::fastest;
  int shards = 0;  // of a tree: a power of two and a multiple of the ranks; 0: one a rank
};

class DataParallel {
 public:
  // The parameters that require grad now are reduced; they are on the ranks' device. Throws Error
  // on all ranks where parameters or buffers differ in name, shape or dtype, saying which;
  // ValueError for shards that are not as said above.
  DataParallel(Module& module, distributed::Communicator ranks, DataParallelOptions options = {});
  // The hooks go.
  ~DataParallel();
  DataParallel& operator=(DataParallel&&) = delete;  // neither copied nor moved

  // Until the end of the scope gradients stay this rank's own and add up; the next backward pass
  // after it averages the sums. In a tree: this leaf is not the rank's last.
  class NoSync {
   public:
    explicit NoSync(DataParallel& parallel) : parallel_(parallel) { parallel.syncs_ = false; }
    ~NoSync() { parallel_.syncs_ = true; }
    NoSync& operator=(NoSync&&) = delete;  // neither copied nor moved

   private:
    DataParallel& parallel_;
  };
  [[nodiscard]] NoSync no_sync() { return NoSync(*this); }

  // Ends the reduction of a backward pass that did not reach all parameters; else there is nothing
  // to do. Throws Error naming those without a gradient, unless allow_unused. The next forward
  // does so, too.
  void finish();
  // In place of a backward pass, for a rank whose part of the batch is empty: zeros are its part.
  void skip_leaf();
  // Rank 0's buffers (running statistics) on all ranks: before a checkpoint or an evaluation.
  void broadcast_buffers();
  // Bytes of the gradients that travel together, in the order in which they do.
  std::vector<int64_t> bucket_bytes() const;

 private:
  struct Slot;
  // Parameters in the order in which their gradients come.
  struct Bucket;

  bool in_tree() const { return options_.order == ReduceOrder::tree; }
  bool is_last_leaf() const { return leaf_ + 1 == leaves_; }
  void broadcast(const std::vector<Tensor>& tensors);
  void make_buckets();
  void add_bucket(const std::vector<size_t>& slots);
  void on_gradient(size_t slot);
  void copy(const std::vector<Tensor>& to, const std::vector<Tensor>& from) const;
  Tensor flat_grad(const Slot& slot) const;
  static bool keeps_view(const Slot& slot);
  void reduce(size_t number);
  void join_ranks(size_t number);
  void join_parts(Bucket& bucket);
  void reduce_ready();
  std::string unused() const;

  Module& module_;
  distributed::Communicator ranks_;
  DataParallelOptions options_;
  Tensor zero_;  // 0-dim int64
  std::vector<Slot> slots_;
  std::vector<Bucket> buckets_;
  std::vector<HookHandle> hooks_;  // of the slots
  size_t next_ = 0;                // the first bucket that is not on its way
  int leaf_ = 0, leaves_ = 1;
  bool syncs_ = true;
  ModuleHookHandle forward_hook_;
};

}  // namespace taper::v0
