#include "framework/kernels/loss/ctc_kernels.h"
#include "framework/kernels/per_element.cuh"

namespace taper::v0::kernels {

template struct CtcKernels<cuda::Backend>;

}  // namespace taper::v0::kernels
