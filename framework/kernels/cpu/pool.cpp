#include "framework/kernels/cpu/each.h"
#include "framework/kernels/pool_kernels.h"

namespace taper::kernels {

template struct PoolKernels<cpu::Each>;

}  // namespace taper::kernels
