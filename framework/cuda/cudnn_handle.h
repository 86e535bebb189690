// cuDNN (https://docs.nvidia.com/deeplearning/cudnn/), loaded when it is first needed, and what
// sources that call it share: a handle for each thread and device, error checks, owners of
// descriptors. Included by *_cudnn.cpp files only.
#pragma once

#include <cudnn.h>

#include "framework/host/shared_library.h"

namespace taper::v0::cuda {

const SharedLibrary& cudnn_library();

// Its functions without "cudnn" in their names.
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
  TAPER_LOADED(cudnn, SetConvolution2dDescriptor);
  TAPER_LOADED(cudnn, SetConvolutionGroupCount);
  TAPER_LOADED(cudnn, SetConvolutionMathType);
  TAPER_LOADED(cudnn, SetFilter4dDescriptor);
  TAPER_LOADED(cudnn, SetStream);
  TAPER_LOADED(cudnn, SetTensor4dDescriptor);
};
// Throws AcceleratorError where it is not there.
const Cudnn& cudnn();

// Throws AcceleratorError naming the call.
void check_cudnn(cudnnStatus_t status, const char* call);

// This thread's handle on a device, which the caller has made current (Launch), set to the current
// stream. Lives until the thread ends.
cudnnHandle_t cudnn_handle(int device);

// Owns a descriptor: CudnnOwner<cudnnTensorDescriptor_t, &Cudnn::DestroyTensorDescriptor>.
template <class T, auto kDestroy> using CudnnOwner = LoadedOwner<T, cudnn, kDestroy>;

}  // namespace taper::v0::cuda
