// cuDNN (https://docs.nvidia.com/deeplearning/cudnn/), which is loaded on first use, and the shared
// parts of the sources that call it: a handle per thread and device, error checks, and owners of
// descriptors. Only *_cudnn.cpp files include this header.
#pragma once

#include <cudnn.h>

#include "framework/host/shared_library.h"

namespace taper::v0::cuda {

const SharedLibrary& cudnn_library();

// cuDNN's functions, without the prefix "cudnn".
struct Cudnn {
  static SharedLibrary::Symbol load(const char* name) { return cudnn_library()(name); }
  TAPER_LOADED(cudnn, BackendCreateDescriptor);
  TAPER_LOADED(cudnn, BackendDestroyDescriptor);
  TAPER_LOADED(cudnn, BackendExecute);
  TAPER_LOADED(cudnn, BackendFinalize);
  TAPER_LOADED(cudnn, BackendGetAttribute);
  TAPER_LOADED(cudnn, BackendSetAttribute);
  TAPER_LOADED(cudnn, ConvolutionBackwardData);
  TAPER_LOADED(cudnn, ConvolutionBackwardFilter);
  TAPER_LOADED(cudnn, ConvolutionForward);
  TAPER_LOADED(cudnn, Create);
  TAPER_LOADED(cudnn, CreateConvolutionDescriptor);
  TAPER_LOADED(cudnn, CreateFilterDescriptor);
  TAPER_LOADED(cudnn, CreateTensorDescriptor);
  TAPER_LOADED(cudnn, Destroy);
  TAPER_LOADED(cudnn, DestroyConvolutionDescriptor);
  TAPER_LOADED(cudnn, DestroyFilterDescriptor);
  TAPER_LOADED(cudnn, DestroyTensorDescriptor);
  TAPER_LOADED(cudnn, GetConvolutionBackwardDataAlgorithm_v7);
  TAPER_LOADED(cudnn, GetConvolutionBackwardFilterAlgorithm_v7);
  TAPER_LOADED(cudnn, GetConvolutionForwardAlgorithm_v7);
  TAPER_LOADED(cudnn, GetErrorString);
  TAPER_LOADED(cudnn, GetVersion);
  TAPER_LOADED(cudnn, SetConvolutionNdDescriptor);
  TAPER_LOADED(cudnn, SetConvolutionGroupCount);
  TAPER_LOADED(cudnn, SetConvolutionMathType);
  TAPER_LOADED(cudnn, SetFilterNdDescriptor);
  TAPER_LOADED(cudnn, SetStream);
  TAPER_LOADED(cudnn, SetTensorNdDescriptor);
};
// Returns the functions. Throws AcceleratorError if cuDNN cannot be loaded.
const Cudnn& cudnn();

// Throws AcceleratorError with the name of the call if the status is not success.
void check_cudnn(cudnnStatus_t status, const char* call);

// Returns this thread's handle on a device, set to the current stream. The device must be current
// on this thread, as within the scope of a Launch. The handle lives until the thread ends.
cudnnHandle_t cudnn_handle(int device);

// Owns a descriptor: CudnnOwner<cudnnTensorDescriptor_t, &Cudnn::DestroyTensorDescriptor>.
template <class T, auto kDestroy> using CudnnOwner = LoadedOwner<T, cudnn, kDestroy>;

}  // namespace taper::v0::cuda
