#include "framework/kernels/elementwise/unary.h"

#include "framework/kernels/elementwise/elementwise_cpu.h"
#include "framework/kernels/elementwise/unary_functors.h"

namespace taper::v0::kernels::cpu {

void unary(UnaryOp op, UnaryArgs args, const TensorIterator& iter, DType compute) {
  visit(op, args, [&](const auto& f) { run_functor<1>(iter, compute, f); });
}

}  // namespace taper::v0::kernels::cpu
