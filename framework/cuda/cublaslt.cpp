#include "framework/cuda/cublaslt.h"

#include <string>

#include <dlfcn.h>

#include "framework/error.h"

namespace taper::cuda {
namespace {

// By the loader's paths, else where the build found it. It stays loaded.
void* library() {
  const std::string name = cat("libcublasLt.so.", CUBLAS_VER_MAJOR);
  for (const std::string& path : {name, std::string(TAPER_CUBLASLT)}) {
    if (void* found = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return found;
  }
  throw AcceleratorError(cat("matmul: ", dlerror(), "; install cuBLAS of CUDA ", CUBLAS_VER_MAJOR,
                             ", or name its folder in LD_LIBRARY_PATH"));
}

CublasLt loaded() {
  void* const from = library();
  CublasLt lt{};
  const auto take = [&](auto& function, const char* name) {
    void* const symbol = dlsym(from, name);
    if (!symbol) throw AcceleratorError(cat("matmul: cuBLASLt has no ", name));
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(symbol);
  };
  take(lt.Create, "cublasLtCreate");
  take(lt.Destroy, "cublasLtDestroy");
  take(lt.GetStatusName, "cublasLtGetStatusName");
  take(lt.Matmul, "cublasLtMatmul");
  take(lt.MatmulAlgoConfigGetAttribute, "cublasLtMatmulAlgoConfigGetAttribute");
  take(lt.MatmulAlgoGetHeuristic, "cublasLtMatmulAlgoGetHeuristic");
  take(lt.MatmulDescCreate, "cublasLtMatmulDescCreate");
  take(lt.MatmulDescDestroy, "cublasLtMatmulDescDestroy");
  take(lt.MatmulDescSetAttribute, "cublasLtMatmulDescSetAttribute");
  take(lt.MatmulPreferenceCreate, "cublasLtMatmulPreferenceCreate");
  take(lt.MatmulPreferenceDestroy, "cublasLtMatmulPreferenceDestroy");
  take(lt.MatmulPreferenceSetAttribute, "cublasLtMatmulPreferenceSetAttribute");
  take(lt.MatrixLayoutCreate, "cublasLtMatrixLayoutCreate");
  take(lt.MatrixLayoutDestroy, "cublasLtMatrixLayoutDestroy");
  take(lt.MatrixLayoutSetAttribute, "cublasLtMatrixLayoutSetAttribute");
  return lt;
}

}  // namespace

const CublasLt& cublaslt() {
  static const CublasLt lt = loaded();
  return lt;
}

}  // namespace taper::cuda
