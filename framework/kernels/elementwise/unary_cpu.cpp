#include "framework/kernels/elementwise/unary.h"

#include "framework/kernels/elementwise/elementwise_cpu.h"
#include "framework/kernels/elementwise/unary_functors.h"

namespace taper::kernels::cpu {

void unary(UnaryOp op, UnaryArgs args, const Loop& loop, DType compute) {
  visit(op, args, [&](auto functor) {
    using F = decltype(functor);
    if (compute == kFloat64) {
      return run_elementwise(loop, compute, unary_span<F, double>, &functor);
    }
    if constexpr (F::kIntegers) {
      if (compute == kInt64) {
        return run_elementwise(loop, compute, unary_span<F, int64_t>, &functor);
      }
    }
    run_elementwise(loop, kFloat32, unary_span<F, float>, &functor);
  });
}

}  // namespace taper::kernels::cpu
