// cuBLASLt (https://docs.nvidia.com/cuda/cublas/#using-the-cublaslt-api), loaded at the first
// product on a GPU: loading it takes a tenth of a second, which a run on the CPU should not pay.
#pragma once

#include <cublasLt.h>

#include "framework/error.h"
#include "framework/host/shared_library.h"

namespace taper::inline v0::cuda {

const SharedLibrary& cublaslt_library();

// Its functions without "cublasLt" in their names.
struct CublasLt {
  static SharedLibrary::Symbol load(const char* name) {
    return cublaslt_library()(cat("cublasLt", name).c_str());
  }
  decltype(&cublasLtCreate) Create = load("Create");
  decltype(&cublasLtDestroy) Destroy = load("Destroy");
  decltype(&cublasLtGetStatusName) GetStatusName = load("GetStatusName");
  decltype(&cublasLtMatmul) Matmul = load("Matmul");
  decltype(&cublasLtMatmulAlgoConfigGetAttribute) MatmulAlgoConfigGetAttribute =
      load("MatmulAlgoConfigGetAttribute");
  decltype(&cublasLtMatmulAlgoGetHeuristic) MatmulAlgoGetHeuristic = load("MatmulAlgoGetHeuristic");
  decltype(&cublasLtMatmulDescCreate) MatmulDescCreate = load("MatmulDescCreate");
  decltype(&cublasLtMatmulDescDestroy) MatmulDescDestroy = load("MatmulDescDestroy");
  decltype(&cublasLtMatmulDescSetAttribute) MatmulDescSetAttribute = load("MatmulDescSetAttribute");
  decltype(&cublasLtMatmulPreferenceCreate) MatmulPreferenceCreate = load("MatmulPreferenceCreate");
  decltype(&cublasLtMatmulPreferenceDestroy) MatmulPreferenceDestroy =
      load("MatmulPreferenceDestroy");
  decltype(&cublasLtMatmulPreferenceSetAttribute) MatmulPreferenceSetAttribute =
      load("MatmulPreferenceSetAttribute");
  decltype(&cublasLtMatrixLayoutCreate) MatrixLayoutCreate = load("MatrixLayoutCreate");
  decltype(&cublasLtMatrixLayoutDestroy) MatrixLayoutDestroy = load("MatrixLayoutDestroy");
  decltype(&cublasLtMatrixLayoutSetAttribute) MatrixLayoutSetAttribute =
      load("MatrixLayoutSetAttribute");
};
const CublasLt& cublaslt();

}  // namespace taper::inline v0::cuda
