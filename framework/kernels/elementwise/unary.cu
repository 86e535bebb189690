// Launches of element-wise functions of one tensor. The output is overwritten.
#include "framework/kernels/elementwise/unary.h"

#include "framework/kernels/elementwise/elementwise.cuh"
#include "framework/kernels/elementwise/unary_functors.h"

namespace taper::v0::kernels::cuda {

void unary(UnaryOp op, UnaryArgs args, const TensorIterator& iter, DType compute) {
  visit(op, args, [&](const auto& f) { run_elementwise<1>(name_of(op), f, iter, compute); });
}

}  // namespace taper::v0::kernels::cuda
