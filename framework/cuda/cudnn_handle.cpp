#include "framework/cuda/cudnn_handle.h"

#include <unordered_map>

#include "framework/cuda/runtime.h"
#include "framework/error.h"

namespace taper::cuda {

void check_cudnn(cudnnStatus_t status, const char* call) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  throw AcceleratorError(cat("cuDNN error: ", cudnnGetErrorString(status), " (", call, ")"));
}

cudnnHandle_t cudnn_handle(int device) {
  // Kept per thread, so that a lookup needs no lock; destroyed while the CUDA runtime still stands.
  thread_local std::unordered_map<int, CudnnOwner<cudnnHandle_t, cudnnDestroy>> handles;
  auto& handle = handles[device];
  if (!handle) {
    const RelaxedCapture relaxed;  // cudnnCreate allocates
    cudnnHandle_t raw = nullptr;
    check_cudnn(cudnnCreate(&raw), "cudnnCreate");
    handle.reset(raw);
  }
  check_cudnn(cudnnSetStream(handle.get(), current_stream(device)), "cudnnSetStream");
  return handle.get();
}

}  // namespace taper::cuda
