// cuSOLVER (https://docs.nvidia.com/cuda/cusolver/) and the parts of cuBLAS's classic interface
// that it lacks. Both are loaded by the first factorization on a GPU. Only *_cusolver.cpp files
// include this header.
#pragma once

#include <cublas_v2.h>
#include <cusolverDn.h>

#include "framework/host/shared_library.h"

namespace taper::v0::cuda {

const SharedLibrary& cusolver_library();
const SharedLibrary& cublas_library();

#define TAPER_LOADED_FOR_BOTH(name)  \
  TAPER_LOADED(cusolverDn, S##name); \
  TAPER_LOADED(cusolverDn, D##name)
#define TAPER_LOADED_WITH_SIZE(name) \
  TAPER_LOADED_FOR_BOTH(name);       \
  TAPER_LOADED_FOR_BOTH(name##_bufferSize)

// cuSOLVER's functions, without the prefix "cusolverDn". S is float and D is double.
struct Cusolver {
  static SharedLibrary::Symbol load(const char* name) { return cusolver_library()(name); }
  TAPER_LOADED(cusolverDn, Create);
  TAPER_LOADED(cusolverDn, Destroy);
  TAPER_LOADED(cusolverDn, SetStream);
  TAPER_LOADED(cusolverDn, SetDeterministicMode);
  TAPER_LOADED(cusolverDn, CreateSyevjInfo);
  TAPER_LOADED(cusolverDn, DestroySyevjInfo);
  TAPER_LOADED(cusolverDn, CreateGesvdjInfo);
  TAPER_LOADED(cusolverDn, DestroyGesvdjInfo);
  TAPER_LOADED_WITH_SIZE(getrf);
  TAPER_LOADED_FOR_BOTH(getrs);
  TAPER_LOADED_WITH_SIZE(potrf);
  TAPER_LOADED_FOR_BOTH(potrfBatched);
  TAPER_LOADED_WITH_SIZE(geqrf);
  TAPER_LOADED_WITH_SIZE(orgqr);
  TAPER_LOADED_WITH_SIZE(syevd);
  TAPER_LOADED_WITH_SIZE(syevjBatched);
  TAPER_LOADED_WITH_SIZE(gesvd);
  TAPER_LOADED_WITH_SIZE(gesvdjBatched);
};
const Cusolver& cusolver();

// cuBLAS's functions, without the prefix "cublas".
struct Cublas {
  static SharedLibrary::Symbol load(const char* name) { return cublas_library()(name); }
  TAPER_LOADED(cublas, Create_v2);
  TAPER_LOADED(cublas, Destroy_v2);
  TAPER_LOADED(cublas, SetStream_v2);
  TAPER_LOADED(cublas, SgetrfBatched);
  TAPER_LOADED(cublas, DgetrfBatched);
  TAPER_LOADED(cublas, SgetrsBatched);
  TAPER_LOADED(cublas, DgetrsBatched);
  TAPER_LOADED(cublas, Strsm_v2);
  TAPER_LOADED(cublas, Dtrsm_v2);
  TAPER_LOADED(cublas, StrsmBatched);
  TAPER_LOADED(cublas, DtrsmBatched);
};
const Cublas& cublas();

#undef TAPER_LOADED_FOR_BOTH
#undef TAPER_LOADED_WITH_SIZE

// Throw AcceleratorError with the name of the call if the status is not success.
void check_cusolver(cusolverStatus_t status, const char* call);
void check_cublas(cublasStatus_t status, const char* call);

// Return this thread's handle on a device, set to the current stream, with deterministic results.
// The device must be current on this thread, as within the scope of a Launch. The handle lives
// until the thread ends.
cusolverDnHandle_t cusolver_handle(int device);
cublasHandle_t cublas_handle(int device);

}  // namespace taper::v0::cuda
