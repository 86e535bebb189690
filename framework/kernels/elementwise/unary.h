// Element-wise functions of one tensor.
#pragma once

#include "framework/kernels/elementwise/broadcast.h"

namespace taper::v0::kernels {

// clang-format off
enum class UnaryOp : uint8_t {
  neg, abs, sign, square, sqrt, rsqrt, reciprocal, exp, expm1, log, log2, log1p, sin, cos, tanh,
  sigmoid, relu, leaky_relu, elu, gelu, gelu_tanh, silu, softplus, erf, floor, ceil, round, clamp,
  logical_not, isnan, isinf, isfinite, exp2, log10, tan, asin, acos, atan, sinh, cosh, trunc, frac,
  lgamma, digamma, polygamma, selu, celu, hardsigmoid, hardswish, mish, logsigmoid, hardshrink,
  softshrink, nan_to_num, bitwise_not, softsign, tanhshrink
};
// clang-format on

// The dtypes that an op accepts and returns.
enum class UnaryRule : uint8_t {
  same,      // the dtype of x
  floating,  // integers give float32
  predicate  // gives bool, computes in the dtype of x
};
struct UnaryRow {
  UnaryOp op;
  const char* name;  // for messages and tables
  UnaryRule rule;
  bool needs_range = false;  // computed in float32 under autocast
};
inline constexpr UnaryRow kUnaryOps[] = {
    {UnaryOp::neg, "neg", UnaryRule::same},
    {UnaryOp::abs, "abs", UnaryRule::same},
    {UnaryOp::sign, "sign", UnaryRule::same},
    {UnaryOp::square, "square", UnaryRule::same, true},
    {UnaryOp::sqrt, "sqrt", UnaryRule::floating},
    {UnaryOp::rsqrt, "rsqrt", UnaryRule::floating, true},
    {UnaryOp::reciprocal, "reciprocal", UnaryRule::floating, true},
    {UnaryOp::exp, "exp", UnaryRule::floating, true},
    {UnaryOp::expm1, "expm1", UnaryRule::floating, true},
    {UnaryOp::log, "log", UnaryRule::floating, true},
    {UnaryOp::log2, "log2", UnaryRule::floating, true},
    {UnaryOp::log1p, "log1p", UnaryRule::floating, true},
    {UnaryOp::sin, "sin", UnaryRule::floating},
    {UnaryOp::cos, "cos", UnaryRule::floating},
    {UnaryOp::tanh, "tanh", UnaryRule::floating},
    {UnaryOp::sigmoid, "sigmoid", UnaryRule::floating},
    {UnaryOp::relu, "relu", UnaryRule::same},
    {UnaryOp::leaky_relu, "leaky_relu", UnaryRule::floating},
    {UnaryOp::elu, "elu", UnaryRule::floating},
    {UnaryOp::gelu, "gelu", UnaryRule::floating},
    {UnaryOp::gelu_tanh, "gelu_tanh", UnaryRule::floating},
    {UnaryOp::silu, "silu", UnaryRule::floating},
    {UnaryOp::softplus, "softplus", UnaryRule::floating, true},
    {UnaryOp::erf, "erf", UnaryRule::floating},
    {UnaryOp::floor, "floor", UnaryRule::same},
    {UnaryOp::ceil, "ceil", UnaryRule::same},
    {UnaryOp::round, "round", UnaryRule::same},
    {UnaryOp::clamp, "clamp", UnaryRule::same},
    {UnaryOp::logical_not, "logical_not", UnaryRule::predicate},
    {UnaryOp::isnan, "isnan", UnaryRule::predicate},
    {UnaryOp::isinf, "isinf", UnaryRule::predicate},
    {UnaryOp::isfinite, "isfinite", UnaryRule::predicate},
    {UnaryOp::exp2, "exp2", UnaryRule::floating},
    {UnaryOp::log10, "log10", UnaryRule::floating, true},
    {UnaryOp::tan, "tan", UnaryRule::floating, true},
    {UnaryOp::asin, "asin", UnaryRule::floating, true},
    {UnaryOp::acos, "acos", UnaryRule::floating, true},
    {UnaryOp::atan, "atan", UnaryRule::floating},
    {UnaryOp::sinh, "sinh", UnaryRule::floating, true},
    {UnaryOp::cosh, "cosh", UnaryRule::floating, true},
    {UnaryOp::trunc, "trunc", UnaryRule::same},
    {UnaryOp::frac, "frac", UnaryRule::floating},
    {UnaryOp::lgamma, "lgamma", UnaryRule::floating},
    {UnaryOp::digamma, "digamma", UnaryRule::floating},
    {UnaryOp::polygamma, "polygamma", UnaryRule::floating},
    {UnaryOp::selu, "selu", UnaryRule::floating},
    {UnaryOp::celu, "celu", UnaryRule::floating},
    {UnaryOp::hardsigmoid, "hardsigmoid", UnaryRule::floating},
    {UnaryOp::hardswish, "hardswish", UnaryRule::floating},
    {UnaryOp::mish, "mish", UnaryRule::floating},
    {UnaryOp::logsigmoid, "logsigmoid", UnaryRule::floating},
    {UnaryOp::hardshrink, "hardshrink", UnaryRule::floating},
    {UnaryOp::softshrink, "softshrink", UnaryRule::floating},
    {UnaryOp::nan_to_num, "nan_to_num", UnaryRule::floating},
    {UnaryOp::bitwise_not, "bitwise_not", UnaryRule::same},
    {UnaryOp::softsign, "softsign", UnaryRule::floating},
    {UnaryOp::tanhshrink, "tanhshrink", UnaryRule::floating},
};
static_assert(rows_are_in_order(kUnaryOps));
constexpr const UnaryRow& row_of(UnaryOp op) { return kUnaryOps[size_t(op)]; }

// Parameters of the ops that have any: leaky_relu (a = slope), elu and celu (a = alpha), softplus
// (a = beta, b = threshold), clamp (a = low, b = high), polygamma (a = order, 1 or 2), hardshrink
// and softshrink (a = lambda), nan_to_num (a, b, c replace NaN, inf, -inf).
struct UnaryArgs {
  double a = 0, b = 0, c = 0;
};

// Returns op(x). Transcendental functions of integers give float32, and logical functions give
// bool. Throws Error for neg of bool.
Tensor unary(UnaryOp op, const Tensor& x, UnaryArgs args = {});
// Writes op(x) to a tensor of x's shape, which may be x itself.
void unary_into(UnaryOp op, const Tensor& out, const Tensor& x, UnaryArgs args = {});
inline const char* name_of(UnaryOp op) { return row_of(op).name; }

// compute is kFloat32, kFloat64 or kInt64. Elements are converted to it when loaded and from it
// when stored.
namespace cpu {
void unary(UnaryOp op, UnaryArgs args, const TensorIterator& iter, DType compute);
}
namespace cuda {
void unary(UnaryOp op, UnaryArgs args, const TensorIterator& iter, DType compute);
}

}  // namespace taper::v0::kernels
