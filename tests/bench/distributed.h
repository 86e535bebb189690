// Training steps and collectives on several ranks, each a process of its own. The program that
// starts them (tests/bench/distributed.py) controls them with lines of text:
//
//   rank 0 prints      {"at":"communicator"}         once all ranks have connected
//                      {"ready":NAME,"ranks":2,...}  when it is warmed up
//   all ranks read     go                            to run one repeat of every variant, in turn;
//                                                    a training first runs for seconds
//   rank 0 prints      {"us":{"step":...,...}}       microseconds per call on the slowest rank
//   all ranks read     anything else                 to end
//
// Each rank reads its own stdin, because a rank that waits in an NCCL collective keeps its GPU
// busy. mpirun passes stdin only to rank 0, which then forwards the lines to the others.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "framework/distributed/communicator.h"
#include "modules/module.h"
#include "optim/optimizer.h"
#include "tests/bench/bench.h"

namespace taper::v0::bench {

class Ranks {
 public:
  // Uses the ranks of the launcher, on GPUs if there are any. Without a launcher, this process is
  // the only rank.
  explicit Ranks(const BenchOptions& options);

  Device device() const { return device_; }

  using Loss = std::function<Tensor(const std::vector<Tensor>& batch)>;
  // Times a training in several variants, each a CUDA graph on a GPU. "step" is the whole step. On
  // several ranks, "no_sync" is the step without communication. "optimizer" is the optimizer alone,
  // and "reduce" the collectives of a step alone. With options.sharded or options.shards only
  // "step" is timed.
  void training(const std::string& name, Module& net, optim::Optimizer& optimizer, double items,
                std::vector<Tensor> batch, const Loss& loss_of) const;

  // Times the variants "all_reduce 1024" and so on, in float32. Sizes go up to most_bytes, the sum
  // over all ranks' parts. With options.direct, NCCL is called directly.
  void collectives(int64_t most_bytes) const;

 private:
  struct Variant {
    std::string name;
    std::function<void()> call;
    double seconds = 0.15;            // of one repeat
    double warm_up = 0;               // before it, until the GPU clock is steady
    int64_t calls = 3, settling = 0;  // of both, adjusted after each repeat
  };
  int rank() const { return world_ ? world_->rank() : 0; }
  int size() const { return world_ ? world_->size() : 1; }
  void say(const std::string& line) const;
  std::string word() const;
  // Returns the maximum over all ranks, and synchronizes them.
  double largest(double x) const;
  double mean(double x) const;
  void measure(const std::string& ready, std::vector<Variant> variants) const;

  BenchOptions options_;
  Device device_;
  std::optional<distributed::Communicator> world_, words_;
};

}  // namespace taper::v0::bench
