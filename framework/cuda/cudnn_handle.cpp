#include "framework/cuda/cudnn_handle.h"

#include <unordered_map>

#include "framework/base/error.h"
#include "framework/cuda/runtime.h"

namespace taper::v0::cuda {

const SharedLibrary& cudnn_library() {
  static const SharedLibrary library(
      "convolutions and attention on a GPU",
      {concat_to_string("libcudnn.so.", CUDNN_MAJOR), TAPER_CUDNN_PATH},
      concat_to_string("install cuDNN ", CUDNN_MAJOR, ", or name its folder in LD_LIBRARY_PATH"));
  return library;
}

const Cudnn& cudnn() {
  static const Cudnn functions;
  return functions;
}

void check_cudnn(cudnnStatus_t status, const char* call) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  throw AcceleratorError("cuDNN error: ", cudnn().GetErrorString(status), " (", call, ")");
}

cudnnHandle_t cudnn_handle(int device) {
  // The handle of each device. Every thread has its own map, so that a lookup needs no lock. The
  // map is destroyed while the CUDA runtime still exists.
  thread_local std::unordered_map<int, CudnnOwner<cudnnHandle_t, &Cudnn::Destroy>> handles;
  auto& handle = handles[device];
  if (!handle) {
    const RelaxedCaptureGuard relaxed;  // cudnnCreate allocates
    cudnnHandle_t raw = nullptr;
    check_cudnn(cudnn().Create(&raw), "cudnnCreate");
    handle.reset(raw);
  }
  check_cudnn(cudnn().SetStream(handle.get(), current_stream(device)), "cudnnSetStream");
  return handle.get();
}

}  // namespace taper::v0::cuda
