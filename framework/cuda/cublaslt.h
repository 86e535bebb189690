// cuBLASLt (https://docs.nvidia.com/cuda/cublas/#using-the-cublaslt-api), loaded at the first
// product on a GPU: loading it takes a tenth of a second, which a run on the CPU should not pay.
#pragma once

#include <cublasLt.h>

namespace taper::cuda {

// A function of it, by name. Throws AcceleratorError when the library is not there or lacks it.
struct CublasLtSymbol {
  const char* name;
  template <class F> operator F*() const { return reinterpret_cast<F*>(address()); }
  void* address() const;
};

// Its functions without "cublasLt" in their names.
struct CublasLt {
  decltype(&cublasLtCreate) Create = CublasLtSymbol{"cublasLtCreate"};
  decltype(&cublasLtDestroy) Destroy = CublasLtSymbol{"cublasLtDestroy"};
  decltype(&cublasLtGetStatusName) GetStatusName = CublasLtSymbol{"cublasLtGetStatusName"};
  decltype(&cublasLtMatmul) Matmul = CublasLtSymbol{"cublasLtMatmul"};
  decltype(&cublasLtMatmulAlgoConfigGetAttribute) MatmulAlgoConfigGetAttribute =
      CublasLtSymbol{"cublasLtMatmulAlgoConfigGetAttribute"};
  decltype(&cublasLtMatmulAlgoGetHeuristic) MatmulAlgoGetHeuristic =
      CublasLtSymbol{"cublasLtMatmulAlgoGetHeuristic"};
  decltype(&cublasLtMatmulDescCreate) MatmulDescCreate = CublasLtSymbol{"cublasLtMatmulDescCreate"};
  decltype(&cublasLtMatmulDescDestroy) MatmulDescDestroy =
      CublasLtSymbol{"cublasLtMatmulDescDestroy"};
  decltype(&cublasLtMatmulDescSetAttribute) MatmulDescSetAttribute =
      CublasLtSymbol{"cublasLtMatmulDescSetAttribute"};
  decltype(&cublasLtMatmulPreferenceCreate) MatmulPreferenceCreate =
      CublasLtSymbol{"cublasLtMatmulPreferenceCreate"};
  decltype(&cublasLtMatmulPreferenceDestroy) MatmulPreferenceDestroy =
      CublasLtSymbol{"cublasLtMatmulPreferenceDestroy"};
  decltype(&cublasLtMatmulPreferenceSetAttribute) MatmulPreferenceSetAttribute =
      CublasLtSymbol{"cublasLtMatmulPreferenceSetAttribute"};
  decltype(&cublasLtMatrixLayoutCreate) MatrixLayoutCreate =
      CublasLtSymbol{"cublasLtMatrixLayoutCreate"};
  decltype(&cublasLtMatrixLayoutDestroy) MatrixLayoutDestroy =
      CublasLtSymbol{"cublasLtMatrixLayoutDestroy"};
  decltype(&cublasLtMatrixLayoutSetAttribute) MatrixLayoutSetAttribute =
      CublasLtSymbol{"cublasLtMatrixLayoutSetAttribute"};
};
const CublasLt& cublaslt();

}  // namespace taper::cuda
