// The table of element-wise functions of one tensor, and their formulas for CPU and GPU. Functors
// are called with float and double, and those not derived from Floats also with int64_t. Predicates
// return 1 or 0.
#pragma once

#include "framework/kernels/common/arithmetic.h"
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

struct Neg : Numbers {
  template <class T> TAPER_HD T operator()(T x) const {
    if constexpr (kIsInteger<T>) return minus(T(0), x);
    return -x;
  }
};
TAPER_FUNCTOR(Abs, Numbers, (T x), math::abs(x));
// 0 for NaN, as in PyTorch.
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
// Some functors have a faster CPU form (`fast`) for those floats for which `fits` is true.
struct Sin : Floats {
  template <class T> TAPER_HD T operator()(T x) const { return math::sin(x); }
  static TAPER_HD bool fits(float x) { return math::abs(x) < math::wide::kTurns; }
  static TAPER_HD float fast(float x) { return math::wide::sin(x); }
};
struct Cos : Floats {
  template <class T> TAPER_HD T operator()(T x) const { return math::cos(x); }
  static TAPER_HD bool fits(float x) { return math::abs(x) < math::wide::kTurns; }
  static TAPER_HD float fast(float x) { return math::wide::sin(x, 1); }
};
TAPER_FUNCTOR(Tanh, Floats, (T x), math::tanh(x));
TAPER_FUNCTOR(Sigmoid, Floats, (T x), math::sigmoid(x));
// NaN stays NaN.
TAPER_FUNCTOR(Relu, Numbers, (T x), x < T(0) ? T(0) : x);
struct LeakyRelu : Floats {
  double slope;
  template <class T> TAPER_HD T operator()(T x) const { return x > T(0) ? x : x * T(slope); }
};
// scale * x above 0, and scale * alpha * (exp(inner * x) - 1) below.
struct Elu : Floats {
  double alpha, scale = 1, inner = 1;
  template <class T> TAPER_HD T operator()(T x) const {
    const T above = T(scale) * x, below = T(scale * alpha) * math::expm1(T(inner) * x);
    return x > T(0) ? above : below;
  }
};
// Some functors have a cheaper version, ForHalf, for results of half types on the GPU.
struct GeluForHalf : Floats {
  TAPER_HD float operator()(float x) const { return x * fast_normal_cdf(x); }
};
struct GeluTanhForHalf : Floats {
  TAPER_HD float operator()(float x) const {
    return x * gelu_weight(x, 2.3022081985f + 0.10294324f * x * x);
  }
};
struct Gelu : Floats {
  using ForHalf = GeluForHalf;
  template <class T> TAPER_HD T operator()(T x) const { return x * normal_cdf(x); }
};
struct GeluTanh : Floats {
  using ForHalf = GeluTanhForHalf;
  template <class T> TAPER_HD T operator()(T x) const {
    return T(0.5) * x * (T(1) + math::tanh(gelu_inner(x)));
  }
};
TAPER_FUNCTOR(Silu, Floats, (T x), (x * math::sigmoid(x)));
struct Softplus : Floats {
  double beta, threshold;
  template <class T> TAPER_HD T operator()(T x) const {
    const T z = x * T(beta);
    const T bent = math::log1p(math::exp(z)) / T(beta);
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
  static TAPER_HD bool fits(float x) { return math::abs(x) < math::wide::kTurns; }
  static TAPER_HD float fast(float x) { return math::wide::tan(x); }
};
TAPER_FUNCTOR(Asin, Floats, (T x), math::asin(x));
TAPER_FUNCTOR(Acos, Floats, (T x), math::acos(x));
TAPER_FUNCTOR(Atan, Floats, (T x), math::atan(x));
TAPER_FUNCTOR(Sinh, Floats, (T x), math::sinh(x));
TAPER_FUNCTOR(Cosh, Floats, (T x), math::cosh(x));
TAPER_FUNCTOR(Trunc, Numbers, (T x), math::trunc(x));
TAPER_FUNCTOR(Frac, Floats, (T x), x - math::trunc(x));
struct LogGamma : Floats {
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
TAPER_FUNCTOR(HardSigmoid, Floats, (T x), six(x + T(3)) / T(6));
TAPER_FUNCTOR(HardSwish, Floats, (T x), (x * six(x + T(3)) / T(6)));
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
    const T y = is_nan(x) ? T(nan) : x;
    return !is_inf(x) ? y : x > T(0) ? T(above) : T(below);
  }
};
// For integers only.
TAPER_FUNCTOR(BitwiseNot, Numbers, (T x), T(~int64_t(x)));
TAPER_FUNCTOR(Softsign, Floats, (T x), x / (math::abs(x) + T(1)));
TAPER_FUNCTOR(Tanhshrink, Floats, (T x), x - math::tanh(x));
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
            Tanhshrink{});
}

}  // namespace taper::v0::kernels
