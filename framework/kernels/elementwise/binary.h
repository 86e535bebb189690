// Element-wise functions of two tensors, with broadcasting and type promotion.
#pragma once

#include "framework/kernels/elementwise/broadcast.h"

namespace taper::v0::kernels {

// clang-format off
enum class BinaryOp : uint8_t {
  add, sub, mul, div, floor_divide, remainder, pow, maximum, minimum, eq, ne, lt, le, gt, ge,
  logical_and, logical_or, logical_xor, relu_backward, leaky_relu_backward, elu_backward,
  gelu_backward, gelu_tanh_backward, silu_backward, softplus_backward, sigmoid_backward,
  tanh_backward, clamp_backward, fmod, atan2, logaddexp, xlogy, bitwise_and, bitwise_or,
  bitwise_xor, prelu, binary_cross_entropy, selu_backward, celu_backward, hardsigmoid_backward,
  hardswish_backward, mish_backward, hardtanh_backward, shrink_backward, gamma_gradient,
  div_trunc, glu, isclose, mse_loss, l1_loss, huber_loss, bce_with_logits,
  tanhshrink_backward
};
// clang-format on

enum class BinaryRule : uint8_t {
  promote,   // the promoted dtype
  floating,  // integers give float32
  integral,  // the promoted dtype, which must be integer or bool
  no_bool,   // the promoted dtype, which must not be bool
  predicate  // gives bool, computes in the promoted dtype
};
struct BinaryRow {
  BinaryOp op;
  const char* name;  // for messages and tables
  BinaryRule rule = BinaryRule::promote;
};
inline constexpr BinaryRow kBinaryOps[] = {
    {BinaryOp::add, "add"},
    {BinaryOp::sub, "sub"},
    {BinaryOp::mul, "mul"},
    {BinaryOp::div, "div", BinaryRule::floating},
    {BinaryOp::floor_divide, "floor_divide", BinaryRule::no_bool},
    {BinaryOp::remainder, "remainder", BinaryRule::no_bool},
    {BinaryOp::pow, "pow", BinaryRule::no_bool},
    {BinaryOp::maximum, "maximum"},
    {BinaryOp::minimum, "minimum"},
    {BinaryOp::eq, "eq", BinaryRule::predicate},
    {BinaryOp::ne, "ne", BinaryRule::predicate},
    {BinaryOp::lt, "lt", BinaryRule::predicate},
    {BinaryOp::le, "le", BinaryRule::predicate},
    {BinaryOp::gt, "gt", BinaryRule::predicate},
    {BinaryOp::ge, "ge", BinaryRule::predicate},
    {BinaryOp::logical_and, "logical_and", BinaryRule::predicate},
    {BinaryOp::logical_or, "logical_or", BinaryRule::predicate},
    {BinaryOp::logical_xor, "logical_xor", BinaryRule::predicate},
    // Gradients of unary functions: the first operand is dy, the second the saved x or y.
    {BinaryOp::relu_backward, "relu_backward"},              // dy * (x > 0)
    {BinaryOp::leaky_relu_backward, "leaky_relu_backward"},  // dy * (x > 0 ? 1 : a)
    {BinaryOp::elu_backward, "elu_backward"},                // dy * (x > 0 ? 1 : a * exp(x))
    {BinaryOp::gelu_backward, "gelu_backward"},              // erf form, from x
    {BinaryOp::gelu_tanh_backward, "gelu_tanh_backward"},    // tanh form, from x
    {BinaryOp::silu_backward, "silu_backward"},              // from x
    {BinaryOp::softplus_backward, "softplus_backward"},      // from x; a = beta, b = threshold
    {BinaryOp::sigmoid_backward, "sigmoid_backward"},        // from y: dy * y * (1 - y)
    {BinaryOp::tanh_backward, "tanh_backward"},              // from y: dy * (1 - y * y)
    {BinaryOp::clamp_backward, "clamp_backward"},            // dy where a <= x <= b, else 0
    {BinaryOp::fmod, "fmod", BinaryRule::no_bool},
    {BinaryOp::atan2, "atan2", BinaryRule::floating},
    {BinaryOp::logaddexp, "logaddexp", BinaryRule::floating},
    {BinaryOp::xlogy, "xlogy", BinaryRule::floating},
    {BinaryOp::bitwise_and, "bitwise_and", BinaryRule::integral},
    {BinaryOp::bitwise_or, "bitwise_or", BinaryRule::integral},
    {BinaryOp::bitwise_xor, "bitwise_xor", BinaryRule::integral},
    {BinaryOp::prelu, "prelu", BinaryRule::floating},
    {BinaryOp::binary_cross_entropy, "binary_cross_entropy", BinaryRule::floating},
    {BinaryOp::selu_backward, "selu_backward"},  // from x, like all gradients below
    {BinaryOp::celu_backward, "celu_backward"},  // a = alpha
    {BinaryOp::hardsigmoid_backward, "hardsigmoid_backward"},
    {BinaryOp::hardswish_backward, "hardswish_backward"},
    {BinaryOp::mish_backward, "mish_backward"},
    {BinaryOp::hardtanh_backward, "hardtanh_backward"},  // 0 where x <= a or x >= b, else dy
    {BinaryOp::shrink_backward, "shrink_backward"},      // 0 where |x| <= a, else dy
    // Gradient of a sample with respect to the shape.
    {BinaryOp::gamma_gradient, "gamma_gradient", BinaryRule::floating},
    {BinaryOp::div_trunc, "div_trunc", BinaryRule::no_bool},
    {BinaryOp::glu, "glu", BinaryRule::floating},           // x * sigmoid(gate)
    {BinaryOp::isclose, "isclose", BinaryRule::predicate},  // |x - y| <= b + a |y|
    {BinaryOp::mse_loss, "mse_loss"},
    {BinaryOp::l1_loss, "l1_loss"},
    {BinaryOp::huber_loss, "huber_loss", BinaryRule::floating},  // a = delta
    {BinaryOp::bce_with_logits, "bce_with_logits", BinaryRule::floating},
    {BinaryOp::tanhshrink_backward, "tanhshrink_backward"},  // from x
};
static_assert(rows_are_in_order(kBinaryOps));
constexpr const BinaryRow& row_of(BinaryOp op) { return kBinaryOps[size_t(op)]; }

// Parameters of the ops that have any: alpha, the factor of the second operand, in add and sub (a,
// by default 1), and the parameters in the comments above.
struct BinaryArgs {
  double a = 1, b = 0;
};

// Returns the args of a + alpha * b and a - alpha * b. Throws Error if the result dtype cannot
// represent alpha.
BinaryArgs scaled_by(const Scalar& alpha, const Tensor& a, const Tensor& b);

// Returns op(a, b). Comparisons and logical ops give bool; div of integers gives float32. Throws
// Error, with PyTorch's message, for shapes that do not broadcast and operands on two devices.
Tensor binary(BinaryOp op, const Tensor& a, const Tensor& b, BinaryArgs args = {});
// Writes op(a, b) to a tensor of the result's shape, which may be a itself. Throws Error if out's
// dtype cannot hold the result (floating into integer).
void binary_into(BinaryOp op, const Tensor& out, const Tensor& a, const Tensor& b,
                 BinaryArgs args = {});
inline const char* name_of(BinaryOp op) { return row_of(op).name; }

// Functions of three tensors, any of which may be numbers, in their promoted dtype.
enum class TernaryOp : uint8_t { where, clamp, lerp, addcmul, addcdiv, mse, l1, huber };
inline constexpr const char* kTernaryNames[] = {"where",
                                                "clamp_tensors",
                                                "lerp",
                                                "addcmul",
                                                "addcdiv",
                                                "mse_loss_backward",
                                                "l1_loss_backward",
                                                "huber_loss_backward"};
// Returns min(max(a, b), c) for clamp, a + c * (b - a) for lerp, a + value * b * c for addcmul and
// a + value * b / c for addcdiv. mse, l1 and huber are gradients of losses of b - c, where a is dy
// and value is delta.
Tensor ternary(TernaryOp op, const Tensor& a, const Tensor& b, const Tensor& c, double value = 1);
// Returns a where condition is nonzero and b elsewhere, in the promoted dtype of a and b. Throws
// Error if that dtype cannot represent an operand that is a number.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);

namespace cpu {
void binary(BinaryOp op, BinaryArgs args, const TensorIterator& iter, DType compute);
void ternary(TernaryOp op, double value, const TensorIterator& iter, DType compute);
}  // namespace cpu
namespace cuda {
void binary(BinaryOp op, BinaryArgs args, const TensorIterator& iter, DType compute);
void ternary(TernaryOp op, double value, const TensorIterator& iter, DType compute);
}  // namespace cuda

}  // namespace taper::v0::kernels
