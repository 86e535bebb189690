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
