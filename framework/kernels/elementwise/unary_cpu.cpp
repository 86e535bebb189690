#include "framework/kernels/elementwise/unary.h"

#include "framework/kernels/elementwise/elementwise_cpu.h"
#include "framework/kernels/elementwise/unary_functors.h"

namespace taper::kernels::cpu {

void unary(UnaryOp op, UnaryArgs args, const Loop& loop, DType compute) {
  visit(op, args, [&](const auto& f) { run_functor<1>(loop, compute, f); });
}

}  // namespace taper::kernels::cpu
