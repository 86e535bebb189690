// Launches of the element-wise functions of two tensors, and of where. y = op(a, b).
#include "framework/kernels/elementwise/binary.h"

#include "framework/kernels/elementwise/binary_functors.h"
#include "framework/kernels/elementwise/elementwise.cuh"

namespace taper::kernels::cuda {

void binary(BinaryOp op, BinaryArgs args, const Loop& loop, DType compute) {
  visit(op, args, [&](const auto& f) { run_loop<2>(name_of(op), f, loop, compute); });
}

// The condition is bool as a rule, so that dense kernels of one dtype would not serve.
void where(const Loop& loop, DType compute) {
  if (loop.numel == 0) return;
  const taper::cuda::Launch on(loop.device);
  if (compute == kFloat64) return run_strided<double, 3>("where", Where{}, loop, on);
  if (compute == kInt64) return run_strided<int64_t, 3>("where", Where{}, loop, on);
  run_strided<float, 3>("where", Where{}, loop, on);
}

}  // namespace taper::kernels::cuda
