// Launches of element-wise functions of two and three tensors. Outputs are overwritten.
#include "framework/kernels/elementwise/binary.h"

#include "framework/kernels/elementwise/binary_functors.h"
#include "framework/kernels/elementwise/elementwise.cuh"

namespace taper::v0::kernels::cuda {

void binary(BinaryOp op, BinaryArgs args, const TensorIterator& iter, DType compute) {
  visit(op, args, [&](const auto& f) { run_elementwise<2>(name_of(op), f, iter, compute); });
}

void ternary(TernaryOp op, double value, const TensorIterator& iter, DType compute) {
  const char* name = kTernaryNames[size_t(op)];
  visit(op, value, [&](const auto& f) { run_elementwise<3>(name, f, iter, compute); });
}

}  // namespace taper::v0::kernels::cuda
