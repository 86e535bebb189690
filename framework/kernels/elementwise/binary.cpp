#include "framework/kernels/elementwise/binary.h"

#include "framework/kernels/common/dispatch.h"
#include "framework/profiler/trace.h"

namespace taper::v0::kernels {
namespace {

struct Types {
  DType result, compute;
};

Types types_of(BinaryOp op, const Tensor& a, const Tensor& b) {
  DType promoted = result_type({&a, &b});
  if (op == BinaryOp::kPow && b.impl()->wrapped_number && !is_floating_point(promoted)) {
    number_of(b).check_holds(promoted);
  }
  const BinaryRule rule = row_of(op).rule;
  if (rule == BinaryRule::kPredicate) return {kBool, compute_type(promoted)};
  const bool numbers = a.impl()->wrapped_number && b.impl()->wrapped_number;
  if (rule == BinaryRule::kFloating && !is_floating_point(promoted)) {
    promoted = numbers ? kFloat64 : kFloat32;
  }
  if (rule == BinaryRule::kIntegral && is_floating_point(promoted)) {
    const bool on_gpu = a.is_cuda() || b.is_cuda();
    throw NotImplementedError("\"", name_of(op), on_gpu ? "_cuda" : "_cpu",
                              "\" not implemented for '", scalar_type_name(promoted), "'");
  }
  const int bools = int(a.dtype() == kBool) + int(b.dtype() == kBool);
  const bool subtracts = op == BinaryOp::kSub || op == BinaryOp::kMseLoss ||
                         op == BinaryOp::kL1Loss || op == BinaryOp::kHuberLoss ||
                         op == BinaryOp::kBceWithLogits;
  if (subtracts && bools > 0) {
    throw Error("Subtraction, the `-` operator, with ",
                bools == 2 ? "two bool tensors" : "a bool tensor", " is not supported. Use ",
                bools == 2 ? "logical_xor()" : "logical_not() to invert a mask", " instead.");
  }
  if (rule == BinaryRule::kNoBool && promoted == kBool) {
    throw NotImplementedError("\"", name_of(op), "\" not implemented for 'Bool'");
  }
  return {promoted, compute_type(promoted)};
}

void run(BinaryOp op, BinaryArgs args, const Tensor& out, const Tensor& a, const Tensor& b,
         DType compute) {
  const TensorIterator iter = make_iterator(out, {&a, &b});
  dispatch<cpu::binary, cuda::binary>({out.device(), name_of(op)}, op, args, iter, compute);
}

void run(TernaryOp op, const Tensor& out, const Tensor& a, const Tensor& b, const Tensor& c,
         DType compute, double value = 1) {
  const TensorIterator iter = make_iterator(out, {&a, &b, &c});
  const char* name = kTernaryNames[size_t(op)];
  dispatch<cpu::ternary, cuda::ternary>({out.device(), name}, op, value, iter, compute);
  trace(name, out, {a, b, c}, value);
}

}  // namespace

BinaryArgs scaled_by(const Scalar& alpha, const Tensor& a, const Tensor& b) {
  if (alpha.dtype() == kInt64 && alpha.to_int() == 1) return {};
  const DType result = result_type({&a, &b});
  require(alpha.dtype() != kFloat64 || is_floating_point(result),
          "For integral input tensors, argument alpha must not be a floating point number.");
  alpha.check_holds(result);
  return {.a = alpha.to_double()};
}

Tensor binary(BinaryOp op, const Tensor& a, const Tensor& b, BinaryArgs args) {
  const Device device = common_device(name_of(op), {&a, &b});
  const Types types = types_of(op, a, b);
  Tensor out = make_result({&a, &b}, types.result, device);
  run(op, args, out, a, b, types.compute);
  trace(name_of(op), out, {a, b}, args);
  return out;
}

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  const Device device = common_device("where", {&condition, &a, &b});
  const DType result = result_type({&a, &b});
  for (const Tensor* x : {&a, &b}) {
    if (x->impl()->wrapped_number) number_of(*x).check_holds(result);
  }
  const Tensor out = make_result({&condition, &a, &b}, result, device);
  const DType compute = compute_type(promote_types(condition.dtype(), result));
  run(TernaryOp::kWhere, out, condition, a, b, compute);
  return out;
}

Tensor ternary(TernaryOp op, const Tensor& a, const Tensor& b, const Tensor& c, double value) {
  const Device device = common_device(kTernaryNames[size_t(op)], {&a, &b, &c});
  const DType result = result_type({&a, &b, &c});
  const Tensor out = make_result({&a, &b, &c}, result, device);
  run(op, out, a, b, c, compute_type(result), value);
  return out;
}

void binary_into(BinaryOp op, const Tensor& out, const Tensor& a, const Tensor& b,
                 BinaryArgs args) {
  const Device device = common_device(name_of(op), {&a, &b});
  if (device != out.device()) {
    throw Error("Expected all tensors to be on the same device, but found at least two devices, ",
                device.is_cuda() ? device : out.device(), " and ",
                device.is_cuda() ? out.device() : device, "! (output of ", name_of(op), ")");
  }
  const Types types = types_of(op, a, b);
  const bool fits = is_floating_point(out.dtype()) || !is_floating_point(types.result);
  if (!fits || (out.dtype() == kBool && types.result != kBool)) {
    throw Error("result type ", scalar_type_name(types.result),
                " can't be cast to the desired output type ", scalar_type_name(out.dtype()),
                " (in ", name_of(op), ")");
  }
  const Shape shape = broadcast_shapes(a.shape(), b.shape());
  if (broadcast_shapes(out.shape(), shape) != out.shape()) {
    throw Error("output with shape ", out.shape(), " doesn't match the broadcast shape ",
                broadcast_shapes(out.shape(), shape), " (in ", name_of(op), ")");
  }
  run(op, args, out, a, b, types.compute);
}

}  // namespace taper::v0::kernels
