#include "autograd/ops/unary_ops.h"

#include <limits>
#include <numbers>
#include <optional>

#include "autograd/ops/op_helpers.h"
#include "framework/kernels/common/arithmetic.h"
#include "framework/kernels/elementwise/binary.h"
#include "framework/kernels/elementwise/unary.h"

namespace taper::v0 {
namespace {

using kernels::BinaryOp;
using kernels::UnaryArgs;
using Op = kernels::UnaryOp;
using T = const Tensor&;
using A = const UnaryArgs&;

// Returns the gradient of y = scale * x above 0, and scale * alpha * (exp(inner * x) - 1) below.
Tensor exponential_slope(T dy, T x, double alpha, double scale, double inner) {
  // Above 0 exp may overflow, and 0 * inf would give NaN in the next derivative.
  const Tensor below = exp(zero_outside(x, x < 0) * inner) * (scale * alpha * inner);
  return where(x <= 0, dy * below, dy * scale);
}

// Returns the gradient of a function that is 0 where |x| <= a and has slope 1 elsewhere.
Tensor shrunk_slope(T dy, T x, A args) { return zero_outside(dy, logical_not(abs(x) <= args.a)); }

Tensor no_slope(T dy, T, A) { return zeros_like(dy); }

// Returns the derivative of digamma of order 1 or 2.
Tensor polygamma(int order, T x);

// The tensor saved for the backward pass: none, the input or the result.
enum class Keep : uint8_t { kNone, kX, kY };

// An entry of the table of derivatives. dx is computed from dy and the saved tensor by public
// functions, so that it can be differentiated again. An op without dx is not differentiable.
struct Derivative {
  Op op;
  const char* node = nullptr;  // PyTorch's name
  Keep keep = Keep::kNone;
  Tensor (*dx)(T dy, T kept, A args) = nullptr;
  std::optional<BinaryOp> fused = std::nullopt;  // kernel that computes dx when it is not recorded
};

constexpr Derivative kDerivatives[] = {
    {Op::kNeg, "NegBackward0", Keep::kNone, [](T dy, T, A) { return neg(dy); }},
    {Op::kAbs, "AbsBackward0", Keep::kX, [](T dy, T x, A) { return dy * sign(x); }},
    {Op::kSign, "SignBackward0", Keep::kNone, no_slope},
    {Op::kSquare, "PowBackward0", Keep::kX, [](T dy, T x, A) { return dy * (x * 2); },
     BinaryOp::kSquareBackward},
    {Op::kSqrt, "SqrtBackward0", Keep::kY, [](T dy, T y, A) { return dy / (y * 2); },
     BinaryOp::kSqrtBackward},
    {Op::kRsqrt, "RsqrtBackward0", Keep::kY, [](T dy, T y, A) { return dy * (y * y * y * -0.5); },
     BinaryOp::kRsqrtBackward},
    {Op::kReciprocal, "ReciprocalBackward0", Keep::kY, [](T dy, T y, A) { return -(dy * (y * y)); },
     BinaryOp::kReciprocalBackward},
    {Op::kExp, "ExpBackward0", Keep::kY, [](T dy, T y, A) { return dy * y; }},
    {Op::kExpm1, "Expm1Backward0", Keep::kY, [](T dy, T y, A) { return dy * (y + 1); },
     BinaryOp::kExpm1Backward},
    {Op::kLog, "LogBackward0", Keep::kX, [](T dy, T x, A) { return dy / x; }},
    {Op::kLog2, "Log2Backward0", Keep::kX,
     [](T dy, T x, A) { return dy / (x * std::numbers::ln2); }, BinaryOp::kLog2Backward},
    {Op::kLog1p, "Log1PBackward0", Keep::kX, [](T dy, T x, A) { return dy / (x + 1); },
     BinaryOp::kLog1pBackward},
    {Op::kSin, "SinBackward0", Keep::kX, [](T dy, T x, A) { return dy * cos(x); },
     BinaryOp::kSinBackward},
    {Op::kCos, "CosBackward0", Keep::kX, [](T dy, T x, A) { return -(dy * sin(x)); },
     BinaryOp::kCosBackward},
    {Op::kTanh, "TanhBackward0", Keep::kY, [](T dy, T y, A) { return dy * (1 - y * y); },
     BinaryOp::kTanhBackward},
    {Op::kSigmoid, "SigmoidBackward0", Keep::kY, [](T dy, T y, A) { return dy * (y * (1 - y)); },
     BinaryOp::kSigmoidBackward},
    // y > 0 exactly where x > 0, and the next op usually saves y anyway.
    {Op::kRelu, "ReluBackward0", Keep::kY, [](T dy, T y, A) { return where(y <= 0, 0, dy); },
     BinaryOp::kReluBackward},
    {Op::kLeakyRelu, "LeakyReluBackward0", Keep::kX,
     [](T dy, T x, A args) { return where(x > 0, dy, dy * args.a); }, BinaryOp::kLeakyReluBackward},
    {Op::kElu, "EluBackward0", Keep::kX,
     [](T dy, T x, A args) { return exponential_slope(dy, x, args.a, 1, 1); },
     BinaryOp::kEluBackward},
    {Op::kGelu, "GeluBackward0", Keep::kX,
     [](T dy, T x, A) { return activation_gradient(Activation::kGelu, dy, x); },
     BinaryOp::kGeluBackward},
    {Op::kGeluTanh, "GeluBackward0", Keep::kX,
     [](T dy, T x, A) { return activation_gradient(Activation::kGeluTanh, dy, x); },
     BinaryOp::kGeluTanhBackward},
    {Op::kSilu, "SiluBackward0", Keep::kX,
     [](T dy, T x, A) {
       const Tensor s = sigmoid(x);
       return dy * (s * (x * (1 - s) + 1));
     },
     BinaryOp::kSiluBackward},
    {Op::kSoftplus, "SoftplusBackward0", Keep::kX,
     [](T dy, T x, A args) {
       const Tensor z = x * args.a;
       return where(z > args.b, dy, dy * sigmoid(z));
     },
     BinaryOp::kSoftplusBackward},
    {Op::kErf, "ErfBackward0", Keep::kX,
     [](T dy, T x, A) { return dy * (exp(neg(x * x)) * (2 * std::numbers::inv_sqrtpi)); },
     BinaryOp::kErfBackward},
    {Op::kFloor, "FloorBackward0", Keep::kNone, no_slope},
    {Op::kCeil, "CeilBackward0", Keep::kNone, no_slope},
    {Op::kRound, "RoundBackward0", Keep::kNone, no_slope},
    {Op::kClamp, "ClampBackward1", Keep::kX,
     [](T dy, T x, A args) { return zero_outside(dy, logical_and(x >= args.a, x <= args.b)); },
     BinaryOp::kClampBackward},
    {Op::kLogicalNot},
    {Op::kIsnan},
    {Op::kIsinf},
    {Op::kIsfinite},
    {Op::kExp2, "Exp2Backward0", Keep::kY,
     [](T dy, T y, A) { return dy * (y * std::numbers::ln2); }, BinaryOp::kExp2Backward},
    {Op::kLog10, "Log10Backward0", Keep::kX,
     [](T dy, T x, A) { return dy / (x * std::numbers::ln10); }, BinaryOp::kLog10Backward},
    {Op::kTan, "TanBackward0", Keep::kY, [](T dy, T y, A) { return dy * (y * y + 1); },
     BinaryOp::kTanBackward},
    {Op::kAsin, "AsinBackward0", Keep::kX, [](T dy, T x, A) { return dy * rsqrt(1 - x * x); },
     BinaryOp::kAsinBackward},
    {Op::kAcos, "AcosBackward0", Keep::kX, [](T dy, T x, A) { return -(dy * rsqrt(1 - x * x)); },
     BinaryOp::kAcosBackward},
    {Op::kAtan, "AtanBackward0", Keep::kX, [](T dy, T x, A) { return dy / (x * x + 1); },
     BinaryOp::kAtanBackward},
    {Op::kSinh, "SinhBackward0", Keep::kX, [](T dy, T x, A) { return dy * cosh(x); },
     BinaryOp::kSinhBackward},
    {Op::kCosh, "CoshBackward0", Keep::kX, [](T dy, T x, A) { return dy * sinh(x); },
     BinaryOp::kCoshBackward},
    {Op::kTrunc, "TruncBackward0", Keep::kNone, no_slope},
    {Op::kFrac, "FracBackward0", Keep::kNone, [](T dy, T, A) { return dy; }},
    {Op::kLgamma, "LgammaBackward0", Keep::kX, [](T dy, T x, A) { return dy * digamma(x); }},
    {Op::kDigamma, "DigammaBackward0", Keep::kX, [](T dy, T x, A) { return dy * polygamma(1, x); }},
    {Op::kPolygamma, "PolygammaBackward0", Keep::kX,
     [](T dy, T x, A args) {
       require<NotImplementedError>(args.a == 1, "digamma can be differentiated only twice");
       return dy * polygamma(2, x);
     }},
    {Op::kSelu, "EluBackward0", Keep::kX,
     [](T dy, T x, A) {
       return exponential_slope(dy, x, kernels::kSeluAlpha, kernels::kSeluScale, 1);
     },
     BinaryOp::kSeluBackward},
    {Op::kCelu, "EluBackward0", Keep::kX,
     [](T dy, T x, A args) { return exponential_slope(dy, x, args.a, 1, 1 / args.a); },
     BinaryOp::kCeluBackward},
    {Op::kHardsigmoid, "HardsigmoidBackward0", Keep::kX,
     [](T dy, T x, A) { return zero_outside(dy / 6, logical_and(x > -3, x < 3)); },
     BinaryOp::kHardsigmoidBackward},
    {Op::kHardswish, "HardswishBackward0", Keep::kX,
     [](T dy, T x, A) { return where(x <= -3, 0, where(x < 3, dy * (x / 3 + 0.5), dy)); },
     BinaryOp::kHardswishBackward},
    {Op::kMish, "MishBackward0", Keep::kX,
     [](T dy, T x, A) {
       const Tensor t = tanh(softplus(x));
       return dy * (t + x * sigmoid(x) * (1 - t * t));
     },
     BinaryOp::kMishBackward},
    {Op::kLogsigmoid, "LogSigmoidBackward0", Keep::kX,
     [](T dy, T x, A) { return dy * sigmoid(neg(x)); }, BinaryOp::kSoftplusBackward},
    {Op::kHardshrink, "HardshrinkBackward0", Keep::kX, shrunk_slope, BinaryOp::kShrinkBackward},
    {Op::kSoftshrink, "SoftshrinkBackward0", Keep::kX, shrunk_slope, BinaryOp::kShrinkBackward},
    {Op::kNanToNum, "NanToNumBackward0", Keep::kX,
     [](T dy, T x, A) { return zero_outside(dy, isfinite(x)); }},
    {Op::kBitwiseNot},
    {Op::kSoftsign, "DivBackward0", Keep::kX, [](T dy, T x, A) { return dy / square(abs(x) + 1); },
     BinaryOp::kSoftsignBackward},
    {Op::kTanhshrink, "SubBackward0", Keep::kX, [](T dy, T x, A) { return dy * square(tanh(x)); },
     BinaryOp::kTanhshrinkBackward},
    {Op::kErfinv, "ErfinvBackward0", Keep::kY,
     [](T dy, T y, A) { return dy * (exp(y * y) * (0.5 / std::numbers::inv_sqrtpi)); }},
};
static_assert(std::size(kDerivatives) == std::size(kernels::kUnaryOps) &&
              kernels::rows_are_in_order(kDerivatives));

Tensor pointwise(Op op, const Tensor& x, UnaryArgs args = {}) {
  if (kernels::row_of(op).needs_range && autocasts(x)) return in_float32(pointwise, op, x, args);
  Tensor y = kernels::unary(op, x, args);
  const Derivative& row = kDerivatives[size_t(op)];
  if (!row.dx || !needs_grad({x})) return y;
  SavedTensor kept = row.keep == Keep::kX   ? SavedTensor(x)
                     : row.keep == Keep::kY ? SavedTensor::output(y)
                                            : SavedTensor();
  return record(row.node, y, {x}, [kept = std::move(kept), op, args](Gradients& g) {
    const Derivative& of = kDerivatives[size_t(op)];
    const Tensor t = kept.get(g);
    const bool fused = of.fused && !is_grad_enabled();
    g.dx(0) = fused ? kernels::binary(*of.fused, g.dy(), t, {.a = args.a, .b = args.b})
                    : of.dx(g.dy(), t, args);
  });
}

// Returns x. clamp would take an undefined tensor as no bound, so it is refused here.
T bound(T x) {
  require(x.defined(), "Expected a proper Tensor but got an undefined Tensor");
  return x;
}

Tensor polygamma(int order, T x) { return pointwise(Op::kPolygamma, x, {.a = double(order)}); }

}  // namespace

Tensor neg(const Tensor& x) { return pointwise(Op::kNeg, x); }
Tensor abs(const Tensor& x) { return pointwise(Op::kAbs, x); }
Tensor sign(const Tensor& x) { return pointwise(Op::kSign, x); }
Tensor square(const Tensor& x) {
  return pointwise(Op::kSquare, x.dtype() == kBool ? x.to(kInt64) : x);
}
Tensor sqrt(const Tensor& x) { return pointwise(Op::kSqrt, x); }
Tensor rsqrt(const Tensor& x) { return pointwise(Op::kRsqrt, x); }
Tensor reciprocal(const Tensor& x) { return pointwise(Op::kReciprocal, x); }
Tensor exp(const Tensor& x) { return pointwise(Op::kExp, x); }
Tensor expm1(const Tensor& x) { return pointwise(Op::kExpm1, x); }
Tensor log(const Tensor& x) { return pointwise(Op::kLog, x); }
Tensor log2(const Tensor& x) { return pointwise(Op::kLog2, x); }
Tensor log10(const Tensor& x) { return pointwise(Op::kLog10, x); }
Tensor exp2(const Tensor& x) { return pointwise(Op::kExp2, x); }
Tensor log1p(const Tensor& x) { return pointwise(Op::kLog1p, x); }
Tensor sin(const Tensor& x) { return pointwise(Op::kSin, x); }
Tensor cos(const Tensor& x) { return pointwise(Op::kCos, x); }
Tensor tan(const Tensor& x) { return pointwise(Op::kTan, x); }
Tensor asin(const Tensor& x) { return pointwise(Op::kAsin, x); }
Tensor acos(const Tensor& x) { return pointwise(Op::kAcos, x); }
Tensor atan(const Tensor& x) { return pointwise(Op::kAtan, x); }
Tensor sinh(const Tensor& x) { return pointwise(Op::kSinh, x); }
Tensor cosh(const Tensor& x) { return pointwise(Op::kCosh, x); }
Tensor tanh(const Tensor& x) { return pointwise(Op::kTanh, x); }
Tensor sigmoid(const Tensor& x) { return pointwise(Op::kSigmoid, x); }
Tensor erf(const Tensor& x) { return pointwise(Op::kErf, x); }
Tensor erfinv(const Tensor& x) { return pointwise(Op::kErfinv, x); }
Tensor lgamma(const Tensor& x) { return pointwise(Op::kLgamma, x); }
Tensor digamma(const Tensor& x) { return pointwise(Op::kDigamma, x); }
Tensor floor(const Tensor& x) { return pointwise(Op::kFloor, x); }
Tensor ceil(const Tensor& x) { return pointwise(Op::kCeil, x); }
Tensor round(const Tensor& x) { return pointwise(Op::kRound, x); }
Tensor trunc(const Tensor& x) { return pointwise(Op::kTrunc, x); }
Tensor frac(const Tensor& x) { return pointwise(Op::kFrac, x); }

Tensor relu(const Tensor& x) { return pointwise(Op::kRelu, x); }
Tensor leaky_relu(const Tensor& x, RealArg negative_slope) {
  return pointwise(Op::kLeakyRelu, x, {.a = negative_slope});
}
Tensor elu(const Tensor& x, RealArg alpha) { return pointwise(Op::kElu, x, {.a = alpha}); }
Tensor gelu(const Tensor& x, GeluApproximate approximate) {
  return pointwise(approximate == GeluApproximate::kTanh ? Op::kGeluTanh : Op::kGelu, x);
}
Tensor silu(const Tensor& x) { return pointwise(Op::kSilu, x); }
Tensor softplus(const Tensor& x, RealArg beta, RealArg threshold) {
  return pointwise(Op::kSoftplus, x, {.a = beta, .b = threshold});
}
Tensor selu(const Tensor& x) { return pointwise(Op::kSelu, x); }
Tensor celu(const Tensor& x, RealArg alpha) {
  require(alpha != 0, "alpha cannot be 0 for CELU");
  return pointwise(Op::kCelu, x, {.a = alpha});
}
Tensor hardsigmoid(const Tensor& x) { return pointwise(Op::kHardsigmoid, x); }
Tensor hardswish(const Tensor& x) { return pointwise(Op::kHardswish, x); }
Tensor mish(const Tensor& x) { return pointwise(Op::kMish, x); }
// Returns -log(1 + exp(-x)), which is softplus with beta = -1.
Tensor logsigmoid(const Tensor& x) { return pointwise(Op::kLogsigmoid, x, {.a = -1, .b = 40}); }
Tensor hardshrink(const Tensor& x, RealArg lambd) {
  return pointwise(Op::kHardshrink, x, {.a = lambd});
}
Tensor softshrink(const Tensor& x, RealArg lambd) {
  require(lambd >= 0, "lambda must be in range [0, ", largest(x.dtype()), "] for input dtype ",
          scalar_type_name(x.dtype()), ", but found ", lambd);
  return pointwise(Op::kSoftshrink, x, {.a = lambd});
}

Tensor softsign(const Tensor& x) { return pointwise(Op::kSoftsign, x); }
Tensor tanhshrink(const Tensor& x) {
  return x.dtype() == kBool ? x - tanh(x) : pointwise(Op::kTanhshrink, x);  // sub throws for bool
}

Tensor nan_to_num(const Tensor& x, RealArg nan, std::optional<double> posinf,
                  std::optional<double> neginf) {
  if (!x.is_floating_point()) return x.clone();
  const double most = largest(x.dtype());
  return pointwise(Op::kNanToNum, x,
                   {.a = nan, .b = posinf.value_or(most), .c = neginf.value_or(-most)});
}

Tensor nan_to_num(const Tensor& x, const NanToNumOptions& options) {
  return nan_to_num(x, options.nan, options.posinf, options.neginf);
}

Tensor clamp(const Tensor& x, std::optional<Scalar> min, std::optional<Scalar> max) {
  require(min || max, "taper::clamp: At least one of min or max must not be std::nullopt");
  // Bounds of a higher kind than x promote it.
  const Tensor low = wrap_scalar(min ? *min : *max), high = wrap_scalar(max ? *max : *min);
  const DType type = kernels::result_type({&x, &low, &high});
  for (const auto& bound : {min, max}) {
    if (bound) bound->check_holds(type);
  }
  if (!taper::is_floating_point(type)) {
    // The kernel's bounds are doubles, which are not exact beyond 2^53.
    const Tensor above = min ? maximum(x, low) : x.to(type);
    return max ? minimum(above, high) : above;
  }
  constexpr double kNone = std::numeric_limits<double>::infinity();
  return pointwise(Op::kClamp, x.to(type),
                   {.a = min ? min->to_double() : -kNone, .b = max ? max->to_double() : kNone});
}

Tensor clamp_min(const Tensor& x, Scalar min) { return clamp(x, min); }
Tensor clamp_min(const Tensor& x, const Tensor& min) { return clamp(x, bound(min)); }
Tensor clamp_max(const Tensor& x, Scalar max) { return clamp(x, std::nullopt, max); }
Tensor clamp_max(const Tensor& x, const Tensor& max) { return clamp(x, Tensor(), bound(max)); }

Tensor logical_not(const Tensor& x) { return pointwise(Op::kLogicalNot, x); }
Tensor bitwise_not(const Tensor& x) {
  return pointwise(x.dtype() == kBool ? Op::kLogicalNot : Op::kBitwiseNot, x);
}
Tensor isnan(const Tensor& x) { return pointwise(Op::kIsnan, x); }
Tensor isinf(const Tensor& x) { return pointwise(Op::kIsinf, x); }
Tensor isfinite(const Tensor& x) { return pointwise(Op::kIsfinite, x); }

// --- methods of Tensor ---

Tensor Tensor::neg() const { return taper::neg(*this); }
Tensor Tensor::abs() const { return taper::abs(*this); }
Tensor Tensor::sign() const { return taper::sign(*this); }
Tensor Tensor::square() const { return taper::square(*this); }
Tensor Tensor::sqrt() const { return taper::sqrt(*this); }
Tensor Tensor::rsqrt() const { return taper::rsqrt(*this); }
Tensor Tensor::reciprocal() const { return taper::reciprocal(*this); }
Tensor Tensor::exp() const { return taper::exp(*this); }
Tensor Tensor::expm1() const { return taper::expm1(*this); }
Tensor Tensor::log() const { return taper::log(*this); }
Tensor Tensor::log2() const { return taper::log2(*this); }
Tensor Tensor::log10() const { return taper::log10(*this); }
Tensor Tensor::exp2() const { return taper::exp2(*this); }
Tensor Tensor::log1p() const { return taper::log1p(*this); }
Tensor Tensor::sin() const { return taper::sin(*this); }
Tensor Tensor::cos() const { return taper::cos(*this); }
Tensor Tensor::tan() const { return taper::tan(*this); }
Tensor Tensor::asin() const { return taper::asin(*this); }
Tensor Tensor::acos() const { return taper::acos(*this); }
Tensor Tensor::atan() const { return taper::atan(*this); }
Tensor Tensor::sinh() const { return taper::sinh(*this); }
Tensor Tensor::cosh() const { return taper::cosh(*this); }
Tensor Tensor::tanh() const { return taper::tanh(*this); }
Tensor Tensor::sigmoid() const { return taper::sigmoid(*this); }
Tensor Tensor::erf() const { return taper::erf(*this); }
Tensor Tensor::erfinv() const { return taper::erfinv(*this); }
Tensor Tensor::lgamma() const { return taper::lgamma(*this); }
Tensor Tensor::digamma() const { return taper::digamma(*this); }
Tensor Tensor::floor() const { return taper::floor(*this); }
Tensor Tensor::ceil() const { return taper::ceil(*this); }
Tensor Tensor::round() const { return taper::round(*this); }
Tensor Tensor::trunc() const { return taper::trunc(*this); }
Tensor Tensor::frac() const { return taper::frac(*this); }
Tensor Tensor::relu() const { return taper::relu(*this); }
Tensor Tensor::leaky_relu(RealArg negative_slope) const {
  return taper::leaky_relu(*this, negative_slope);
}
Tensor Tensor::elu(RealArg alpha) const { return taper::elu(*this, alpha); }
Tensor Tensor::gelu(GeluApproximate approximate) const { return taper::gelu(*this, approximate); }
Tensor Tensor::silu() const { return taper::silu(*this); }
Tensor Tensor::softplus(RealArg beta, RealArg threshold) const {
  return taper::softplus(*this, beta, threshold);
}
Tensor Tensor::selu() const { return taper::selu(*this); }
Tensor Tensor::celu(RealArg alpha) const { return taper::celu(*this, alpha); }
Tensor Tensor::hardsigmoid() const { return taper::hardsigmoid(*this); }
Tensor Tensor::hardswish() const { return taper::hardswish(*this); }
Tensor Tensor::mish() const { return taper::mish(*this); }
Tensor Tensor::logsigmoid() const { return taper::logsigmoid(*this); }
Tensor Tensor::softsign() const { return taper::softsign(*this); }
Tensor Tensor::tanhshrink() const { return taper::tanhshrink(*this); }
Tensor Tensor::hardshrink(RealArg lambd) const { return taper::hardshrink(*this, lambd); }
Tensor Tensor::softshrink(RealArg lambd) const { return taper::softshrink(*this, lambd); }
Tensor Tensor::glu(IntArg dim) const { return taper::glu(*this, dim); }
Tensor Tensor::prelu(const Tensor& weight) const { return taper::prelu(*this, weight); }
Tensor Tensor::clamp(std::optional<Scalar> min, std::optional<Scalar> max) const {
  return taper::clamp(*this, min, max);
}
Tensor Tensor::clamp(const Tensor& min, const Tensor& max) const {
  return taper::clamp(*this, min, max);
}
Tensor Tensor::clamp_min(Scalar min) const { return taper::clamp_min(*this, min); }
Tensor Tensor::clamp_min(const Tensor& min) const { return taper::clamp_min(*this, min); }
Tensor Tensor::clamp_max(Scalar max) const { return taper::clamp_max(*this, max); }
Tensor Tensor::clamp_max(const Tensor& max) const { return taper::clamp_max(*this, max); }
Tensor Tensor::hardtanh(RealArg min_val, RealArg max_val) const {
  return taper::hardtanh(*this, min_val, max_val);
}
Tensor Tensor::relu6() const { return taper::relu6(*this); }
Tensor Tensor::nan_to_num(RealArg nan, std::optional<double> posinf,
                          std::optional<double> neginf) const {
  return taper::nan_to_num(*this, nan, posinf, neginf);
}
Tensor Tensor::nan_to_num(const NanToNumOptions& options) const {
  return taper::nan_to_num(*this, options);
}
Tensor Tensor::logical_not() const { return taper::logical_not(*this); }
Tensor Tensor::bitwise_not() const { return taper::bitwise_not(*this); }
Tensor Tensor::isnan() const { return taper::isnan(*this); }
Tensor Tensor::isinf() const { return taper::isinf(*this); }
Tensor Tensor::isfinite() const { return taper::isfinite(*this); }

}  // namespace taper::v0
