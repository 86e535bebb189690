// Data parallel training of any module (PyTorch: DistributedDataParallel,
// https://pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html). Each
// rank runs forward and backward with its own part of the batch; gradients are averaged over all
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

#include <optional>
#include <string>
#include <vector>

#include "autograd/hooks.h"
#include "framework/distributed/communicator.h"
#include "modules/module.h"

namespace taper {

struct DataParallelOptions {
  int64_t bucket_bytes = 25 << 20;  // gradients that are reduced together; the first has a 25th
  // float32 or bfloat16, in which gradients travel; none, and for float64: their own dtype.
  std::optional<DType> reduce_dtype = std::nullopt;
  // A parameter may go without a gradient, which then counts as 0; finish() follows each backward.
  bool allow_unused = false;
};

class DataParallel {
 public:
  // The parameters that require grad now are reduced; they are on the ranks' device. Throws Error
  // on all ranks where parameters or buffers differ in name, shape or dtype, saying which.
  DataParallel(Module& module, distributed::Communicator ranks, DataParallelOptions options = {});
  // The hooks go.
  ~DataParallel();
  DataParallel(const DataParallel&) = delete;
  DataParallel& operator=(const DataParallel&) = delete;

  // Until the end of the scope gradients stay this rank's own and add up; the next backward pass
  // after it averages the sums.
  class NoSync {
   public:
    explicit NoSync(DataParallel& parallel) : parallel_(parallel) { parallel.syncs_ = false; }
    ~NoSync() { parallel_.syncs_ = true; }
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;

   private:
    DataParallel& parallel_;
  };
  [[nodiscard]] NoSync no_sync() { return NoSync(*this); }

  // Ends the reduction of a backward pass that did not reach all parameters; else there is nothing
  // to do. Throws Error naming those without a gradient, unless allow_unused. The next forward
  // does so, too.
  void finish();
  // Rank 0's buffers (running statistics) on all ranks: before a checkpoint or an evaluation.
  void broadcast_buffers();

 private:
  struct Slot {
    NamedTensor param;
    size_t bucket;
    Tensor view;  // of the bucket, in the parameter's shape and memory order
    bool ready = false;
  };
  // Parameters in the order in which their gradients come.
  struct Bucket {
    Tensor flat;
    std::vector<size_t> slots;
    size_t ready = 0;
    distributed::Work work;
  };

  void broadcast(const std::vector<Tensor>& tensors);
  void make_buckets();
  void add_bucket(const std::vector<size_t>& slots, int64_t numel);
  void on_gradient(size_t slot);
  void copy(const std::vector<Tensor>& to, const std::vector<Tensor>& from) const;
  void reduce(Bucket& bucket);
  void reduce_ready();
  std::string unused() const;

  Module& module_;
  distributed::Communicator ranks_;
  DataParallelOptions options_;
  Tensor zero_;  // 0-dim int64
  std::vector<Slot> slots_;
  std::vector<Bucket> buckets_;
  size_t next_ = 0;  // the first bucket that is not on its way
  bool syncs_ = true;
  std::vector<HookHandle> hooks_;
  ModuleHookHandle forward_hook_;
};

}  // namespace taper
