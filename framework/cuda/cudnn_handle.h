// cuDNN (https://docs.nvidia.com/deeplearning/cudnn/), loaded when it is first needed, and what
// sources that call it share: a handle for each thread and device, error checks, owners of
// descriptors. Included by *_cudnn.cpp files only.
#pragma once

#include <memory>
#include <type_traits>

#include <cudnn.h>

#include "framework/host/shared_library.h"

namespace taper::inline v0::cuda {

const SharedLibrary& cudnn_library();

// Its functions without "cudnn" in their names.
struct Cudnn {
  decltype(&cudnnBackendCreateDescriptor) BackendCreateDescriptor =
      cudnn_library()("cudnnBackendCreateDescriptor");
  decltype(&cudnnBackendDestroyDescriptor) BackendDestroyDescriptor =
      cudnn_library()("cudnnBackendDestroyDescriptor");
  decltype(&cudnnBackendExecute) BackendExecute = cudnn_library()("cudnnBackendExecute");
  decltype(&cudnnBackendFinalize) BackendFinalize = cudnn_library()("cudnnBackendFinalize");
  decltype(&cudnnBackendGetAttribute) BackendGetAttribute =
      cudnn_library()("cudnnBackendGetAttribute");
  decltype(&cudnnBackendSetAttribute) BackendSetAttribute =
      cudnn_library()("cudnnBackendSetAttribute");
  decltype(&cudnnConvolutionBackwardData) ConvolutionBackwardData =
      cudnn_library()("cudnnConvolutionBackwardData");
  decltype(&cudnnConvolutionBackwardFilter) ConvolutionBackwardFilter =
      cudnn_library()("cudnnConvolutionBackwardFilter");
  decltype(&cudnnConvolutionForward) ConvolutionForward =
      cudnn_library()("cudnnConvolutionForward");
  decltype(&cudnnCreate) Create = cudnn_library()("cudnnCreate");
  decltype(&cudnnCreateConvolutionDescriptor) CreateConvolutionDescriptor =
      cudnn_library()("cudnnCreateConvolutionDescriptor");
  decltype(&cudnnCreateFilterDescriptor) CreateFilterDescriptor =
      cudnn_library()("cudnnCreateFilterDescriptor");
  decltype(&cudnnCreateTensorDescriptor) CreateTensorDescriptor =
      cudnn_library()("cudnnCreateTensorDescriptor");
  decltype(&cudnnDestroy) Destroy = cudnn_library()("cudnnDestroy");
  decltype(&cudnnDestroyConvolutionDescriptor) DestroyConvolutionDescriptor =
      cudnn_library()("cudnnDestroyConvolutionDescriptor");
  decltype(&cudnnDestroyFilterDescriptor) DestroyFilterDescriptor =
      cudnn_library()("cudnnDestroyFilterDescriptor");
  decltype(&cudnnDestroyTensorDescriptor) DestroyTensorDescriptor =
      cudnn_library()("cudnnDestroyTensorDescriptor");
  decltype(&cudnnGetConvolutionBackwardDataAlgorithm_v7) GetConvolutionBackwardDataAlgorithm_v7 =
      cudnn_library()("cudnnGetConvolutionBackwardDataAlgorithm_v7");
  decltype(&cudnnGetConvolutionBackwardFilterAlgorithm_v7)
      GetConvolutionBackwardFilterAlgorithm_v7 =
          cudnn_library()("cudnnGetConvolutionBackwardFilterAlgorithm_v7");
  decltype(&cudnnGetConvolutionForwardAlgorithm_v7) GetConvolutionForwardAlgorithm_v7 =
      cudnn_library()("cudnnGetConvolutionForwardAlgorithm_v7");
  decltype(&cudnnGetErrorString) GetErrorString = cudnn_library()("cudnnGetErrorString");
  decltype(&cudnnGetVersion) GetVersion = cudnn_library()("cudnnGetVersion");
  decltype(&cudnnSetConvolution2dDescriptor) SetConvolution2dDescriptor =
      cudnn_library()("cudnnSetConvolution2dDescriptor");
  decltype(&cudnnSetConvolutionGroupCount) SetConvolutionGroupCount =
      cudnn_library()("cudnnSetConvolutionGroupCount");
  decltype(&cudnnSetConvolutionMathType) SetConvolutionMathType =
      cudnn_library()("cudnnSetConvolutionMathType");
  decltype(&cudnnSetFilter4dDescriptor) SetFilter4dDescriptor =
      cudnn_library()("cudnnSetFilter4dDescriptor");
  decltype(&cudnnSetStream) SetStream = cudnn_library()("cudnnSetStream");
  decltype(&cudnnSetTensor4dDescriptor) SetTensor4dDescriptor =
      cudnn_library()("cudnnSetTensor4dDescriptor");
};
// Throws AcceleratorError where it is not there.
const Cudnn& cudnn();

// Throws AcceleratorError naming the call.
void check_cudnn(cudnnStatus_t status, const char* call);

// This thread's handle on a device, which the caller has made current (Launch), set to the current
// stream. Lives until the thread ends.
cudnnHandle_t cudnn_handle(int device);

// Owns a descriptor: CudnnOwner<cudnnTensorDescriptor_t, &Cudnn::DestroyTensorDescriptor>.
template <auto kDestroy> struct CudnnDestroy {
  template <class T> void operator()(T* descriptor) const { (cudnn().*kDestroy)(descriptor); }
};
template <class T, auto kDestroy>
using CudnnOwner = std::unique_ptr<std::remove_pointer_t<T>, CudnnDestroy<kDestroy>>;

}  // namespace taper::inline v0::cuda
