#include "apps/runner/memory/run_devices.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <unistd.h>

#include "framework/cuda/cuda.h"
#include "framework/memory/cpu_allocator.h"
#include "framework/memory/cuda_memory.h"

namespace taper::v0::runner {
namespace {

namespace fs = std::filesystem;

// Returns the number in a file; INT64_MAX if there is none, as in a file with the word "max".
int64_t limit_in(const fs::path& file) {
  int64_t bytes = 0;
  return std::ifstream(file) >> bytes && bytes > 0 ? bytes : INT64_MAX;
}

// Returns the smallest limit of the process's control group and those that contain it.
int64_t control_group_limit() {
  const fs::path root = "/sys/fs/cgroup";
  int64_t limit = std::min(limit_in(root / "memory.max"),  // as a container sees it
                           limit_in(root / "memory" / "memory.limit_in_bytes"));
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    if (!line.starts_with("0::/")) continue;  // version 1 of control groups
    for (fs::path at = line.substr(4); !at.empty(); at = at.parent_path()) {
      limit = std::min(limit, limit_in(root / at / "memory.max"));
    }
  }
  return limit;
}

}  // namespace

Device numbered_device(const std::string& name) {
  const Device device(name);
  if (device.is_cuda()) return Device(DeviceType::kCuda, std::max(device.index(), 0));
  return device.index() > 0 ? device : Device();
}

bool gpu_exists() {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return kHasCuda && fs::exists("/dev/nvidiactl") && !(visible && hides_every_gpu(visible));
}

bool hides_every_gpu(const std::string& visible_devices) {
  const std::string first = visible_devices.substr(0, visible_devices.find(','));
  return first.empty() || !cuda::is_visible_devices(first);
}

Device expected_device(const RunConfig& config) {
  const std::string by_default = gpu_exists() ? "cuda" : "cpu";
  return numbered_device(config.device == "auto" ? by_default : config.device);
}

std::vector<Device> devices_of_run(const RunConfig& config, Device own) {
  std::vector<Device> out{own};
  for (const auto& [pattern, name] : config.model.placement) {
    if (std::ranges::count(out, numbered_device(name)) == 0) out.push_back(numbered_device(name));
  }
  return out;
}

bool has_gpu(const std::vector<Device>& devices) {
  return std::ranges::any_of(devices, [](Device device) { return device.is_cuda(); });
}

std::vector<Device> distinct_memories(const std::vector<Device>& devices) {
  std::vector<Device> out;
  for (const Device device : devices) {
    const bool is_known = device.is_cpu() && std::ranges::any_of(out, &Device::is_cpu);
    if (!is_known) out.push_back(device);
  }
  return out;
}

int64_t total_memory(Device device) {
  if (device.is_cuda()) return int64_t(cuda::get_device_properties(device.index()).total_memory);
  const int64_t machine = int64_t(sysconf(_SC_PHYS_PAGES)) * int64_t(sysconf(_SC_PAGESIZE));
  return std::min(machine, control_group_limit());
}

int64_t memory_of_run(const RunConfig& config, Device own) {
  int64_t total = 0;
  for (const Device device : distinct_memories(devices_of_run(config, own))) {
    total += total_memory(device);
  }
  return total;
}

int64_t peak_memory(Device device) {
  return int64_t(device.is_cuda() ? cuda::max_memory_allocated(device.index())
                                  : cpu::memory_stats().peak);
}
void reset_peak_memory(Device device) {
  if (device.is_cuda()) cuda::reset_peak_memory_stats(device.index());
  if (device.is_cpu()) cpu::reset_peak();
}

}  // namespace taper::v0::runner
