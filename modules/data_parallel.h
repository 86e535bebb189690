// Data-parallel training of any module (PyTorch: DistributedDataParallel,
// https://pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html). Each
// rank runs forward and backward on its part of the batch. Gradients are reduced over all ranks
// during the backward pass.
//
//   DataParallel parallel(net, world);  // copies rank 0's weights and buffers to all ranks
//   for (...) {
//     optimizer.zero_grad();
//     cross_entropy(net(x), y).backward();
//     optimizer.step();                 // the same on all ranks
//   }
//
// The module is called as usual and keeps its parameter names. Because gradients are equal on all
// ranks, so are the results of clipping, loss scaling and weight averaging.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "framework/base/text_enum.h"
#include "framework/distributed/communicator.h"
#include "modules/module.h"

namespace taper::v0 {

// The order in which gradients are added.
//
// kFastest: gradients are averaged over all ranks, in the order that is fastest for this number of
// ranks.
//
// kTree: gradients are summed, for a caller that weights its losses. The bits are the same for any
// number of ranks. The batch of a step is split into `shards` parts, which are the leaves of a
// binary tree. Rank r processes the leaves from r * shards / size() on. It runs one backward pass
// per leaf, all but the last in a no_sync() scope. Leaves 2i and 2i + 1 are added, then these sums
// in pairs, and so on. Gradients must be cleared before each step.
struct ReduceOrderValues {
  enum class Value : uint8_t { kFastest, kTree };
  static constexpr Value kFastest = Value::kFastest, kTree = Value::kTree;
  static constexpr const char* kOption = "order";
  static constexpr const char* kWords[] = {"fastest", "tree"};
};
using ReduceOrder = TextEnum<ReduceOrderValues>;

struct DataParallelOptions {
  // The number of bytes of gradients that are reduced together. The first bucket has a 25th of
  // that. Gradients of 1 MiB or more are reduced in place, except in a tree or with another dtype.
  int64_t bucket_bytes = 25 << 20;
  // Dtype in which gradients are exchanged: float32 or bfloat16. If it is std::nullopt, and for all
  // float64 gradients, it is the gradient's own dtype. Averages of bfloat16 are computed in
  // float32.
  std::optional<DType> reduce_dtype = std::nullopt;
  // If true, a parameter may have no gradient, which then counts as 0. Call finish() after each
  // backward pass.
  bool allow_unused = false;
  ReduceOrder order = ReduceOrder::kFastest;
  // For ReduceOrder::kTree: the number of leaves, a power of two and a multiple of the number of
  // ranks. 0 means one leaf per rank.
  int shards = 0;
};

class DataParallel {
 public:
  // Reduces the gradients of the parameters that require grad at this time. They must be on the
  // ranks' device. Throws Error on all ranks, with the difference, if parameters or buffers differ
  // in name, shape or dtype. Throws ValueError for an invalid number of shards, and for a module
  // that is placed on several devices.
  DataParallel(Module& module, distributed::Communicator ranks, DataParallelOptions options = {});
  // Removes the hooks.
  ~DataParallel();
  DataParallel& operator=(DataParallel&&) = delete;  // neither copied nor moved

  // Until the end of the scope, gradients accumulate locally. The next backward pass after it
  // averages the sums. With ReduceOrder::kTree, the scope means that the current leaf is not the
  // last one of this rank.
  class NoSyncGuard {
   public:
    explicit NoSyncGuard(DataParallel& parallel) : parallel_(parallel) { parallel.syncs_ = false; }
    ~NoSyncGuard() { parallel_.syncs_ = true; }
    NoSyncGuard& operator=(NoSyncGuard&&) = delete;  // neither copied nor moved

   private:
    DataParallel& parallel_;
  };
  [[nodiscard]] NoSyncGuard no_sync() { return NoSyncGuard(*this); }

  // Completes the reduction after a backward pass that did not reach all parameters; otherwise it
  // has no effect. Throws Error with the names of the parameters that have no gradient, unless
  // allow_unused. The next forward pass calls it as well.
  void finish();
  // Call it instead of a backward pass if this rank's part of the batch is empty. The rank then
  // contributes zeros.
  void skip_leaf();
  // Copies rank 0's buffers (running statistics) to all ranks. Call it before a checkpoint or an
  // evaluation.
  void broadcast_buffers();
  // Returns the bytes of each bucket, in the order in which the buckets are reduced.
  std::vector<int64_t> bucket_bytes() const;

 private:
  struct Slot;
  // Parameters in the order in which the backward pass computes their gradients.
  struct Bucket;

  bool in_tree() const { return options_.order == ReduceOrder::kTree; }
  bool is_last_leaf() const { return leaf_ + 1 == leaves_; }
  void broadcast(const std::vector<Tensor>& tensors);
  void make_buckets();
  void add_bucket(const std::vector<size_t>& slots);
  void on_gradient(size_t slot);
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
  std::vector<Slot> slots_;
  std::vector<Bucket> buckets_;
  std::vector<HookHandle> hooks_;  // hooks of the slots
  size_t next_ = 0;                // the first bucket whose reduction has not started
  int leaf_ = 0, leaves_ = 1;
  bool syncs_ = true;
  ModuleHookHandle forward_hook_;
};

}  // namespace taper::v0
