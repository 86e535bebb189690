#include "framework/kernels/common/kernel_launch.h"

#include <cstdlib>
#include <string_view>

#include "framework/base/error.h"

namespace taper::v0::cuda {
namespace {

bool launches_block() {
  static const bool blocking = [] {
    const char* value = std::getenv("CUDA_LAUNCH_BLOCKING");
    return value && std::string_view(value) == "1";
  }();
  return blocking;
}

}  // namespace

void Launch::enqueue(const void* kernel, const Blocks& blocks, void** args, bool overlaps) const {
  cudaLaunchAttribute attributes[2] = {};
  cudaLaunchConfig_t config{};
  config.gridDim = blocks.grid;
  config.blockDim = blocks.block;
  config.dynamicSmemBytes = blocks.shared;
  config.stream = stream;
  config.attrs = attributes;
  if (overlaps && !blocks.in_order) {
    cudaLaunchAttribute& early = attributes[config.numAttrs++];
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
  }
  if (blocks.cluster > 1) {
    cudaLaunchAttribute& cluster = attributes[config.numAttrs++];
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim = {blocks.cluster, 1, 1};
  }
  (void)cudaLaunchKernelExC(&config, kernel, args);
}

void Launch::check(const char* op) const {
  const cudaError_t status = cudaGetLastError();
  if (status != cudaSuccess)
    throw_error(status, concat_to_string("launching ", op, " on cuda:", device));
  if (!launches_block() || is_capturing(stream)) return;
  const cudaError_t finished = cudaStreamSynchronize(stream);
  if (finished != cudaSuccess)
    throw_error(finished, concat_to_string("running ", op, " on cuda:", device));
  throw_bad_index(device);
}

}  // namespace taper::v0::cuda
