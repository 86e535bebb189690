// Launches of the element-wise functions of two tensors. y = op(a, b).
#include "framework/kernels/binary.h"

#include "framework/kernels/cuda/elementwise.cuh"
#include "framework/kernels/functors.h"

namespace taper::kernels::cuda {

void binary(BinaryOp op, BinaryArgs args, const Loop& loop, DType compute) {
  visit(op, args, [&](const auto& f) { run_loop<2>(name_of(op), f, loop, compute); });
}

}  // namespace taper::kernels::cuda
