// Launches of the element-wise functions of two tensors, and of where. y = op(a, b).
#include "framework/kernels/elementwise/binary.h"

#include "framework/kernels/elementwise/binary_functors.h"
#include "framework/kernels/elementwise/elementwise.cuh"

namespace taper::inline v0::kernels::cuda {

void binary(BinaryOp op, BinaryArgs args, const TensorIterator& iter, DType compute) {
  visit(op, args, [&](const auto& f) { run_elementwise<2>(name_of(op), f, iter, compute); });
}

// The condition is bool as a rule, so that dense kernels of one dtype would not serve.
void where(const TensorIterator& iter, DType compute) {
  if (iter.numel == 0) return;
  const taper::cuda::Launch on(iter.device);
  if (compute == kFloat64) return run_strided<double, 3>("where", Where{}, iter, on);
  if (compute == kInt64) return run_strided<int64_t, 3>("where", Where{}, iter, on);
  run_strided<float, 3>("where", Where{}, iter, on);
}

}  // namespace taper::inline v0::kernels::cuda
