#include "apps/runner/info.h"

#include <algorithm>
#include <fstream>

#include <unistd.h>

#include "framework/cuda.h"
#include "framework/error.h"
#include "framework/threads.h"

namespace taper::runner {
namespace {

std::string gib(size_t bytes) {
  const size_t tenths = (bytes * 10 + (size_t(1) << 29)) >> 30;
  return cat(tenths / 10, ".", tenths % 10, " GiB");
}

std::string cpu_name() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  std::string line;
  while (std::getline(cpuinfo, line)) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown processor";
}

std::string mib(size_t bytes) { return cat((bytes + (size_t(1) << 19)) >> 20, " MiB"); }

std::string padded(std::string text, size_t width) {
  text.resize(std::max(text.size() + 1, width), ' ');
  return text;
}

// One line of the table of GPUs, in the manner of nvidia-smi.
std::string gpu_row(const std::string& gpu, const std::string& name, const std::string& capability,
                    const std::string& multiprocessors, const std::string& memory,
                    const std::string& held) {
  return cat(padded(gpu, 9), padded(name, 32), padded(capability, 6), padded(multiprocessors, 6),
             padded(memory, 24), held, "\n");
}

std::string gpu_lines() {
  if (!cuda::is_available()) return cat("cuda     not used: ", cuda::unavailable_reason(), "\n");
  std::string out = gpu_row("gpu", "name", "cc", "SMs", "memory used / total", "by taper");
  for (int i = 0; i < cuda::device_count(); ++i) {
    const cuda::DeviceProperties p = cuda::get_device_properties(i);
    out +=
        gpu_row(cat("cuda:", i), p.name, cat(p.major, ".", p.minor), cat(p.multi_processor_count),
                cat(gib(p.total_memory - p.free_memory), " / ", gib(p.total_memory)),
                cat(mib(cuda::memory_allocated(i)), " of ", mib(cuda::memory_reserved(i))));
  }
  return out + "         used: by all programs; by taper: in tensors, of what is reserved here\n";
}

}  // namespace

std::string system_info() {
  const size_t page = size_t(sysconf(_SC_PAGESIZE));
  std::string out = cat("taper    ", TAPER_VERSION, "\n");
  out += cat("built    with ", TAPER_COMPILER, ", oneDNN ", TAPER_ONEDNN_VERSION,
             kHasCuda ? ", CUDA" : ", without CUDA", "\n");
  if (kHasCuda) {
    const std::string driver = cuda::driver_version(), cudnn = cuda::cudnn_version();
    out += cat("cuda     runtime ", cuda::runtime_version(), ", driver ",
               driver.empty() ? "none" : driver, ", cuDNN ", cudnn.empty() ? "none" : cudnn, "\n");
  }
  out += cat("cpu      ", cpu_name(), ", ", get_num_threads(), " threads, memory ",
             gib(size_t(sysconf(_SC_PHYS_PAGES)) * page), " of which ",
             gib(size_t(sysconf(_SC_AVPHYS_PAGES)) * page), " free\n");
  return out + gpu_lines();
}

}  // namespace taper::runner
