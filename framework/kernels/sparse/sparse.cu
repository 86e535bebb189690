#include "framework/kernels/common/per_element.cuh"
#include "framework/kernels/sparse/sparse_kernels.h"

namespace taper::v0::kernels {

template struct SparseKernels<cuda::Backend>;

}  // namespace taper::v0::kernels
