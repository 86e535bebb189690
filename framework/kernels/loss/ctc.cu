#include "framework/kernels/common/per_element.cuh"
#include "framework/kernels/loss/ctc_kernels.h"

namespace taper::v0::kernels {

template struct CtcKernels<cuda::Backend>;

}  // namespace taper::v0::kernels
