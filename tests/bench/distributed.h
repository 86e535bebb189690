// Training steps and collectives on several ranks, each a process of its own. A program that starts
// them (tests/bench/distributed.py) has them wait and run by lines of text:
//
//   rank 0 says   {"at":"communicator"}             once all ranks have met
//                 {"ready":NAME,"ranks":2,...}      warmed up
//   all are told  go                                one repeat of every variant, in turn; a
//   training
//                                                   works for seconds first:
//   rank 0 says   {"us":{"step":...,...}}           microseconds a call on the slowest rank
//   all are told  anything else                     to end
//
// Each rank reads its own stdin, for a rank that waits in a collective of NCCL keeps its GPU busy;
// under mpirun, which gives stdin to rank 0 alone, that one passes it on.
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
  // The ranks of the launcher, on GPUs where there are any; this process alone without a launcher.
  explicit Ranks(const BenchOptions& options);

  Device device() const { return device_; }

  using Loss = std::function<Tensor(const std::vector<Tensor>& batch)>;
  // Variants, each a CUDA graph on a GPU: "step"; on several ranks "no_sync", the step without
  // communication; "optimizer" alone; "reduce", the step's collectives alone. With
  // options.sharded or options.shards the step only.
  void training(const std::string& name, Module& net, optim::Optimizer& optimizer, double items,
                std::vector<Tensor> batch, const Loss& loss_of) const;

  // Variants "all_reduce 1024" and so on, of float32, up to so many bytes, which are those of all
  // ranks' parts together. With options.direct NCCL is called directly.
  void collectives(int64_t most_bytes) const;

 private:
  struct Variant {
    std::string name;
    std::function<void()> call;
    double seconds = 0.15;            // of one repeat
    double settle = 4;                // before it, until a GPU has the clock that its power allows
    int64_t calls = 3, settling = 0;  // of both, adjusted after each repeat
  };
  int rank() const { return world_ ? world_->rank() : 0; }
  int size() const { return world_ ? world_->size() : 1; }
  void say(const std::string& line) const;
  std::string word() const;
  // The largest of all ranks'; they leave together.
  double largest(double x) const;
  double mean(double x) const;
  void measure(const std::string& ready, std::vector<Variant> variants) const;

  BenchOptions options_;
  Device device_;
  std::optional<distributed::Communicator> world_, words_;
};

}  // namespace taper::v0::bench
