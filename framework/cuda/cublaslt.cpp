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

}  // namespace

void* CublasLtSymbol::address() const {
  static void* const from = library();
  if (void* const symbol = dlsym(from, name)) return symbol;
  throw AcceleratorError(cat("matmul: cuBLASLt has no ", name));
}

const CublasLt& cublaslt() {
  static const CublasLt lt;
  return lt;
}

}  // namespace taper::cuda
