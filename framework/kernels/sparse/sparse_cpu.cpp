#include "framework/kernels/common/per_element_cpu.h"
#include "framework/kernels/sparse/sparse_kernels.h"

namespace taper::v0::kernels {

template struct SparseKernels<cpu::Backend>;

}  // namespace taper::v0::kernels
