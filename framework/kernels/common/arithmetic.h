// Scalar arithmetic that is defined for every value of float, double and int64_t: integers wrap on
// overflow, and quotients follow Python's sign rules.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "framework/base/host_device.h"
#include "framework/kernels/common/math.h"

namespace taper::v0::kernels {

template <class T> inline constexpr bool kIsInteger = std::is_integral_v<T>;

template <class T> TAPER_HD T plus(T a, T b) {
  if constexpr (kIsInteger<T>) return T(uint64_t(a) + uint64_t(b));
  return a + b;
}
template <class T> TAPER_HD T minus(T a, T b) {
  if constexpr (kIsInteger<T>) return T(uint64_t(a) - uint64_t(b));
  return a - b;
}
template <class T> TAPER_HD T times(T a, T b) {
  if constexpr (kIsInteger<T>) return T(uint64_t(a) * uint64_t(b));
  return a * b;
}

template <class T> TAPER_HD bool is_nan(T x) {
  if constexpr (kIsInteger<T>) return false;
  return x != x;
}
template <class T> TAPER_HD bool is_inf(T x) {
  if constexpr (kIsInteger<T>) return false;
  return math::abs(x) > std::numeric_limits<T>::max();
}
template <class T> TAPER_HD bool is_finite(T x) {
  if constexpr (kIsInteger<T>) return true;
  return math::abs(x) <= std::numeric_limits<T>::max();
}

// Returns 1 or 0. Uses a conditional expression, because compilers vectorize it better than a
// conversion.
template <class T> TAPER_HD T truth(bool b) { return b ? T(1) : T(0); }

// Converts a parameter to the element type. Infinite bounds become the extreme integers.
template <class T> TAPER_HD T parameter(double a) {
  if constexpr (!kIsInteger<T>) return T(a);
  if (!(a > -9.2233720368547758e18)) return std::numeric_limits<T>::min();
  if (!(a < 9.2233720368547758e18)) return std::numeric_limits<T>::max();
  return T(a);
}

// Rounds the quotient toward minus infinity, like Python's //. Integer division by 0 gives 0 here.
TAPER_HD int64_t floor_div(int64_t a, int64_t b) {
  if (b == 0) return 0;
  if (b == -1) return minus(int64_t(0), a);
  const int64_t q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}
TAPER_HD int64_t python_mod(int64_t a, int64_t b) {
  if (b == 0 || b == -1) return 0;
  const int64_t r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
// Rounds the quotient toward minus infinity. It is corrected with the exact remainder, so that a ==
// floor_div * b + mod as closely as the type allows.
template <class T> TAPER_HD T floor_div(T a, T b) {
  if (b == T(0)) return a / b;
  const T r = math::fmod(a, b);
  T q = (a - r) / b;
  if (r != T(0) && (r < T(0)) != (b < T(0))) q -= T(1);
  if (q == T(0)) return math::copysign(T(0), a / b);
  const T whole = math::floor(q);
  return q - whole > T(0.5) ? whole + T(1) : whole;
}
template <class T> TAPER_HD T python_mod(T a, T b) {
  const T r = math::fmod(a, b);
  return r != T(0) && (r < T(0)) != (b < T(0)) ? r + b : r;
}

// Base classes of functors. They state whether a functor also computes in int64_t (kIntegers), and
// whether it has a separate GPU kernel for dense tensors (kDense). Long formulas and predicates
// have no such kernel, because compiling it for every dtype takes long.
struct Floats {
  static constexpr bool kIntegers = false, kDense = true;
};
struct LongFloats {
  static constexpr bool kIntegers = false, kDense = false;
};
struct Numbers {
  static constexpr bool kIntegers = true, kDense = true;
};
struct Predicates {
  static constexpr bool kIntegers = true, kDense = false;
};
// Defines a functor of one expression: TAPER_FUNCTOR(Square, Numbers, (T x), times(x, x));
#define TAPER_FUNCTOR(Name, Base, arguments, ...)                                    \
  struct Name : Base {                                                               \
    template <class T> TAPER_HD T operator() arguments const { return __VA_ARGS__; } \
  }
// Defines a functor with a cheaper version SquareForHalf, which the GPU uses for results of half
// types.
#define TAPER_FUNCTOR_WITH_HALF(Name, Base, arguments, ...)                          \
  struct Name : Base {                                                               \
    using ForHalf = Name##ForHalf;                                                   \
    template <class T> TAPER_HD T operator() arguments const { return __VA_ARGS__; } \
  }
// Calls f with functor number `op`. The functors must be in the order of the table's rows.
template <class Row, size_t n, class Op, class F, class... Functors>
void visit_row(const Row (&)[n], Op op, const F& f, const Functors&... functors) {
  static_assert(sizeof...(functors) == n);
  size_t i = 0;
  (void)((i++ == size_t(op) && (f(functors), true)) || ...);
}

// Computes x^n by repeated squaring. For a negative n it returns the truncated 1 / x^|n|, which is
// 0 unless x is 1 or -1.
TAPER_HD int64_t power(int64_t x, int64_t n) {
  if (n < 0) return x == 1 ? 1 : x == -1 ? (n % 2 ? -1 : 1) : 0;
  int64_t y = 1;
  for (; n > 0; n >>= 1) {
    if (n & 1) y = times(y, x);
    x = times(x, x);
  }
  return y;
}
template <class T> TAPER_HD T power(T x, T n) { return math::pow(x, n); }

// Returns log(exp(a) + exp(b)) without overflow.
template <class T> TAPER_HD T log_add_exp(T a, T b) {
  const T y = (a > b ? a : b) + math::log1p(math::exp(-math::abs(a - b)));
  return ((a == b) & is_inf(a)) ? a : y;
}

// Return the cumulative distribution function and the density of the standard normal distribution.
template <class T> TAPER_HD T normal_cdf(T x) {
  return T(0.5) * (T(1) + math::erf(x * T(0.70710678118654752)));
}
template <class T> TAPER_HD T normal_pdf(T x) {
  return T(0.39894228040143268) * math::exp(T(-0.5) * x * x);
}
#ifndef __CUDA_ARCH__
TAPER_HD float normal_pdf(float x) { return 0.398942280f * math::exp_of_negative(-0.5f * x * x); }
// The probability of a value beyond |x| is exp(-x^2 / 2) times a quotient of polynomials in |x|,
// which is fitted to 2e-9. This form keeps the precision in the far tail. The exponential, which
// may be subnormal, is 2^32 times as large, and the numerator 2^-32 times. At 14.5 the result is 0.
TAPER_HD float normal_cdf(float x) {
  const float far = math::abs(x), a = far > 14.5f ? 14.5f : far;
  constexpr float kDown = 2.32830644e-10f;
  constexpr float kP[] = {0.5f * kDown, 4.234867053e-01f * kDown, 1.723954364e-01f * kDown,
                          3.701279428e-02f * kDown, 3.587068766e-03f * kDown};
  constexpr float kQ[] = {
      1.0f, 1.644858112f, 1.15719599f, 4.408756406e-01f, 9.278978763e-02f, 8.99117096e-03f};
  const math::ExpParts e = math::exp_parts<127 + 32>(-0.5f * a * a);
  const float density = math::exp_of_rest(e.rest) * math::power_of_two(e.bits);
  const float tail = density * (math::polynomial(a, kP) / math::polynomial(a, kQ));
  return x > 0.0f ? 1.0f - tail : tail;
}
#endif

// Returns the argument of tanh in GELU's tanh form: sqrt(2 / pi) * (x + 0.044715 * x^3).
template <class T> TAPER_HD T gelu_inner(T x) {
  return T(0.79788456080286536) * (x + T(0.044715) * x * x * x);
}

// The constants of SELU (https://arxiv.org/abs/1706.02515).
inline constexpr double kSeluAlpha = 1.6732632423543772, kSeluScale = 1.0507009873554805;

// Limits x to [0, 6]. NaN stays NaN.
template <class T> TAPER_HD T six(T x) {
  const T y = x < T(0) ? T(0) : x;
  return y > T(6) ? T(6) : y;
}
// Returns six(x + 3) / 6, correctly rounded. On a GPU a product, which Newton's method corrects, is
// faster than a division. It needs no case for small numbers, because x + 3 is 0 or at least 2^-22.
template <class T> TAPER_HD T hard_gate(T x) {
  const T y = six(x + T(3));
#ifdef __CUDA_ARCH__
  if constexpr (sizeof(T) == sizeof(float)) {
    const float q = y * (1 / 6.0f);
    return __fmaf_rn(__fmaf_rn(-6.0f, q, y), 1 / 6.0f, q);
  }
#endif
  return y / T(6);
}
// Returns n in tanh(log(1 + exp(x))) = n / (n + 2). The exponentials of the hyperbolic tangent
// become powers of exp(x).
template <class T> TAPER_HD T mish_ratio(T x) {
  const T e = math::exp(x);
  return e * (e + T(2));
}

// Use the GPU's approximate instructions, with a relative error below 3e-7.
#ifdef __CUDA_ARCH__
TAPER_HD float fast_exp2(float x) {
  asm("ex2.approx.ftz.f32 %0, %0;" : "+f"(x));
  return x;
}
TAPER_HD float fast_log2(float x) {
  asm("lg2.approx.ftz.f32 %0, %0;" : "+f"(x));
  return x;
}
TAPER_HD float fast_reciprocal(float x) {
  asm("rcp.approx.ftz.f32 %0, %0;" : "+f"(x));
  return x;
}
#else
TAPER_HD float fast_exp2(float x) { return ::exp2f(x); }
TAPER_HD float fast_log2(float x) { return ::log2f(x); }
TAPER_HD float fast_reciprocal(float x) { return 1 / x; }
#endif

TAPER_HD float fast_sigmoid(float x) { return fast_reciprocal(1 + fast_exp2(-1.44269504f * x)); }
// Returns log(1 + x) for x >= 0 with a relative error below 2e-5. Below 1/64 it is a polynomial,
// because there the logarithm of 1 + x has lost bits of x.
TAPER_HD float fast_log1p(float x) {
  const float near = x * (1 - x * (0.5f - x * (1 / 3.0f)));
  return x < 1 / 64.0f ? near : 0.69314718f * fast_log2(1 + x);
}

// GELU is x times the logistic function 1 / (1 + 2^-(x * q)), where q is a polynomial in x^2. For
// the tanh form q is exact. For the normal distribution function it is fitted to a relative error
// of 1e-4 (3e-5 for |x| < 1), which suffices for results of half types. Beyond |x| = 5.75 both are
// 0 or 1.
inline constexpr float kGeluBound = 33.0f;
TAPER_HD float gelu_weight(float x, float q) { return fast_reciprocal(1 + fast_exp2(-x * q)); }
TAPER_HD float fast_normal_cdf(float x) {
  const float z = x * x, t = z < kGeluBound ? z : kGeluBound;
  float q = -4.223687025128875e-11f;
  q = q * t + 5.77483127983669e-09f;
  q = q * t - 3.2391733384429244e-07f;
  q = q * t + 9.414266060048249e-06f;
  q = q * t - 1.3509951531887054e-04f;
  q = q * t - 2.2046605590730906e-04f;
  q = q * t + 1.050882488489151e-01f;
  q = q * t + 2.3020806312561035f;
  return gelu_weight(x, q);
}

}  // namespace taper::v0::kernels
