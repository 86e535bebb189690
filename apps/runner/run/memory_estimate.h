// Estimates the memory that a run takes on its device, and measures it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "apps/runner/settings/run_config.h"
#include "framework/base/device.h"
#include "framework/distributed/communicator.h"
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

// The memory of a run, by part (parameters, gradients, ...).
struct MemoryEstimate {
  std::vector<Device> devices;
  std::string lines{};  // one for each part: name, MiB, note, MiB on each of several devices
  DeviceBytes sum{std::vector<int64_t>(devices.size())};

  void add(const char* name, const DeviceBytes& bytes, const std::string& note = "");
};

// Returns an estimate of the bytes that a run allocates on the device of each rank, or on all
// devices of model.placement. holds_data: the samples are stored on the device, too. The estimate
// is computed on the CPU from two small steps. The default generator is not changed.
int64_t estimate_memory(const RunConfig& config, const data::Splits& data, bool holds_data,
                        const distributed::Communicator& ranks);

// Returns the memory section of `taper train --validate`: a line for each part on the config's
// devices, with the evaluation batch size that a run would choose there. The model must be on the
// CPU.
std::string describe_memory(RunConfig config, const data::Splits& data, Module& model,
                            int64_t ranks);

// Returns the largest batch size for evaluations, a power of two up to 1024, at which an evaluation
// and the state of the run take at most half of the device's memory on one rank. The result does
// not depend on the number of ranks. The model must be on the CPU. total() returns the size of the
// memory. It is called only if more than 1 GiB may be needed.
int64_t fitting_eval_batch_size(const RunConfig& config, const DataInfo& info, Module& model,
                                bool on_gpu, const std::function<int64_t()>& total);
// Returns the batch size of evaluations. It is train.eval_batch_size if the config sets that,
// otherwise eval_batch_size_of() for text, and fitting_eval_batch_size() for other data. It depends
// on the device's total memory, but not on how much of that is free, so that all runs of a config
// choose the same size.
int64_t choose_eval_batch_size(const RunConfig& config, const DataInfo& info,
                               const distributed::Communicator& ranks);

// Returns the devices without the CPU devices after the first one, which share its memory.
std::vector<Device> distinct_memories(const std::vector<Device>& devices);
// Returns the peak number of bytes that tensors on the device have used since reset_peak_memory().
// The number of a CPU device includes all of them.
int64_t peak_memory(Device device);
void reset_peak_memory(Device device);

}  // namespace taper::v0::runner
