// cuDNN (https://docs.nvidia.com/deeplearning/cudnn/), loaded when it is first needed, and what
// sources that call it share: a handle for each thread and device, error checks, owners of
// descriptors. Included by *_cudnn.cpp files only.
#pragma once

#include <memory>
#include <type_traits>

#include <cudnn.h>

#include "framework/error.h"
#include "framework/host/shared_library.h"

namespace taper::inline v0::cuda {

const SharedLibrary& cudnn_library();

// Its functions without "cudnn" in their names.
struct Cudnn {
  static SharedLibrary::Symbol load(const char* name) {
    return cudnn_library()(cat("cudnn", name).c_str());
  }
  decltype(&cudnnBackendCreateDescriptor) BackendCreateDescriptor = load("BackendCreateDescriptor");
  decltype(&cudnnBackendDestroyDescriptor) BackendDestroyDescriptor =
      load("BackendDestroyDescriptor");
  decltype(&cudnnBackendExecute) BackendExecute = load("BackendExecute");
  decltype(&cudnnBackendFinalize) BackendFinalize = load("BackendFinalize");
  decltype(&cudnnBackendGetAttribute) BackendGetAttribute = load("BackendGetAttribute");
  decltype(&cudnnBackendSetAttribute) BackendSetAttribute = load("BackendSetAttribute");
  decltype(&cudnnConvolutionBackwardData) ConvolutionBackwardData = load("ConvolutionBackwardData");
  decltype(&cudnnConvolutionBackwardFilter) ConvolutionBackwardFilter =
      load("ConvolutionBackwardFilter");
  decltype(&cudnnConvolutionForward) ConvolutionForward = load("ConvolutionForward");
  decltype(&cudnnCreate) Create = load("Create");
  decltype(&cudnnCreateConvolutionDescriptor) CreateConvolutionDescriptor =
      load("CreateConvolutionDescriptor");
  decltype(&cudnnCreateFilterDescriptor) CreateFilterDescriptor = load("CreateFilterDescriptor");
  decltype(&cudnnCreateTensorDescriptor) CreateTensorDescriptor = load("CreateTensorDescriptor");
  decltype(&cudnnDestroy) Destroy = load("Destroy");
  decltype(&cudnnDestroyConvolutionDescriptor) DestroyConvolutionDescriptor =
      load("DestroyConvolutionDescriptor");
  decltype(&cudnnDestroyFilterDescriptor) DestroyFilterDescriptor = load("DestroyFilterDescriptor");
  decltype(&cudnnDestroyTensorDescriptor) DestroyTensorDescriptor = load("DestroyTensorDescriptor");
  decltype(&cudnnGetConvolutionBackwardDataAlgorithm_v7) GetConvolutionBackwardDataAlgorithm_v7 =
      load("GetConvolutionBackwardDataAlgorithm_v7");
  decltype(&cudnnGetConvolutionBackwardFilterAlgorithm_v7)
      GetConvolutionBackwardFilterAlgorithm_v7 = load("GetConvolutionBackwardFilterAlgorithm_v7");
  decltype(&cudnnGetConvolutionForwardAlgorithm_v7) GetConvolutionForwardAlgorithm_v7 =
      load("GetConvolutionForwardAlgorithm_v7");
  decltype(&cudnnGetErrorString) GetErrorString = load("GetErrorString");
  decltype(&cudnnGetVersion) GetVersion = load("GetVersion");
  decltype(&cudnnSetConvolution2dDescriptor) SetConvolution2dDescriptor =
      load("SetConvolution2dDescriptor");
  decltype(&cudnnSetConvolutionGroupCount) SetConvolutionGroupCount =
      load("SetConvolutionGroupCount");
  decltype(&cudnnSetConvolutionMathType) SetConvolutionMathType = load("SetConvolutionMathType");
  decltype(&cudnnSetFilter4dDescriptor) SetFilter4dDescriptor = load("SetFilter4dDescriptor");
  decltype(&cudnnSetStream) SetStream = load("SetStream");
  decltype(&cudnnSetTensor4dDescriptor) SetTensor4dDescriptor = load("SetTensor4dDescriptor");
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
