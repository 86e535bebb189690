#include "framework/kernels/conv_kernels.h"
#include "framework/kernels/cuda/each.cuh"

namespace taper::kernels {

template struct ConvKernels<cuda::Each>;

}  // namespace taper::kernels
