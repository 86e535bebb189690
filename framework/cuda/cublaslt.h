// cuBLASLt (https://docs.nvidia.com/cuda/cublas/#using-the-cublaslt-api). It is loaded by the first
// matrix product on a GPU: loading takes a tenth of a second, which a run on the CPU should not
// pay.
#pragma once

#include <cublasLt.h>

#include "framework/host/shared_library.h"

namespace taper::v0::cuda {

const SharedLibrary& cublaslt_library();

// cuBLASLt's functions, without the prefix "cublasLt".
struct CublasLt {
  static SharedLibrary::Symbol load(const char* name) { return cublaslt_library()(name); }
  TAPER_LOADED(cublasLt, Create);
  TAPER_LOADED(cublasLt, Destroy);
  TAPER_LOADED(cublasLt, GetStatusName);
  TAPER_LOADED(cublasLt, GetVersion);
  TAPER_LOADED(cublasLt, Matmul);
  TAPER_LOADED(cublasLt, MatmulAlgoConfigGetAttribute);
  TAPER_LOADED(cublasLt, MatmulAlgoGetHeuristic);
  TAPER_LOADED(cublasLt, MatmulDescCreate);
  TAPER_LOADED(cublasLt, MatmulDescDestroy);
  TAPER_LOADED(cublasLt, MatmulDescSetAttribute);
  TAPER_LOADED(cublasLt, MatmulPreferenceCreate);
  TAPER_LOADED(cublasLt, MatmulPreferenceDestroy);
  TAPER_LOADED(cublasLt, MatmulPreferenceSetAttribute);
  TAPER_LOADED(cublasLt, MatrixLayoutCreate);
  TAPER_LOADED(cublasLt, MatrixLayoutDestroy);
  TAPER_LOADED(cublasLt, MatrixLayoutSetAttribute);
};
const CublasLt& cublaslt();

}  // namespace taper::v0::cuda
