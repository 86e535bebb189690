#include "framework/cuda/cusolver.h"

#include <unordered_map>

#include "framework/base/error.h"
#include "framework/cuda/runtime.h"

namespace taper::v0::cuda {

const SharedLibrary& cusolver_library() {
  static const SharedLibrary library(
      "linear algebra on a GPU",
      {concat_to_string("libcusolver.so.", CUSOLVER_VER_MAJOR), TAPER_CUSOLVER},
      concat_to_string("install cuSOLVER of CUDA ", CUBLAS_VER_MAJOR,
                       ", or name its folder in LD_LIBRARY_PATH"));
  return library;
}

const SharedLibrary& cublas_library() {
  static const SharedLibrary library(
      "linear algebra on a GPU",
      {concat_to_string("libcublas.so.", CUBLAS_VER_MAJOR), TAPER_CUBLAS},
      concat_to_string("install cuBLAS of CUDA ", CUBLAS_VER_MAJOR,
                       ", or name its folder in LD_LIBRARY_PATH"));
  return library;
}

const Cusolver& cusolver() {
  static const Cusolver functions;
  return functions;
}

const Cublas& cublas() {
  static const Cublas functions;
  return functions;
}

void check_cusolver(cusolverStatus_t status, const char* call) {
  if (status == CUSOLVER_STATUS_SUCCESS) return;
  throw AcceleratorError("cuSOLVER error ", int(status), " (cusolverDn", call, ")");
}

void check_cublas(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw AcceleratorError("cuBLAS error ", int(status), " (cublas", call, ")");
}

// As for cuDNN, every thread has its own map of handles, so that a lookup needs no lock.
cusolverDnHandle_t cusolver_handle(int device) {
  using Owner = LoadedOwner<cusolverDnHandle_t, cusolver, &Cusolver::Destroy>;
  thread_local std::unordered_map<int, Owner> handles;
  Owner& handle = handles[device];
  if (!handle) {
    cusolverDnHandle_t raw = nullptr;
    check_cusolver(cusolver().Create(&raw), "Create");
    handle.reset(raw);
    check_cusolver(cusolver().SetDeterministicMode(raw, CUSOLVER_DETERMINISTIC_RESULTS),
                   "SetDeterministicMode");
  }
  check_cusolver(cusolver().SetStream(handle.get(), current_stream(device)), "SetStream");
  return handle.get();
}

cublasHandle_t cublas_handle(int device) {
  using Owner = LoadedOwner<cublasHandle_t, cublas, &Cublas::Destroy_v2>;
  thread_local std::unordered_map<int, Owner> handles;
  Owner& handle = handles[device];
  if (!handle) {
    cublasHandle_t raw = nullptr;
    check_cublas(cublas().Create_v2(&raw), "Create");
    handle.reset(raw);
  }
  check_cublas(cublas().SetStream_v2(handle.get(), current_stream(device)), "SetStream");
  return handle.get();
}

}  // namespace taper::v0::cuda
