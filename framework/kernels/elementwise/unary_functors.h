// The table of element-wise functions of one tensor, and their formulas for CPU and GPU. Functors
// are called with float and double, and those not derived from Floats also with int64_t. Predicates
// return 1 or 0. If a functor has a ForHalf type, the GPU uses that cheaper version for results of
// half types (half_functors.h).
#pragma once

#include "framework/kernels/common/arithmetic.h"
#include "framework/kernels/elementwise/broadcast.h"
#include "framework/kernels/elementwise/half_functors.h"

namespace taper::v0::kernels {

// clang-format off
enum class UnaryOp : uint8_t {
  kNeg, kAbs, kSign, kSquare, kSqrt, kRsqrt, kReciprocal, kExp, kExpm1, kLog, kLog2, kLog1p, kSin, kCos, kTanh,
  kSigmoid, kRelu, kLeakyRelu, kElu, kGelu, kGeluTanh, kSilu, kSoftplus, kErf, kFloor, kCeil, kRound, kClamp,
  kLogicalNot, kIsnan, kIsinf, kIsfinite, kExp2, kLog10, kTan, kAsin, kAcos, kAtan, kSinh, kCosh, kTrunc, kFrac,
  kLgamma, kDigamma, kPolygamma, kSelu, kCelu, kHardsigmoid, kHardswish, kMish, kLogsigmoid, kHardshrink,
  kSoftshrink, kNanToNum, kBitwiseNot, kSoftsign, kTanhshrink, kErfinv
};
// clang-format on

// The dtypes that an op accepts and returns.
enum class UnaryRule : uint8_t {
  kSame,      // the dtype of x
  kFloating,  // integers give float32
  kPredicate  // gives bool, computes in the dtype of x
};
struct UnaryRow {
  UnaryOp op;
  const char* name;  // for messages and tables
  UnaryRule rule;
  bool needs_range = false;  // computed in float32 under autocast
};
inline constexpr UnaryRow kUnaryOps[] = {
    {UnaryOp::kNeg, "neg", UnaryRule::kSame},
    {UnaryOp::kAbs, "abs", UnaryRule::kSame},
    {UnaryOp::kSign, "sign", UnaryRule::kSame},
    {UnaryOp::kSquare, "square", UnaryRule::kSame, true},
    {UnaryOp::kSqrt, "sqrt", UnaryRule::kFloating},
    {UnaryOp::kRsqrt, "rsqrt", UnaryRule::kFloating, true},
    {UnaryOp::kReciprocal, "reciprocal", UnaryRule::kFloating, true},
    {UnaryOp::kExp, "exp", UnaryRule::kFloating, true},
    {UnaryOp::kExpm1, "expm1", UnaryRule::kFloating, true},
    {UnaryOp::kLog, "log", UnaryRule::kFloating, true},
    {UnaryOp::kLog2, "log2", UnaryRule::kFloating, true},
    {UnaryOp::kLog1p, "log1p", UnaryRule::kFloating, true},
    {UnaryOp::kSin, "sin", UnaryRule::kFloating},
    {UnaryOp::kCos, "cos", UnaryRule::kFloating},
    {UnaryOp::kTanh, "tanh", UnaryRule::kFloating},
    {UnaryOp::kSigmoid, "sigmoid", UnaryRule::kFloating},
    {UnaryOp::kRelu, "relu", UnaryRule::kSame},
    {UnaryOp::kLeakyRelu, "leaky_relu", UnaryRule::kFloating},
    {UnaryOp::kElu, "elu", UnaryRule::kFloating},
    {UnaryOp::kGelu, "gelu", UnaryRule::kFloating},
    {UnaryOp::kGeluTanh, "gelu_tanh", UnaryRule::kFloating},
    {UnaryOp::kSilu, "silu", UnaryRule::kFloating},
    {UnaryOp::kSoftplus, "softplus", UnaryRule::kFloating, true},
    {UnaryOp::kErf, "erf", UnaryRule::kFloating},
    {UnaryOp::kFloor, "floor", UnaryRule::kSame},
    {UnaryOp::kCeil, "ceil", UnaryRule::kSame},
    {UnaryOp::kRound, "round", UnaryRule::kSame},
    {UnaryOp::kClamp, "clamp", UnaryRule::kSame},
    {UnaryOp::kLogicalNot, "logical_not", UnaryRule::kPredicate},
    {UnaryOp::kIsnan, "isnan", UnaryRule::kPredicate},
    {UnaryOp::kIsinf, "isinf", UnaryRule::kPredicate},
    {UnaryOp::kIsfinite, "isfinite", UnaryRule::kPredicate},
    {UnaryOp::kExp2, "exp2", UnaryRule::kFloating},
    {UnaryOp::kLog10, "log10", UnaryRule::kFloating, true},
    {UnaryOp::kTan, "tan", UnaryRule::kFloating, true},
    {UnaryOp::kAsin, "asin", UnaryRule::kFloating, true},
    {UnaryOp::kAcos, "acos", UnaryRule::kFloating, true},
    {UnaryOp::kAtan, "atan", UnaryRule::kFloating},
    {UnaryOp::kSinh, "sinh", UnaryRule::kFloating, true},
    {UnaryOp::kCosh, "cosh", UnaryRule::kFloating, true},
    {UnaryOp::kTrunc, "trunc", UnaryRule::kSame},
    {UnaryOp::kFrac, "frac", UnaryRule::kFloating},
    {UnaryOp::kLgamma, "lgamma", UnaryRule::kFloating},
    {UnaryOp::kDigamma, "digamma", UnaryRule::kFloating},
    {UnaryOp::kPolygamma, "polygamma", UnaryRule::kFloating},
    {UnaryOp::kSelu, "selu", UnaryRule::kFloating},
    {UnaryOp::kCelu, "celu", UnaryRule::kFloating},
    {UnaryOp::kHardsigmoid, "hardsigmoid", UnaryRule::kFloating},
    {UnaryOp::kHardswish, "hardswish", UnaryRule::kFloating},
    {UnaryOp::kMish, "mish", UnaryRule::kFloating},
    {UnaryOp::kLogsigmoid, "logsigmoid", UnaryRule::kFloating},
    {UnaryOp::kHardshrink, "hardshrink", UnaryRule::kFloating},
    {UnaryOp::kSoftshrink, "softshrink", UnaryRule::kFloating},
    {UnaryOp::kNanToNum, "nan_to_num", UnaryRule::kFloating},
    {UnaryOp::kBitwiseNot, "bitwise_not", UnaryRule::kSame},
    {UnaryOp::kSoftsign, "softsign", UnaryRule::kFloating},
    {UnaryOp::kTanhshrink, "tanhshrink", UnaryRule::kFloating},
    {UnaryOp::kErfinv, "erfinv", UnaryRule::kFloating, true},
};
static_assert(rows_are_in_order(kUnaryOps));
constexpr const UnaryRow& row_of(UnaryOp op) { return kUnaryOps[size_t(op)]; }

// Parameters of the ops that have any: leaky_relu (a = slope), elu and celu (a = alpha), softplus
// (a = beta, b = threshold), clamp (a = low, b = high), polygamma (a = order, 1 or 2), hardshrink
// and softshrink (a = lambda), nan_to_num (a, b, c replace NaN, inf, -inf).
struct UnaryArgs {
  double a = 0, b = 0, c = 0;
};

struct Neg : Numbers {
  template <class T> TAPER_HD T operator()(T x) const {
    if constexpr (kIsInteger<T>) return minus(T(0), x);
    return -x;
  }
};
TAPER_FUNCTOR(Abs, Numbers, (T x), math::abs(x));
// The sign of NaN is 0, as in PyTorch.
TAPER_FUNCTOR(Sign, Numbers, (T x), truth<T>(x > T(0)) - truth<T>(x < T(0)));
TAPER_FUNCTOR(Square, Numbers, (T x), times(x, x));
TAPER_FUNCTOR(Sqrt, Floats, (T x), math::sqrt(x));
TAPER_FUNCTOR(Rsqrt, Floats, (T x), T(1) / math::sqrt(x));
TAPER_FUNCTOR(Reciprocal, Floats, (T x), T(1) / x);
TAPER_FUNCTOR(Exp, Floats, (T x), math::exp(x));
TAPER_FUNCTOR(Expm1, Floats, (T x), math::expm1(x));
TAPER_FUNCTOR(Log, Floats, (T x), math::log(x));
TAPER_FUNCTOR(Log2, Floats, (T x), math::log2(x));
TAPER_FUNCTOR(Log1p, Floats, (T x), math::log1p(x));
// If a functor has a member `fast`, the CPU uses that faster form for the floats for which `fits`
// is true.
struct Sin : Floats {
  template <class T> TAPER_HD T operator()(T x) const { return math::sin(x); }
  static TAPER_HD bool fits(float x) { return math::abs(x) < math::periodic::kMost; }
  static TAPER_HD float fast(float x) { return math::periodic::sin(x); }
};
struct Cos : Floats {
  template <class T> TAPER_HD T operator()(T x) const { return math::cos(x); }
  static TAPER_HD bool fits(float x) { return math::abs(x) < math::periodic::kMost; }
  static TAPER_HD float fast(float x) { return math::periodic::cos(x); }
};
TAPER_FUNCTOR(Tanh, Floats, (T x), math::tanh(x));
TAPER_FUNCTOR_WITH_HALF(Sigmoid, Floats, (T x), math::sigmoid(x));
// NaN stays NaN.
TAPER_FUNCTOR(Relu, Numbers, (T x), x < T(0) ? T(0) : x);
struct LeakyRelu : Floats {
  double slope;
  template <class T> TAPER_HD T operator()(T x) const { return x > T(0) ? x : x * T(slope); }
};
// The function is scale * x above 0, and scale * alpha * (exp(inner * x) - 1) below.
struct Elu : Floats {
  double alpha, scale = 1, inner = 1;
  template <class T> TAPER_HD T operator()(T x) const {
    const T above = T(scale) * x, below = T(scale * alpha) * math::expm1(T(inner) * x);
    return x > T(0) ? above : below;
  }
};
TAPER_FUNCTOR_WITH_HALF(Gelu, Floats, (T x), (x * normal_cdf(x)));
struct GeluTanh : Floats {
  using ForHalf = GeluTanhForHalf;
  template <class T> TAPER_HD T operator()(T x) const {
    return T(0.5) * x * (T(1) + math::tanh(gelu_inner(x)));
  }
};
TAPER_FUNCTOR_WITH_HALF(Silu, Floats, (T x), (x * math::sigmoid(x)));
struct Softplus : Floats {
  using ForHalf = SoftplusForHalf;
  double beta, threshold;
  template <class T> TAPER_HD T operator()(T x) const {
    const T z = x * T(beta);
    const T y = math::log1p(math::exp(z));
    const T bent = math::abs(T(beta)) == T(1) ? y * T(beta) : y / T(beta);  // usually no division
    return z > T(threshold) ? x : bent;
  }
};
TAPER_FUNCTOR(Erf, Floats, (T x), math::erf(x));
TAPER_FUNCTOR(Floor, Numbers, (T x), math::floor(x));
TAPER_FUNCTOR(Ceil, Numbers, (T x), math::ceil(x));
TAPER_FUNCTOR(Round, Numbers, (T x), math::round(x));
struct Clamp : Numbers {
  double low, high;
  // NaN stays NaN. If low > high, the result is high.
  template <class T> TAPER_HD T operator()(T x) const {
    const T lo = parameter<T>(low), hi = parameter<T>(high);
    const T y = x < lo ? lo : x;
    return y > hi ? hi : y;
  }
};
TAPER_FUNCTOR(Exp2, Floats, (T x), math::exp2(x));
TAPER_FUNCTOR(Log10, Floats, (T x), math::log10(x));
struct Tan : Floats {
  template <class T> TAPER_HD T operator()(T x) const { return math::tan(x); }
  static TAPER_HD bool fits(float x) { return math::abs(x) < math::periodic::kMost; }
  static TAPER_HD float fast(float x) { return math::periodic::tan(x); }
};
TAPER_FUNCTOR(Asin, Floats, (T x), math::asin(x));
TAPER_FUNCTOR(Acos, Floats, (T x), math::acos(x));
TAPER_FUNCTOR(Atan, Floats, (T x), math::atan(x));
TAPER_FUNCTOR_WITH_HALF(Sinh, Floats, (T x), math::sinh(x));
TAPER_FUNCTOR(Cosh, Floats, (T x), math::cosh(x));
TAPER_FUNCTOR(Trunc, Numbers, (T x), math::trunc(x));
TAPER_FUNCTOR(Frac, Floats, (T x), x - math::trunc(x));
struct LogGamma : Floats {
  using ForHalf = LogGammaForHalf;
  template <class T> TAPER_HD T operator()(T x) const { return math::lgamma(x); }
  static TAPER_HD bool fits(float x) { return math::is_normal(x); }
  static TAPER_HD float fast(float x) { return float(math::wide::lgamma(x)); }
};
struct Digamma : Floats {
  template <class T> TAPER_HD T operator()(T x) const { return math::digamma(x); }
  static TAPER_HD bool fits(float x) { return math::is_normal(x); }
  static TAPER_HD float fast(float x) { return float(math::wide::digamma(x)); }
};
struct Polygamma : LongFloats {
  double order;
  template <class T> TAPER_HD T operator()(T x) const {
    return order == 1 ? math::polygamma<1>(x) : math::polygamma<2>(x);
  }
};
TAPER_FUNCTOR(HardSigmoid, Floats, (T x), hard_gate(x));
TAPER_FUNCTOR(HardSwish, Floats, (T x), (x * hard_gate(x)));  // x itself, if x is at least 3
struct Mish : Floats {
  template <class T> TAPER_HD T operator()(T x) const {
    const T n = mish_ratio(x);
    const T bent = x * (n / (n + T(2)));
    return x > T(20) ? x : bent;
  }
};
struct HardShrink : Floats {
  double lambda;
  template <class T> TAPER_HD T operator()(T x) const {
    return math::abs(x) <= T(lambda) ? T(0) : x;
  }
};
struct SoftShrink : Floats {
  double lambda;
  template <class T> TAPER_HD T operator()(T x) const {
    return math::abs(x) <= T(lambda) ? T(0) : x - math::copysign(T(lambda), x);
  }
};
struct NanToNum : Floats {
  double nan, above, below;
  template <class T> TAPER_HD T operator()(T x) const {
    constexpr T kMax = std::numeric_limits<T>::max();
    const T y = x > kMax ? T(above) : x;
    const T z = x < -kMax ? T(below) : y;
    return is_nan(x) ? T(nan) : z;
  }
};
// This functor is for integers only.
TAPER_FUNCTOR(BitwiseNot, Numbers, (T x), T(~int64_t(x)));
TAPER_FUNCTOR(Softsign, Floats, (T x), x / (math::abs(x) + T(1)));
TAPER_FUNCTOR(Tanhshrink, Floats, (T x), x - math::tanh(x));
TAPER_FUNCTOR(Erfinv, Floats, (T x), math::erfinv(x));
TAPER_FUNCTOR(LogicalNot, Predicates, (T x), truth<T>(x == T(0)));
TAPER_FUNCTOR(IsNan, Predicates, (T x), truth<T>(is_nan(x)));
TAPER_FUNCTOR(IsInf, Predicates, (T x), truth<T>(is_inf(x)));
TAPER_FUNCTOR(IsFinite, Predicates, (T x), truth<T>(is_finite(x)));

// Calls f with the functor of `op`. The functors are listed in the order of UnaryOp. (selu and celu
// use Elu, logsigmoid uses Softplus.)
template <class F> void visit(UnaryOp op, UnaryArgs args, const F& f) {
  const auto [a, b, c] = args;
  visit_row(kUnaryOps, op, f, Neg{}, Abs{}, Sign{}, Square{}, Sqrt{}, Rsqrt{}, Reciprocal{}, Exp{},
            Expm1{}, Log{}, Log2{}, Log1p{}, Sin{}, Cos{}, Tanh{}, Sigmoid{}, Relu{},
            LeakyRelu{{}, a}, Elu{{}, a}, Gelu{}, GeluTanh{}, Silu{}, Softplus{{}, a, b}, Erf{},
            Floor{}, Ceil{}, Round{}, Clamp{{}, a, b}, LogicalNot{}, IsNan{}, IsInf{}, IsFinite{},
            Exp2{}, Log10{}, Tan{}, Asin{}, Acos{}, Atan{}, Sinh{}, Cosh{}, Trunc{}, Frac{},
            LogGamma{}, Digamma{}, Polygamma{{}, a}, Elu{{}, kSeluAlpha, kSeluScale},
            Elu{{}, a, 1, 1 / a}, HardSigmoid{}, HardSwish{}, Mish{}, Softplus{{}, -1, 40},
            HardShrink{{}, a}, SoftShrink{{}, a}, NanToNum{{}, a, b, c}, BitwiseNot{}, Softsign{},
            Tanhshrink{}, Erfinv{});
}

}  // namespace taper::v0::kernels
