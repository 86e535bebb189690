#include "framework/kernels/common/per_element_cpu.h"
#include "framework/kernels/loss/ctc_kernels.h"

namespace taper::v0::kernels {

template struct CtcKernels<cpu::Backend>;

}  // namespace taper::v0::kernels
