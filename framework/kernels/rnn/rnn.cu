#include "framework/kernels/common/per_element.cuh"
#include "framework/kernels/rnn/rnn_kernels.h"

namespace taper::v0::kernels {

template struct RnnKernels<cuda::Backend>;

}  // namespace taper::v0::kernels
