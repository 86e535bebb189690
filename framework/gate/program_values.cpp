// The values of framework/gate/platform.h that depend on the build and on the machine.
#include <fstream>

#include "framework/cuda/cuda.h"
#include "framework/cuda/driver.h"
#include "framework/distributed/backend.h"
#include "framework/distributed/links.h"
#include "framework/gate/platform.h"
#include "framework/kernels/matmul/isa_cpu.h"

namespace taper::v0::golden {

BuildInfo build_info() {
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

std::string cublas_version() {
  if constexpr (kHasCuda) {
    const size_t v = cuda::driver::cublas_version();
    if (v > 0) return concat_to_string(v / 10000, ".", v % 10000 / 100, ".", v % 100);
  }
  return "";
}

std::string nccl_version() try {
  if constexpr (distributed::kHasNccl) return distributed::nccl_version();
  return "";
} catch (const Error&) {
  return "";
}

std::vector<std::pair<std::string, std::string>> program_values(Device device) {
  const BuildInfo build = build_info();
  std::vector<std::pair<std::string, std::string>> out = {
      {"taper", build.version},     {"commit", build.commit},    {"compiler", build.compiler},
      {"onednn", build.onednn},     {"isa", kernels::cpu_isa()}, {"cpu", cpu_name()},
      {"device", to_string(device)}};
  if (!device.is_cuda()) return out;
  out.emplace_back("gpu", cuda::get_device_name(device.index()));
  out.emplace_back("driver", cuda::driver_version());
  out.emplace_back("cuda", cuda::runtime_version());
  out.emplace_back("cublas", cublas_version());
  out.emplace_back("cudnn", cuda::cudnn_version());
  if (const std::string nccl = nccl_version(); !nccl.empty()) out.emplace_back("nccl", nccl);
  return out;
}

}  // namespace taper::v0::golden
