#include "framework/kernels/per_element.cuh"
#include "framework/kernels/sparse/sparse_kernels.h"

namespace taper::v0::kernels {

template struct SparseKernels<cuda::Backend>;

}  // namespace taper::v0::kernels
