// `taper info`, `taper schema` and `taper verify`.
#include <fmt/format.h>
#include <unistd.h>

#include "apps/runner/commands/commands.h"
#include "apps/runner/run/run_directory.h"
#include "apps/runner/run/run_metadata.h"
#include "framework/cuda/cuda.h"
#include "framework/distributed/backend.h"
#include "framework/distributed/links.h"
#include "framework/host/thread_pool.h"
#include "framework/memory/cuda_memory.h"

namespace taper::v0::runner {
namespace {

std::string gib(size_t bytes) { return fmt::format("{:.1f} GiB", double(bytes) / (1 << 30)); }

// Returns a table of the GPUs, similar to that of nvidia-smi.
std::string gpu_lines() {
  if (!cuda::is_available())
    return concat_to_string("cuda     not available: ", cuda::unavailable_reason(), "\n");
  constexpr const char* kRow = "{:<8} {:<31} {:<5} {:<5} {:<23} {}\n";
  const auto mib = [](size_t bytes) {
    return fmt::format("{:.0f} MiB", double(bytes) / (1 << 20));
  };
  std::string out =
      fmt::format(kRow, "gpu", "name", "cc", "SMs", "memory used / total", "by taper");
  for (int i = 0; i < cuda::device_count(); ++i) {
    const cuda::DeviceProperties p = cuda::get_device_properties(i);
    out += fmt::format(
        kRow, concat_to_string("cuda:", i), p.name, concat_to_string(p.major, ".", p.minor),
        p.multi_processor_count,
        concat_to_string(gib(p.total_memory - p.free_memory), " / ", gib(p.total_memory)),
        concat_to_string(mib(cuda::memory_allocated(i)), " of ", mib(cuda::memory_reserved(i))));
  }
  out += "         used: by all programs; by taper: allocated of reserved, in this process\n";
  if constexpr (kHasCuda)
    out += distributed::link_lines(cuda::device_count(), distributed::link_between);
  return out;
}

// Returns whether several ranks can run on this machine, and the reason if they cannot.
std::string rank_lines() {
  const auto line = [](const char* name, Device device) {
    std::string state = distributed::Communicator::unavailable_reason(device);
    if (!state.empty()) return concat_to_string("ranks    ", name, state, "\n");
    state = "ready";
    if constexpr (distributed::kHasNccl) {
      if (device.is_cuda()) state += concat_to_string(", NCCL ", distributed::nccl_version());
    }
    return concat_to_string("ranks    ", name, state, "\n");
  };
  return line("on the CPU: ", DeviceType::kCpu) +
         (kHasCuda ? line("on GPUs: ", DeviceType::kCuda) : "");
}

std::string system_info() {
  const BuildInfo built = build_info();
  const size_t page = size_t(sysconf(_SC_PAGESIZE));
  std::string out = concat_to_string("taper    ", built.version, "\n");
  out += concat_to_string("built    with ", built.compiler, ", oneDNN ", built.onednn,
                          kHasCuda ? ", CUDA" : ", without CUDA", "\n");
  if (kHasCuda) {
    const std::string driver = cuda::driver_version(), cudnn = cuda::cudnn_version(),
                      cublas = golden::cublas_version();
    out += concat_to_string("cuda     runtime ", cuda::runtime_version(), ", driver ",
                            driver.empty() ? "none" : driver, ", cuBLAS ",
                            cublas.empty() ? "none" : cublas, ", cuDNN ",
                            cudnn.empty() ? "none" : cudnn, "\n");
  }
  out += concat_to_string("cpu      ", cpu_name(), ", ", get_num_threads(), " threads, memory ",
                          gib(size_t(sysconf(_SC_PHYS_PAGES)) * page), " of which ",
                          gib(size_t(sysconf(_SC_AVPHYS_PAGES)) * page), " free\n");
  return out + rank_lines() + gpu_lines();
}

}  // namespace

Command info_command() {
  return {"info", "Show versions and devices", "taper info", [] { return print(system_info()); }};
}
Command schema_command() {
  struct Schemas {
    bool markdown = false;
    void describe(Schema& v) {
      v("--markdown", markdown, "print the reference page of the documentation in Markdown");
    }
    int operator()() const { return print(markdown ? config_reference() : json_schema()); }
  };
  return command_of<Schemas>(
      "schema", "Print the JSON Schema of config files, for editors",
      "taper schema > taper.schema.json\ntaper schema --markdown > configuration.md");
}
Command verify_command() {
  struct Verify {
    std::string path;
    void describe(Schema& v) {
      v("run", path, "directory of the run, or of a checkpoint").required();
    }
    int operator()() const { return print(verify(path)); }
  };
  return command_of<Verify>("verify",
                            "Verify the files of a run and its checkpoints by their checksums",
                            "taper verify runs/d");
}

}  // namespace taper::v0::runner
