#include "framework/kernels/elementwise/unary.h"

#include "framework/kernels/common/dispatch.h"
#include "framework/profiler/trace.h"

namespace taper::v0::kernels {
namespace {

DType result_dtype(UnaryOp op, const Tensor& x) {
  const UnaryRule rule = row_of(op).rule;
  if (rule == UnaryRule::kPredicate) return kBool;
  if (rule == UnaryRule::kSame || x.is_floating_point()) return x.dtype();
  return x.impl()->wrapped_number ? kFloat64 : kFloat32;
}

}  // namespace

void unary_into(UnaryOp op, const Tensor& out, const Tensor& x, UnaryArgs args) {
  const DType result = result_dtype(op, x);
  require(op != UnaryOp::kNeg || x.dtype() != kBool,
          "Negation, the `-` operator, on a bool tensor is not supported. "
          "If you are trying to invert a mask, use logical_not() instead.");
  if (op == UnaryOp::kBitwiseNot && x.is_floating_point()) {
    throw NotImplementedError("\"bitwise_not", x.is_cuda() ? "_cuda" : "_cpu",
                              "\" not implemented for '", scalar_type_name(x.dtype()), "'");
  }
  const DType compute = compute_type(result == kBool ? x.dtype() : result);
  const TensorIterator iter = make_iterator(out, {&x});
  dispatch<cpu::unary, cuda::unary>({out.device(), name_of(op)}, op, args, iter, compute);
}

Tensor unary(UnaryOp op, const Tensor& x, UnaryArgs args) {
  Tensor y = empty_like_layout(x, result_dtype(op, x));
  y.impl()->wrapped_number = x.impl()->wrapped_number;
  unary_into(op, y, x, args);
  trace(name_of(op), y, {x}, args);
  return y;
}

}  // namespace taper::v0::kernels
