#include "framework/distributed/links.h"

#include <functional>

#include "framework/base/error.h"
#ifdef TAPER_WITH_CUDA
#include "framework/cuda/runtime.h"
#include "framework/host/shared_library.h"
#endif

namespace taper::v0::distributed {

std::string link_lines(int gpus, const std::function<std::string(int, int)>& between) {
  std::string lines, first;
  bool are_alike = true;
  for (int a = 0; a < gpus; ++a) {
    for (int b = a + 1; b < gpus; ++b) {
      const std::string link = between(a, b);
      if (first.empty()) first = link;
      are_alike = are_alike && link == first;
      lines += concat_to_string("links    cuda:", a, " and cuda:", b, ": ", link, "\n");
    }
  }
  return gpus > 2 && are_alike ? concat_to_string("links    each two GPUs: ", first, "\n") : lines;
}

#ifdef TAPER_WITH_CUDA
namespace {

// The functions of NVIDIA's management library (https://docs.nvidia.com/deploy/nvml-api/), which
// the driver installs. Not every CUDA toolkit has its header. Functions return 0 on success.
struct Nvml {
  using Gpu = struct nvmlDevice_st*;
  static constexpr int kNvLink = 2;  // NVML_P2P_CAPS_INDEX_NVLINK
  static constexpr unsigned kMostLinks = 36;

  SharedLibrary library{"links between GPUs", {"libnvidia-ml.so.1"}, "it comes with the driver"};
  int (*init)() = library("nvmlInit_v2");
  int (*find)(const char* bus_id, Gpu*) = library("nvmlDeviceGetHandleByPciBusId_v2");
  int (*is_joined)(Gpu, Gpu, int by, int* status) = library("nvmlDeviceGetP2PStatus");
  int (*is_up)(Gpu, unsigned link, int* state) = library("nvmlDeviceGetNvLinkState");

  Nvml() {
    if (init() != 0) throw Error("NVML cannot be used");
  }
  Gpu at(int device) const {
    char bus_id[32] = "";
    TAPER_CUDA_CHECK(cudaDeviceGetPCIBusId(bus_id, sizeof bus_id, device));
    Gpu gpu = nullptr;
    if (find(bus_id, &gpu) != 0) throw Error("NVML does not know cuda:", device);
    return gpu;
  }
  std::string kind(int a, int b) const {
    int status = -1;
    if (is_joined(at(a), at(b), kNvLink, &status) != 0 || status != 0) return "PCIe";
    int links = 0;
    for (unsigned link = 0; link < kMostLinks; ++link) {
      int state = 0;
      links += is_up(at(a), link, &state) == 0 && state == 1;
    }
    return concat_to_string("NVLink, ", links, links == 1 ? " link" : " links");
  }
};

std::string kind_of_link(int a, int b) try {
  static const Nvml nvml;
  return nvml.kind(a, b);
} catch (const Error& error) {
  return concat_to_string("of an unknown kind (", error.what(), ")");
}

}  // namespace

std::string link_between(int a, int b) {
  int is_direct = 0;
  TAPER_CUDA_CHECK(cudaDeviceGetP2PAttribute(&is_direct, cudaDevP2PAttrAccessSupported, a, b));
  return kind_of_link(a, b) + (is_direct ? "" : ", memory through the host");
}
#endif

}  // namespace taper::v0::distributed
