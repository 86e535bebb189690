// Measures and prints times.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "modules/module.h"
#include "optim/optimizer.h"
#include "tests/bench/bench.h"
#include "tests/bench/distributed.h"

namespace taper::v0::bench {

// Returns the average seconds per call.
double seconds_of(int64_t calls, const Device& device, const std::function<void()>& call);
// Loads the model's parameters and the batch from a file, in place of random ones.
void start_from(const std::string& path, Module& net, std::vector<Tensor>& batch);

// The work of one call. A rate is printed for each amount that is not 0.
struct Work {
  double bytes = 0, flops = 0, items = 0;
};

class Bench {
 public:
  explicit Bench(const BenchOptions& options);

  // Returns a GPU if there is one; with several ranks, each rank has its own.
  Device device() const;

  // Times a call, unless BenchOptions::only excludes it. If it repeats something `calls` times
  // internally, the time of one repetition is reported.
  void op(const std::string& name, Device device, Work work, const std::function<void()>& call,
          int calls = 1) const;

  using Loss = std::function<Tensor(const std::vector<Tensor>& batch)>;
  // Times a training step in eager mode and, on a GPU, as a graph. Uses autocast if a half type is
  // given.
  void training(const std::string& name, Module& net, optim::Optimizer& optimizer,
                std::optional<DType> half, double items, std::vector<Tensor> batch,
                const Loss& loss_of) const;
  void collectives(int64_t most_bytes) const;

 private:
  struct Item {
    std::string name, mode;
    Device device;
    Work work;
    int calls = 1;
    std::vector<double> losses;
  };
  void measure(const Item& item, const std::function<void()>& call) const;
  void report(const Item& item, std::vector<double> seconds) const;
  bool wants(const char* mode) const { return options_.mode.empty() || options_.mode == mode; }

  BenchOptions options_;
  std::optional<Ranks> ranks_;
};

// Times each implementation of attention on a GPU separately (attention.cpp).
void attention(const Bench& bench);

}  // namespace taper::v0::bench
