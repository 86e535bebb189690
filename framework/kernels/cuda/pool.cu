#include "framework/kernels/cuda/each.cuh"
#include "framework/kernels/pool_kernels.h"

namespace taper::kernels {

template struct PoolKernels<cuda::Each>;

}  // namespace taper::kernels
