// What sources that call cuDNN share: a handle for each thread and device, error checks, owners of
// descriptors. Included by cudnn*.cpp files only.
#pragma once

#include <memory>
#include <type_traits>

#include <cudnn.h>

namespace taper::cuda {

// Throws AcceleratorError naming the call.
void check_cudnn(cudnnStatus_t status, const char* call);

// This thread's handle on a device, which the caller has made current (Launch), set to the current
// stream. Lives until the thread ends.
cudnnHandle_t cudnn_handle(int device);

// Owns a descriptor: CudnnOwner<cudnnTensorDescriptor_t, cudnnDestroyTensorDescriptor>.
template <auto kDestroy> struct CudnnDestroy {
  template <class T> void operator()(T* descriptor) const { kDestroy(descriptor); }
};
template <class T, auto kDestroy>
using CudnnOwner = std::unique_ptr<std::remove_pointer_t<T>, CudnnDestroy<kDestroy>>;

}  // namespace taper::cuda
