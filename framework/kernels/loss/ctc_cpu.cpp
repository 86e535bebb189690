#include "framework/kernels/loss/ctc_kernels.h"
#include "framework/kernels/per_element_cpu.h"

namespace taper::v0::kernels {

template struct CtcKernels<cpu::Backend>;

}  // namespace taper::v0::kernels
