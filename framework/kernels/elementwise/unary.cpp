#include "framework/kernels/elementwise/unary.h"

#include "framework/kernels/dispatch.h"

namespace taper::kernels {
namespace {

// What dtypes an op takes and gives.
enum class Rule : uint8_t {
  same,      // the dtype of x
  floating,  // integers give float32
  predicate  // gives bool, computes in the dtype of x
};

struct Entry {
  const char* name;
  Rule rule;
};

// In the order of UnaryOp.
constexpr Entry kOps[] = {
    {"neg", Rule::same},
    {"abs", Rule::same},
    {"sign", Rule::same},
    {"square", Rule::same},
    {"sqrt", Rule::floating},
    {"rsqrt", Rule::floating},
    {"reciprocal", Rule::floating},
    {"exp", Rule::floating},
    {"expm1", Rule::floating},
    {"log", Rule::floating},
    {"log1p", Rule::floating},
    {"sin", Rule::floating},
    {"cos", Rule::floating},
    {"tanh", Rule::floating},
    {"sigmoid", Rule::floating},
    {"relu", Rule::same},
    {"leaky_relu", Rule::floating},
    {"elu", Rule::floating},
    {"gelu", Rule::floating},
    {"gelu_tanh", Rule::floating},
    {"silu", Rule::floating},
    {"softplus", Rule::floating},
    {"erf", Rule::floating},
    {"floor", Rule::same},
    {"ceil", Rule::same},
    {"round", Rule::same},
    {"clamp", Rule::same},
    {"logical_not", Rule::predicate},
    {"isnan", Rule::predicate},
    {"isinf", Rule::predicate},
    {"isfinite", Rule::predicate},
};
static_assert(sizeof kOps / sizeof kOps[0] == size_t(UnaryOp::isfinite) + 1);

DType result_dtype(UnaryOp op, const Tensor& x) {
  const Rule rule = kOps[size_t(op)].rule;
  if (rule == Rule::predicate) return kBool;
  if (rule == Rule::same || x.is_floating_point()) return x.dtype();
  return x.impl()->wrapped_number ? kFloat64 : kFloat32;
}

}  // namespace

const char* name_of(UnaryOp op) { return kOps[size_t(op)].name; }

void unary_into(UnaryOp op, const Tensor& out, const Tensor& x, UnaryArgs args) {
  const DType result = result_dtype(op, x);
  if (op == UnaryOp::neg && x.dtype() == kBool) {
    throw Error(
        "Negation, the `-` operator, on a bool tensor is not supported. "
        "If you are trying to invert a mask, use logical_not() instead.");
  }
  const DType compute = compute_type(result == kBool ? x.dtype() : result);
  const Loop loop = make_loop(out, {&x});
  dispatch(
      out.device(), [&] { cpu::unary(op, args, loop, compute); },
      [&] { cuda::unary(op, args, loop, compute); }, name_of(op));
}

Tensor unary(UnaryOp op, const Tensor& x, UnaryArgs args) {
  Tensor y = empty_like_layout(x, result_dtype(op, x));
  y.impl()->wrapped_number = x.impl()->wrapped_number;
  unary_into(op, y, x, args);
  return y;
}

}  // namespace taper::kernels
