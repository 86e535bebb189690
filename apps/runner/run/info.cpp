#include "apps/runner/run/info.h"

#include <fstream>

#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include "framework/cuda.h"
#include "framework/error.h"
#include "framework/threads.h"

namespace taper::runner {
namespace {

std::string gib(size_t bytes) { return fmt::format("{:.1f} GiB", double(bytes) / (1 << 30)); }

// A table in the manner of nvidia-smi.
std::string gpu_lines() {
  if (!cuda::is_available()) return cat("cuda     not used: ", cuda::unavailable_reason(), "\n");
  constexpr const char* kRow = "{:<8} {:<31} {:<5} {:<5} {:<23} {}\n";
  const auto mib = [](size_t bytes) {
    return fmt::format("{:.0f} MiB", double(bytes) / (1 << 20));
  };
  std::string out =
      fmt::format(kRow, "gpu", "name", "cc", "SMs", "memory used / total", "by taper");
  for (int i = 0; i < cuda::device_count(); ++i) {
    const cuda::DeviceProperties p = cuda::get_device_properties(i);
    out += fmt::format(kRow, cat("cuda:", i), p.name, cat(p.major, ".", p.minor),
                       p.multi_processor_count,
                       cat(gib(p.total_memory - p.free_memory), " / ", gib(p.total_memory)),
                       cat(mib(cuda::memory_allocated(i)), " of ", mib(cuda::memory_reserved(i))));
  }
  return out + "         used: by all programs; by taper: in tensors, of what is reserved here\n";
}

}  // namespace

BuildFacts build_facts() {
  return {TAPER_VERSION, TAPER_COMMIT, TAPER_COMPILER, TAPER_ONEDNN_VERSION};
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
