// cuBLASLt (https://docs.nvidia.com/cuda/cublas/#using-the-cublaslt-api), loaded at the first
// product on a GPU: loading it takes a tenth of a second, which a run on the CPU should not pay.
#pragma once

#include <cublasLt.h>

#include "framework/host/shared_library.h"

namespace taper::inline v0::cuda {

const SharedLibrary& cublaslt_library();

// Its functions without "cublasLt" in their names.
struct CublasLt {
  decltype(&cublasLtCreate) Create = cublaslt_library()("cublasLtCreate");
  decltype(&cublasLtDestroy) Destroy = cublaslt_library()("cublasLtDestroy");
  decltype(&cublasLtGetStatusName) GetStatusName = cublaslt_library()("cublasLtGetStatusName");
  decltype(&cublasLtMatmul) Matmul = cublaslt_library()("cublasLtMatmul");
  decltype(&cublasLtMatmulAlgoConfigGetAttribute) MatmulAlgoConfigGetAttribute =
      cublaslt_library()("cublasLtMatmulAlgoConfigGetAttribute");
  decltype(&cublasLtMatmulAlgoGetHeuristic) MatmulAlgoGetHeuristic =
      cublaslt_library()("cublasLtMatmulAlgoGetHeuristic");
  decltype(&cublasLtMatmulDescCreate) MatmulDescCreate =
      cublaslt_library()("cublasLtMatmulDescCreate");
  decltype(&cublasLtMatmulDescDestroy) MatmulDescDestroy =
      cublaslt_library()("cublasLtMatmulDescDestroy");
  decltype(&cublasLtMatmulDescSetAttribute) MatmulDescSetAttribute =
      cublaslt_library()("cublasLtMatmulDescSetAttribute");
  decltype(&cublasLtMatmulPreferenceCreate) MatmulPreferenceCreate =
      cublaslt_library()("cublasLtMatmulPreferenceCreate");
  decltype(&cublasLtMatmulPreferenceDestroy) MatmulPreferenceDestroy =
      cublaslt_library()("cublasLtMatmulPreferenceDestroy");
  decltype(&cublasLtMatmulPreferenceSetAttribute) MatmulPreferenceSetAttribute =
      cublaslt_library()("cublasLtMatmulPreferenceSetAttribute");
  decltype(&cublasLtMatrixLayoutCreate) MatrixLayoutCreate =
      cublaslt_library()("cublasLtMatrixLayoutCreate");
  decltype(&cublasLtMatrixLayoutDestroy) MatrixLayoutDestroy =
      cublaslt_library()("cublasLtMatrixLayoutDestroy");
  decltype(&cublasLtMatrixLayoutSetAttribute) MatrixLayoutSetAttribute =
      cublaslt_library()("cublasLtMatrixLayoutSetAttribute");
};
const CublasLt& cublaslt();

}  // namespace taper::inline v0::cuda
