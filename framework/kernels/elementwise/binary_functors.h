// The formulas of all element-wise functions of two tensors, for CPU and GPU. Functors are called
// with float and double, and those not derived from Floats also with int64_t. Predicates return 1
// or 0.
#pragma once

#include <numbers>

#include "framework/kernels/common/arithmetic.h"
#include "framework/kernels/elementwise/binary.h"

namespace taper::v0::kernels {

TAPER_FUNCTOR(Add, Numbers, (T a, T b), plus(a, b));
struct AddScaled : Numbers {
  double alpha;
  template <class T> TAPER_HD T operator()(T a, T b) const {
    return plus(a, times(parameter<T>(alpha), b));
  }
};
TAPER_FUNCTOR(Sub, Numbers, (T a, T b), minus(a, b));
TAPER_FUNCTOR(Mul, Numbers, (T a, T b), times(a, b));
TAPER_FUNCTOR(Div, Floats, (T a, T b), a / b);
// If a functor has a member `fast`, the CPU uses that faster form for the floats for which `fits`
// is true.
struct FloorDivide : Numbers {
  template <class T> TAPER_HD T operator()(T a, T b) const { return floor_div(a, b); }
  // Quotients in this range have an error below 1/4 in float as well.
  static TAPER_HD bool fits(float a, float b) { return math::wide::divides(8 * a, b); }
  static TAPER_HD float fast(float a, float b) {
    const math::wide::Quotient q = math::wide::quotient(a, b);
    const bool below = (q.rest != 0) & ((q.rest < 0) != (b < 0));
    const float whole = float(q.whole - (below ? 1 : 0));
    return whole == 0 ? math::copysign(0.0f, a / b) : whole;
  }
};
struct DivTrunc : Numbers {
  template <class T> TAPER_HD T operator()(T a, T b) const {
    if constexpr (!kIsInteger<T>) return math::trunc(a / b);
    if (b == -1) return minus(T(0), a);
    return b == 0 ? T(0) : T(a / b);
  }
};
struct Remainder : Numbers {
  template <class T> TAPER_HD T operator()(T a, T b) const { return python_mod(a, b); }
  static TAPER_HD bool fits(float a, float b) { return math::wide::divides(a, b); }
  static TAPER_HD float fast(float a, float b) {
    const float r = math::copysign(float(math::wide::quotient(a, b).rest), a);
    return (r != 0) & ((r < 0) != (b < 0)) ? r + b : r;
  }
};
struct Pow : Numbers {
  template <class T> TAPER_HD T operator()(T a, T b) const { return power(a, b); }
  static TAPER_HD bool fits(float a, float b) { return math::is_normal(a) & is_finite(b); }
  static TAPER_HD float fast(float a, float b) { return float(math::wide::pow(a, b)); }
};
// A NaN operand gives NaN.
TAPER_FUNCTOR(Maximum, Numbers, (T a, T b), a > b || is_nan(a) ? a : b);
TAPER_FUNCTOR(Minimum, Numbers, (T a, T b), a < b || is_nan(a) ? a : b);
TAPER_FUNCTOR(Eq, Predicates, (T a, T b), truth<T>(a == b));
TAPER_FUNCTOR(Ne, Predicates, (T a, T b), truth<T>(a != b));
TAPER_FUNCTOR(Lt, Predicates, (T a, T b), truth<T>(a < b));
TAPER_FUNCTOR(Le, Predicates, (T a, T b), truth<T>(a <= b));
TAPER_FUNCTOR(Gt, Predicates, (T a, T b), truth<T>(a > b));
TAPER_FUNCTOR(Ge, Predicates, (T a, T b), truth<T>(a >= b));
TAPER_FUNCTOR(LogicalAnd, Predicates, (T a, T b), truth<T>((a != T(0)) & (b != T(0))));
TAPER_FUNCTOR(LogicalOr, Predicates, (T a, T b), truth<T>((a != T(0)) | (b != T(0))));
TAPER_FUNCTOR(LogicalXor, Predicates, (T a, T b), truth<T>((a != T(0)) != (b != T(0))));
// dy passes where x is NaN, as in PyTorch.
TAPER_FUNCTOR(ReluBackward, Floats, (T dy, T x), x <= T(0) ? T(0) : dy);
struct LeakyReluBackward : Floats {
  double slope;
  template <class T> TAPER_HD T operator()(T dy, T x) const {
    return x > T(0) ? dy : dy * T(slope);
  }
};
struct EluBackward : Floats {
  double alpha, scale = 1, inner = 1;
  template <class T> TAPER_HD T operator()(T dy, T x) const {
    const T above = dy * T(scale);
    const T below = dy * T(scale * alpha * inner) * math::exp(T(inner) * x);
    return x <= T(0) ? below : above;
  }
};
struct GeluBackwardForHalf : Floats {
  TAPER_HD float operator()(float dy, float x) const {
    const float pdf = 0.39894228f * fast_exp2(-0.72134752f * x * x);
    return dy * (fast_normal_cdf(x) + x * pdf);
  }
};
// The derivative is w + x * w * (1 - w) * (x * q)', where w is the logistic weight.
struct GeluTanhBackwardForHalf : Floats {
  TAPER_HD float operator()(float dy, float x) const {
    const float z = x * x, t = z < kGeluBound ? z : kGeluBound;
    const float w = gelu_weight(x, 2.3022081985f + 0.10294324f * t);
    return dy * (w + x * w * (1 - w) * (1.5957691216f + 0.21406444f * t));
  }
};
// The derivative is d(x * cdf(x)) / dx = cdf(x) + x * pdf(x).
struct GeluBackward : Floats {
  using ForHalf = GeluBackwardForHalf;
  template <class T> TAPER_HD T operator()(T dy, T x) const {
    return dy * (normal_cdf(x) + x * normal_pdf(x));
  }
};
// The derivative is (1 + t) / 2 + x / 2 * (1 - t^2) * inner'(x), where t = tanh(inner(x)).
struct GeluTanhBackward : Floats {
  using ForHalf = GeluTanhBackwardForHalf;
  template <class T> TAPER_HD T operator()(T dy, T x) const {
    const T t = math::tanh(gelu_inner(x));
    const T slope = T(0.79788456080286536) * (T(1) + T(3 * 0.044715) * x * x);
    return dy * T(0.5) * (T(1) + t + x * (T(1) - t * t) * slope);
  }
};
// The derivative is s * (1 + x * (1 - s)), where s = sigmoid(x).
struct SiluBackwardForHalf : Floats {
  TAPER_HD float operator()(float dy, float x) const {
    const float s = fast_sigmoid(x);
    return dy * s * (1 + x * (1 - s));
  }
};
struct SiluBackward : Floats {
  using ForHalf = SiluBackwardForHalf;
  template <class T> TAPER_HD T operator()(T dy, T x) const {
    const T s = math::sigmoid(x);
    return dy * s * (T(1) + x * (T(1) - s));
  }
};
struct SoftplusBackward : Floats {
  double beta, threshold;
  template <class T> TAPER_HD T operator()(T dy, T x) const {
    const T z = x * T(beta);
    const T bent = dy * math::sigmoid(z);
    return z > T(threshold) ? dy : bent;
  }
};
TAPER_FUNCTOR(SigmoidBackward, Floats, (T dy, T y), (dy * (T(1) - y) * y));
TAPER_FUNCTOR(TanhBackward, Floats, (T dy, T y), (dy * (T(1) - y * y)));
struct TanhshrinkBackward : Floats {
  template <class T> TAPER_HD T operator()(T dy, T x) const {
    const T t = math::tanh(x);
    return dy * (t * t);
  }
};
struct ClampBackward : Floats {
  double low, high;
  template <class T> TAPER_HD T operator()(T dy, T x) const {
    return ((x >= T(low)) & (x <= T(high))) ? dy : T(0);
  }
};
struct HardTanhBackward : Floats {
  double low, high;
  template <class T> TAPER_HD T operator()(T dy, T x) const {
    return (x <= T(low)) | (x >= T(high)) ? T(0) : dy;
  }
};
struct ShrinkBackward : Floats {
  double bound;
  template <class T> TAPER_HD T operator()(T dy, T x) const {
    return math::abs(x) <= T(bound) ? T(0) : dy;
  }
};
struct Fmod : Numbers {
  template <class T> TAPER_HD T operator()(T a, T b) const {
    if constexpr (kIsInteger<T>) return b == 0 || b == -1 ? T(0) : a % b;
    return T(math::fmod(a, b));
  }
  static TAPER_HD bool fits(float a, float b) { return math::wide::divides(a, b); }
  static TAPER_HD float fast(float a, float b) {
    return math::copysign(float(math::wide::quotient(a, b).rest), a);
  }
};
TAPER_FUNCTOR(Atan2, Floats, (T a, T b), math::atan2(a, b));
TAPER_FUNCTOR(LogAddExp, Floats, (T a, T b), log_add_exp(a, b));
struct Xlogy : Floats {
  template <class T> TAPER_HD T operator()(T a, T b) const {
    const T y = a * math::log(b);
    return (a == T(0)) & !is_nan(b) ? T(0) : y;
  }
};
struct GluForHalf : Floats {
  TAPER_HD float operator()(float x, float gate) const { return x * fast_sigmoid(gate); }
};
TAPER_FUNCTOR_WITH_HALF(Glu, Floats, (T x, T gate), (x * math::sigmoid(gate)));
// Compares integers in double.
struct IsClose : Predicates {
  double rtol, atol;
  template <class T> TAPER_HD T operator()(T x, T y) const {
    using F = std::conditional_t<kIsInteger<T>, double, T>;
    const F distance = math::abs(F(x) - F(y)), allowed = F(atol) + math::abs(F(y) * F(rtol));
    return truth<T>((x == y) | (is_finite(distance) & (distance <= allowed)));
  }
};
// These functors are for integers only.
TAPER_FUNCTOR(BitwiseAnd, Numbers, (T a, T b), T(int64_t(a) & int64_t(b)));
TAPER_FUNCTOR(BitwiseOr, Numbers, (T a, T b), T(int64_t(a) | int64_t(b)));
TAPER_FUNCTOR(BitwiseXor, Numbers, (T a, T b), T(int64_t(a) ^ int64_t(b)));
TAPER_FUNCTOR(Prelu, Floats, (T x, T weight), x > T(0) ? x : weight * x);
// Logarithms are clamped at -100.
struct BinaryCrossEntropy : Floats {
  template <class T> TAPER_HD T operator()(T x, T y) const {
    const T p = math::log(x), q = math::log1p(-x);
    return (y - T(1)) * (q < T(-100) ? T(-100) : q) - y * (p < T(-100) ? T(-100) : p);
  }
};
TAPER_FUNCTOR(HardSigmoidBackward, Floats, (T dy, T x),
              (x > T(-3)) & (x < T(3)) ? dy / T(6) : T(0));
struct HardSwishBackward : Floats {
  template <class T> TAPER_HD T operator()(T dy, T x) const {
    const T bent = dy * (x / T(3) + T(0.5));
    const T above = x < T(3) ? bent : dy;
    return x <= T(-3) ? T(0) : above;
  }
};
// The derivative of a gamma-distributed sample x with respect to the shape a, with the probability
// P(a, x) held fixed: -(dP / da) divided by the density. P is the density times x / a times the sum
// of the products of x / (a + 1), x / (a + 2), ... (https://dlmf.nist.gov/8.7.E1). Far above the
// mean, 1 - P is the density times 1 + (a - 1) / x + ... (https://dlmf.nist.gov/8.11.E2). For
// a > 1e6 the distribution is treated as normal.
struct GammaGradient : LongFloats {
  template <class T> TAPER_HD T operator()(T shape, T draw) const {
    const double a = double(shape), x = double(draw);
    if (a > 1e6) return T(1 + (x - a) / (2 * a));
    double term = 1, sum = 1, by_a = 0;
    if (x > 40 && x > 4 * a) {
      double slope = 0;  // derivative of `term` by a
      for (int k = 1; k < 40 && math::abs(term) > 1e-17; ++k) {
        slope = (slope * (a - k) + term) / x;
        term *= (a - k) / x;
        sum += term;
        by_a += slope;
      }
      return T(sum * (math::log(x) - math::digamma(a)) + by_a);
    }
    double inverses = 0;
    for (int k = 1; term > 1e-17 * sum; ++k) {
      term *= x / (a + k);
      inverses += 1 / (a + k);
      sum += term;
      by_a -= term * inverses;
    }
    return T(-(x / a) * (sum * (math::log(x) - math::digamma(a + 1)) + by_a));
  }
};
struct MseLoss : Numbers {
  template <class T> TAPER_HD T operator()(T x, T y) const {
    const T d = minus(x, y);
    return times(d, d);
  }
};
TAPER_FUNCTOR(L1Loss, Numbers, (T x, T y), math::abs(minus(x, y)));
// The loss is d^2 / 2 up to a distance of delta, and delta * (d - delta / 2) beyond.
struct HuberLoss : Floats {
  double delta;
  template <class T> TAPER_HD T operator()(T x, T y) const {
    const T d = math::abs(x - y), near = d > T(delta) ? T(delta) : d;
    return near * (d - near * T(0.5));
  }
};
// Computes the loss from a logit x. Where -x > 40, log(1 + exp(-x)) is -x.
struct BceWithLogits : Floats {
  template <class T> TAPER_HD T operator()(T x, T y) const {
    const T bent = math::log1p(math::exp(-x));
    return (T(1) - y) * x + (-x > T(40) ? -x : bent);
  }
};
// The derivative is t + x * sigmoid(x) * (1 - t^2), where t = n / (n + 2).
struct MishBackward : Floats {
  template <class T> TAPER_HD T operator()(T dy, T x) const {
    const T n = mish_ratio(x), r = T(1) / (n + T(2));
    const T bent = dy * (n * r + x * math::sigmoid(x) * (T(4) * (n + T(1)) * r * r));
    return x > T(20) ? dy : bent;
  }
};

// Gradients of functions of one tensor, with the operations and their order of the formulas in the
// table of derivatives (autograd/ops/unary_ops.cpp), which the next derivative uses.
TAPER_FUNCTOR(SquareBackward, Floats, (T dy, T x), (dy * (x * T(2))));
struct QuotientBackward : Floats {
  double scale;
  template <class T> TAPER_HD T operator()(T dy, T x) const { return dy / (x * T(scale)); }
};
TAPER_FUNCTOR(RsqrtBackward, Floats, (T dy, T y), (dy * (y * y * y * T(-0.5))));
TAPER_FUNCTOR(ReciprocalBackward, Floats, (T dy, T y), -(dy*(y* y)));
TAPER_FUNCTOR(Expm1Backward, Floats, (T dy, T y), (dy * (y + T(1))));
TAPER_FUNCTOR(Exp2Backward, Floats, (T dy, T y), (dy * (y * T(std::numbers::ln2))));
TAPER_FUNCTOR(Log1pBackward, Floats, (T dy, T x), dy / (x + T(1)));
struct SinBackward : Floats {
  template <class T> TAPER_HD T operator()(T dy, T x) const { return dy * math::cos(x); }
  static TAPER_HD bool fits(float, float x) { return math::abs(x) < math::periodic::kMost; }
  static TAPER_HD float fast(float dy, float x) { return dy * math::periodic::cos(x); }
};
struct CosBackward : Floats {
  template <class T> TAPER_HD T operator()(T dy, T x) const { return -(dy * math::sin(x)); }
  static TAPER_HD bool fits(float, float x) { return math::abs(x) < math::periodic::kMost; }
  static TAPER_HD float fast(float dy, float x) { return -(dy * math::periodic::sin(x)); }
};
TAPER_FUNCTOR(TanBackward, Floats, (T dy, T y), (dy * (y * y + T(1))));
TAPER_FUNCTOR(AsinBackward, Floats, (T dy, T x), (dy * (T(1) / math::sqrt(T(1) - x * x))));
TAPER_FUNCTOR(AcosBackward, Floats, (T dy, T x), -(dy*(T(1) / math::sqrt(T(1) - x * x))));
TAPER_FUNCTOR(AtanBackward, Floats, (T dy, T x), dy / (x * x + T(1)));
TAPER_FUNCTOR(SinhBackward, Floats, (T dy, T x), (dy * math::cosh(x)));
TAPER_FUNCTOR(CoshBackward, Floats, (T dy, T x), (dy * math::sinh(x)));
TAPER_FUNCTOR(ErfBackward, Floats, (T dy, T x),
              (dy * (math::exp(-(x * x)) * T(2 * std::numbers::inv_sqrtpi))));
struct SoftsignBackward : Floats {
  template <class T> TAPER_HD T operator()(T dy, T x) const {
    const T d = math::abs(x) + T(1);
    return dy / (d * d);
  }
};
struct GluBackward : Floats {
  template <class T> TAPER_HD T operator()(T d, T gate) const {
    const T s = math::sigmoid(gate);
    return d * (T(1) - s) * s;
  }
};

// --- ternary functions ---

// Derived from Predicates, because the condition's dtype differs from the operands'.
TAPER_FUNCTOR(Where, Predicates, (T condition, T a, T b), condition != T(0) ? a : b);
struct ClampBetween : Numbers {
  template <class T> TAPER_HD T operator()(T x, T low, T high) const {
    // If any operand is NaN, so is the result. Each step is a conditional expression, which
    // compilers vectorize.
    const T y = x < low ? low : x;
    const T above = is_nan(low) ? low : y;
    const T below = above > high ? high : above;
    return is_nan(high) ? high : below;
  }
};
// Interpolates from the nearer end, so that both ends are exact.
TAPER_FUNCTOR(Lerp, Floats, (T a, T b, T w),
              math::abs(w) < T(0.5) ? a + w * (b - a) : b - (b - a) * (T(1) - w));
struct AddCMul : Numbers {
  double value;
  template <class T> TAPER_HD T operator()(T a, T b, T c) const {
    return plus(a, times(times(parameter<T>(value), b), c));
  }
};
struct AddCDiv : Floats {
  double value;
  template <class T> TAPER_HD T operator()(T a, T b, T c) const { return a + T(value) * b / c; }
};
TAPER_FUNCTOR(MseLossBackward, Floats, (T dy, T x, T y), (dy * ((x - y) * T(2))));
TAPER_FUNCTOR(L1LossBackward, Floats, (T dy, T x, T y), (dy * (truth<T>(x > y) - truth<T>(x < y))));
struct HuberLossBackward : Floats {
  double delta;
  template <class T> TAPER_HD T operator()(T dy, T x, T y) const {
    const T d = x - y, low = d < T(-delta) ? T(-delta) : d;
    return dy * (low > T(delta) ? T(delta) : low);
  }
};

// The operand that is not selected gets no gradient. Equal operands each get half of it.
struct WinnerBackward : Floats {
  double sign;  // 1: of the maximum, -1: of the minimum
  template <class T> TAPER_HD T operator()(T dy, T own, T other) const {
    const T a = own * T(sign), b = other * T(sign);
    const T shared = a == b ? dy * T(0.5) : dy;
    return a < b ? T(0) : shared;
  }
};
// The gradient at the origin is 0.
struct Atan2Backward : Floats {
  double sign;
  template <class T> TAPER_HD T operator()(T dy, T own, T other) const {
    const T r = own * own + other * other;
    return dy * (other / (r == T(0) ? T(1) : r)) * T(sign);
  }
};
// The gradient is 0 where the exponent is 0, also at x = 0.
struct PowBackward : Floats {
  template <class T> TAPER_HD T operator()(T dy, T x, T e) const {
    const T slope = e * power(x, e - T(1));
    return dy * (e == T(0) ? T(0) : slope);
  }
  static TAPER_HD bool fits(float, float x, float e) { return Pow::fits(e == 0 ? 1.0f : x, e - 1); }
  static TAPER_HD float fast(float dy, float x, float e) {
    const float slope = e * Pow::fast(e == 0 ? 1.0f : x, e - 1);
    return dy * (e == 0 ? 0.0f : slope);
  }
};

// The gradient is 0 where x = 0 and e >= 0. The first operand is dy * pow(x, e).
TAPER_FUNCTOR(PowExponentBackward, Floats, (T d, T x, T e),
              (x == T(0)) & (e >= T(0)) ? T(0) : d * math::log(x));

// Calls f with the functor of `op`. The functors are listed in the order of TernaryOp and BinaryOp.
template <class F> void visit(TernaryOp op, double value, const F& f) {
  visit_row(kTernaryNames, op, f, Where{}, ClampBetween{}, Lerp{}, AddCMul{{}, value},
            AddCDiv{{}, value}, MseLossBackward{}, L1LossBackward{}, HuberLossBackward{{}, value},
            WinnerBackward{{}, 1}, WinnerBackward{{}, -1}, Atan2Backward{{}, value}, PowBackward{},
            PowExponentBackward{});
}
template <class F> void visit(BinaryOp op, BinaryArgs args, const F& f) {
  const auto [a, b] = args;
  if (op == BinaryOp::kAdd && a != 1) return f(AddScaled{{}, a});
  if (op == BinaryOp::kSub && a != 1) return f(AddScaled{{}, -a});
  visit_row(kBinaryOps, op, f, Add{}, Sub{}, Mul{}, Div{}, FloorDivide{}, Remainder{}, Pow{},
            Maximum{}, Minimum{}, Eq{}, Ne{}, Lt{}, Le{}, Gt{}, Ge{}, LogicalAnd{}, LogicalOr{},
            LogicalXor{}, ReluBackward{}, LeakyReluBackward{{}, a}, EluBackward{{}, a},
            GeluBackward{}, GeluTanhBackward{}, SiluBackward{}, SoftplusBackward{{}, a, b},
            SigmoidBackward{}, TanhBackward{}, ClampBackward{{}, a, b}, Fmod{}, Atan2{},
            LogAddExp{}, Xlogy{}, BitwiseAnd{}, BitwiseOr{}, BitwiseXor{}, Prelu{},
            BinaryCrossEntropy{}, EluBackward{{}, kSeluAlpha, kSeluScale},
            EluBackward{{}, a, 1, 1 / a}, HardSigmoidBackward{}, HardSwishBackward{},
            MishBackward{}, HardTanhBackward{{}, a, b}, ShrinkBackward{{}, a}, GammaGradient{},
            DivTrunc{}, Glu{}, IsClose{{}, a, b}, MseLoss{}, L1Loss{}, HuberLoss{{}, a},
            BceWithLogits{}, TanhshrinkBackward{}, SquareBackward{}, QuotientBackward{{}, 2},
            RsqrtBackward{}, ReciprocalBackward{}, Expm1Backward{}, Exp2Backward{},
            QuotientBackward{{}, std::numbers::ln2}, QuotientBackward{{}, std::numbers::ln10},
            Log1pBackward{}, SinBackward{}, CosBackward{}, TanBackward{}, AsinBackward{},
            AcosBackward{}, AtanBackward{}, SinhBackward{}, CoshBackward{}, ErfBackward{},
            SoftsignBackward{}, GluBackward{});
}

}  // namespace taper::v0::kernels
