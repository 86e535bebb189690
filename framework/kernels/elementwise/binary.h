// Element-wise functions of two tensors, with broadcasting and type promotion.
#pragma once

#include "framework/kernels/elementwise/broadcast.h"

namespace taper::v0::kernels {

// clang-format off
enum class BinaryOp : uint8_t {
  kAdd, kSub, kMul, kDiv, kFloorDivide, kRemainder, kPow, kMaximum, kMinimum, kEq, kNe, kLt, kLe, kGt, kGe,
  kLogicalAnd, kLogicalOr, kLogicalXor, kReluBackward, kLeakyReluBackward, kEluBackward,
  kGeluBackward, kGeluTanhBackward, kSiluBackward, kSoftplusBackward, kSigmoidBackward,
  kTanhBackward, kClampBackward, kFmod, kAtan2, kLogaddexp, kXlogy, kBitwiseAnd, kBitwiseOr,
  kBitwiseXor, kPrelu, kBinaryCrossEntropy, kSeluBackward, kCeluBackward, kHardsigmoidBackward,
  kHardswishBackward, kMishBackward, kHardtanhBackward, kShrinkBackward, kGammaGradient,
  kDivTrunc, kGlu, kIsclose, kMseLoss, kL1Loss, kHuberLoss, kBceWithLogits,
  kTanhshrinkBackward, kSquareBackward, kSqrtBackward, kRsqrtBackward, kReciprocalBackward,
  kExpm1Backward, kExp2Backward, kLog2Backward, kLog10Backward, kLog1pBackward, kSinBackward,
  kCosBackward, kTanBackward, kAsinBackward, kAcosBackward, kAtanBackward, kSinhBackward,
  kCoshBackward, kErfBackward, kSoftsignBackward, kGluBackward
};
// clang-format on

enum class BinaryRule : uint8_t {
  kPromote,   // the promoted dtype
  kFloating,  // integers give float32
  kIntegral,  // the promoted dtype, which must be integer or bool
  kNoBool,    // the promoted dtype, which must not be bool
  kPredicate  // gives bool, computes in the promoted dtype
};
struct BinaryRow {
  BinaryOp op;
  const char* name;  // for messages and tables
  BinaryRule rule = BinaryRule::kPromote;
};
inline constexpr BinaryRow kBinaryOps[] = {
    {BinaryOp::kAdd, "add"},
    {BinaryOp::kSub, "sub"},
    {BinaryOp::kMul, "mul"},
    {BinaryOp::kDiv, "div", BinaryRule::kFloating},
    {BinaryOp::kFloorDivide, "floor_divide", BinaryRule::kNoBool},
    {BinaryOp::kRemainder, "remainder", BinaryRule::kNoBool},
    {BinaryOp::kPow, "pow", BinaryRule::kNoBool},
    {BinaryOp::kMaximum, "maximum"},
    {BinaryOp::kMinimum, "minimum"},
    {BinaryOp::kEq, "eq", BinaryRule::kPredicate},
    {BinaryOp::kNe, "ne", BinaryRule::kPredicate},
    {BinaryOp::kLt, "lt", BinaryRule::kPredicate},
    {BinaryOp::kLe, "le", BinaryRule::kPredicate},
    {BinaryOp::kGt, "gt", BinaryRule::kPredicate},
    {BinaryOp::kGe, "ge", BinaryRule::kPredicate},
    {BinaryOp::kLogicalAnd, "logical_and", BinaryRule::kPredicate},
    {BinaryOp::kLogicalOr, "logical_or", BinaryRule::kPredicate},
    {BinaryOp::kLogicalXor, "logical_xor", BinaryRule::kPredicate},
    // Gradients of unary functions. The first operand is dy, and the second is the saved x or y.
    {BinaryOp::kReluBackward, "relu_backward"},             // dy * (x > 0)
    {BinaryOp::kLeakyReluBackward, "leaky_relu_backward"},  // dy * (x > 0 ? 1 : a)
    {BinaryOp::kEluBackward, "elu_backward"},               // dy * (x > 0 ? 1 : a * exp(x))
    {BinaryOp::kGeluBackward, "gelu_backward"},             // erf form, from x
    {BinaryOp::kGeluTanhBackward, "gelu_tanh_backward"},    // tanh form, from x
    {BinaryOp::kSiluBackward, "silu_backward"},             // from x
    {BinaryOp::kSoftplusBackward, "softplus_backward"},     // from x; a = beta, b = threshold
    {BinaryOp::kSigmoidBackward, "sigmoid_backward"},       // from y: dy * y * (1 - y)
    {BinaryOp::kTanhBackward, "tanh_backward"},             // from y: dy * (1 - y * y)
    {BinaryOp::kClampBackward, "clamp_backward"},           // dy where a <= x <= b, else 0
    {BinaryOp::kFmod, "fmod", BinaryRule::kNoBool},
    {BinaryOp::kAtan2, "atan2", BinaryRule::kFloating},
    {BinaryOp::kLogaddexp, "logaddexp", BinaryRule::kFloating},
    {BinaryOp::kXlogy, "xlogy", BinaryRule::kFloating},
    {BinaryOp::kBitwiseAnd, "bitwise_and", BinaryRule::kIntegral},
    {BinaryOp::kBitwiseOr, "bitwise_or", BinaryRule::kIntegral},
    {BinaryOp::kBitwiseXor, "bitwise_xor", BinaryRule::kIntegral},
    {BinaryOp::kPrelu, "prelu", BinaryRule::kFloating},
    {BinaryOp::kBinaryCrossEntropy, "binary_cross_entropy", BinaryRule::kFloating},
    {BinaryOp::kSeluBackward, "selu_backward"},  // from x, like all gradients below
    {BinaryOp::kCeluBackward, "celu_backward"},  // a = alpha
    {BinaryOp::kHardsigmoidBackward, "hardsigmoid_backward"},
    {BinaryOp::kHardswishBackward, "hardswish_backward"},
    {BinaryOp::kMishBackward, "mish_backward"},
    {BinaryOp::kHardtanhBackward, "hardtanh_backward"},  // 0 where x <= a or x >= b, else dy
    {BinaryOp::kShrinkBackward, "shrink_backward"},      // 0 where |x| <= a, else dy
    // The gradient of a gamma-distributed sample with respect to the shape.
    {BinaryOp::kGammaGradient, "gamma_gradient", BinaryRule::kFloating},
    {BinaryOp::kDivTrunc, "div_trunc", BinaryRule::kNoBool},
    {BinaryOp::kGlu, "glu", BinaryRule::kFloating},           // x * sigmoid(gate)
    {BinaryOp::kIsclose, "isclose", BinaryRule::kPredicate},  // |x - y| <= b + a |y|
    {BinaryOp::kMseLoss, "mse_loss"},
    {BinaryOp::kL1Loss, "l1_loss"},
    {BinaryOp::kHuberLoss, "huber_loss", BinaryRule::kFloating},  // a = delta
    {BinaryOp::kBceWithLogits, "bce_with_logits", BinaryRule::kFloating},
    {BinaryOp::kTanhshrinkBackward, "tanhshrink_backward"},  // from x
    {BinaryOp::kSquareBackward, "square_backward"},          // from x
    {BinaryOp::kSqrtBackward, "sqrt_backward"},              // from y, like the next four
    {BinaryOp::kRsqrtBackward, "rsqrt_backward"},
    {BinaryOp::kReciprocalBackward, "reciprocal_backward"},
    {BinaryOp::kExpm1Backward, "expm1_backward"},
    {BinaryOp::kExp2Backward, "exp2_backward"},
    {BinaryOp::kLog2Backward, "log2_backward"},  // from x, like those below unless they say y
    {BinaryOp::kLog10Backward, "log10_backward"},
    {BinaryOp::kLog1pBackward, "log1p_backward"},
    {BinaryOp::kSinBackward, "sin_backward"},
    {BinaryOp::kCosBackward, "cos_backward"},
    {BinaryOp::kTanBackward, "tan_backward"},  // from y
    {BinaryOp::kAsinBackward, "asin_backward"},
    {BinaryOp::kAcosBackward, "acos_backward"},
    {BinaryOp::kAtanBackward, "atan_backward"},
    {BinaryOp::kSinhBackward, "sinh_backward"},
    {BinaryOp::kCoshBackward, "cosh_backward"},
    {BinaryOp::kErfBackward, "erf_backward"},
    {BinaryOp::kSoftsignBackward, "softsign_backward"},
    {BinaryOp::kGluBackward, "glu_backward"},  // dy * x and the gate to the gate's gradient
};
static_assert(rows_are_in_order(kBinaryOps));
constexpr const BinaryRow& row_of(BinaryOp op) { return kBinaryOps[size_t(op)]; }

// Parameters of the ops that have any. In add and sub, a is alpha, the factor of the second operand
// (by default 1). For the other ops, see the comments above.
struct BinaryArgs {
  double a = 1, b = 0;
};

// Returns the args of a + alpha * b and a - alpha * b. Throws Error if the result dtype cannot
// represent alpha.
BinaryArgs scaled_by(const Scalar& alpha, const Tensor& a, const Tensor& b);

// Returns op(a, b). Comparisons and logical ops give bool; div of integers gives float32. Throws
// Error, with PyTorch's message, for shapes that do not broadcast and for operands on two devices.
Tensor binary(BinaryOp op, const Tensor& a, const Tensor& b, BinaryArgs args = {});
// Writes op(a, b) to a tensor of the result's shape, which may be a itself. Throws Error if out's
// dtype cannot hold the result (floating into integer).
void binary_into(BinaryOp op, const Tensor& out, const Tensor& a, const Tensor& b,
                 BinaryArgs args = {});
inline const char* name_of(BinaryOp op) { return row_of(op).name; }

// Functions of three tensors, any of which may be numbers, in their promoted dtype.
enum class TernaryOp : uint8_t {
  kWhere,
  kClamp,
  kLerp,
  kAddcmul,
  kAddcdiv,
  kMse,
  kL1,
  kHuber,
  kMaximumBackward,
  kMinimumBackward,
  kAtan2Backward,
  kPowBackward,
  kPowExponentBackward
};
inline constexpr const char* kTernaryNames[] = {"where",
                                                "clamp_tensors",
                                                "lerp",
                                                "addcmul",
                                                "addcdiv",
                                                "mse_loss_backward",
                                                "l1_loss_backward",
                                                "huber_loss_backward",
                                                "maximum_backward",
                                                "minimum_backward",
                                                "atan2_backward",
                                                "pow_backward",
                                                "pow_exponent_backward"};
// Returns op(a, b, c). clamp is min(max(a, b), c), lerp is a + c * (b - a), addcmul is a + value *
// b * c, and addcdiv is a + value * b / c. mse, l1 and huber compute the gradient of the loss of b
// - c; there a is the gradient of the result, and value is Huber's delta. The others compute the
// gradient of an operand from a, the gradient of the result: maximum and minimum that of b, where c
// is the other operand; atan2 that of b in atan2(b, c), times value; pow that of the base b, where
// c is the exponent; pow_exponent that of the exponent c, where a is multiplied by the result.
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
