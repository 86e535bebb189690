// The devices of a run and the sizes of their memories.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/runner/settings/run_config.h"
#include "framework/base/device.h"

namespace taper::v0::runner {

// Returns the device of that name with its number: "cuda" is the first GPU.
Device numbered_device(const std::string& name);
// Returns the device on which a run of the config would begin here. Does not initialize CUDA, which
// takes longer than an estimate.
Device expected_device(const RunConfig& config);
// Returns whether this machine seems to have a GPU that the process may use. Does not initialize
// CUDA.
bool gpu_exists();
// Returns whether a value of CUDA_VISIBLE_DEVICES hides every GPU. CUDA uses the entries before the
// first one that names no GPU, so "" and "-1,0" do
// (https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#env-vars).
bool hides_every_gpu(const std::string& visible_devices);
// Returns the devices of a run: `own`, then the others of model.placement.
std::vector<Device> devices_of_run(const RunConfig& config, Device own);
bool has_gpu(const std::vector<Device>& devices);

// Returns the devices without the CPU devices after the first one, which share its memory.
std::vector<Device> distinct_memories(const std::vector<Device>& devices);
// Returns the size of a device's memory. That of the CPU is the machine's, or the limit of the
// control group or container of the process if that is smaller.
int64_t total_memory(Device device);
// Returns the size of the memory of all devices of a run.
int64_t memory_of_run(const RunConfig& config, Device own);

// Returns the peak number of bytes that tensors on the device have used since reset_peak_memory().
// The number of a CPU device includes all of them.
int64_t peak_memory(Device device);
void reset_peak_memory(Device device);

}  // namespace taper::v0::runner
