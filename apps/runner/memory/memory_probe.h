// Measures the memory that the parts of a run take, with small batches on the CPU.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "apps/runner/components/components.h"
#include "apps/runner/settings/run_config.h"
#include "framework/base/device.h"
#include "modules/module.h"

namespace taper::v0::runner {

// A number of bytes for each device of a run. The run's own device is the first.
struct DeviceBytes {
  std::vector<int64_t> each;

  int64_t total() const;
  DeviceBytes operator+(const DeviceBytes& other) const;
  DeviceBytes operator-(const DeviceBytes& other) const;
  DeviceBytes operator*(int64_t factor) const;
  DeviceBytes operator/(int64_t divisor) const;
};
DeviceBytes nothing_on(size_t devices);
// Returns the larger number for each device.
DeviceBytes largest(DeviceBytes a, const DeviceBytes& b);

// Returns the bytes of the tensors whose names begin with the prefix. Estimates use CPU devices in
// place of the devices of the run: "cpu" for the first one, "cpu:1" for the second, and so on.
DeviceBytes tensor_bytes(size_t devices, const std::vector<NamedTensor>& tensors,
                         const std::string& prefix = "");
// Returns the bytes of the optimizer's state after a step. Takes a step with one parameter for each
// number of dimensions that occurs, because an optimizer treats parameters with the same number of
// dimensions in the same way. This changes the weights.
DeviceBytes state_bytes(const OptimizerConfig& config, Module& model, size_t devices);

// Measures the memory of small batches on the CPU. The memory after each op grows linearly with the
// batch, so that two small batches are enough to compute the memory of a large one.
class MemoryProbe {
 public:
  // devices: the number of devices of the model. The arguments must outlive the object.
  MemoryProbe(const RunConfig& config, const DataInfo& info, Module& model, size_t devices);

  // Returns the peak memory in bytes of a batch of `samples` samples, in training (a forward and a
  // backward pass) or in an evaluation. The small batches run once for each kind of pass.
  DeviceBytes peak(int64_t samples, bool trains, bool on_gpu);

 private:
  // The memory after each op on each device, of a batch of two samples and of one of four.
  using Allocations = std::vector<std::vector<int64_t>>;
  struct Measured {
    Allocations of_two, of_four;
  };
  // The number of samples, and for text the number of tokens in each sample (otherwise 0).
  struct BatchSize {
    int64_t samples, tokens;
  };

  const Measured& measured(int64_t text, bool trains, bool in_blocks);
  int64_t bytes_of_head(bool trains) const;
  bool uses_blocks(int64_t tokens, bool trains) const;
  std::pair<int64_t, int64_t> tokens_of_sample(bool on_gpu) const;
  Allocations run(BatchSize n, bool trains, bool in_blocks);

  const RunConfig& config_;
  const DataInfo& info_;
  Module& model_;
  const size_t devices_;
  const Loss loss_;
  std::map<std::pair<bool, bool>, Measured> measured_;  // by trains and in_blocks
};

}  // namespace taper::v0::runner
