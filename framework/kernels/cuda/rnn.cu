#include "framework/kernels/cuda/each.cuh"
#include "framework/kernels/rnn_kernels.h"

namespace taper::kernels {

template struct RnnKernels<cuda::Each>;

}  // namespace taper::kernels
