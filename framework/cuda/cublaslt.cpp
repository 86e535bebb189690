#include "framework/cuda/cublaslt.h"

#include "framework/base/error.h"

namespace taper::v0::cuda {

const SharedLibrary& cublaslt_library() {
  static const SharedLibrary library(
      "matrix products on a GPU",
      {concat_to_string("libcublasLt.so.", CUBLAS_VER_MAJOR), TAPER_CUBLASLT},
      concat_to_string("install cuBLAS of CUDA ", CUBLAS_VER_MAJOR,
                       ", or name its folder in LD_LIBRARY_PATH"));
  return library;
}

const CublasLt& cublaslt() {
  static const CublasLt lt;
  return lt;
}

}  // namespace taper::v0::cuda
