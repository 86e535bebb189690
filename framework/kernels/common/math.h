// Scalar mathematics for kernels. On the GPU these are CUDA's functions. On the CPU they are std's
// for double, and Taper's own for float (math_float.h).
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "framework/base/half.h"
#include "framework/base/host_device.h"
#include "framework/kernels/common/math_float.h"
#include "framework/kernels/common/math_gamma.h"
#include "framework/kernels/common/math_periodic.h"
#include "framework/kernels/common/math_wide.h"

namespace taper::v0::math {

// Products and sums that compilers do not fuse, so that host and GPU produce the same bits.
#ifdef __CUDA_ARCH__
TAPER_HD float mul_rn(float a, float b) { return __fmul_rn(a, b); }
TAPER_HD double mul_rn(double a, double b) { return __dmul_rn(a, b); }
TAPER_HD float add_rn(float a, float b) { return __fadd_rn(a, b); }
TAPER_HD double add_rn(double a, double b) { return __dadd_rn(a, b); }
#else
TAPER_HD float mul_rn(float a, float b) { return a * b; }
TAPER_HD double mul_rn(double a, double b) { return a * b; }
TAPER_HD float add_rn(float a, float b) { return a + b; }
TAPER_HD double add_rn(double a, double b) { return a + b; }
#endif

using std::ceil, std::copysign, std::cos, std::floor, std::fmod, std::pow, std::sin, std::sqrt,
    std::tan, std::trunc;
TAPER_HD float abs(float x) { return ::fabsf(x); }
TAPER_HD double abs(double x) { return ::fabs(x); }
// Rounds halves to even.
TAPER_HD float round(float x) { return ::rintf(x); }
TAPER_HD double round(double x) { return ::rint(x); }
// Returns the absolute value of an integer. That of the smallest integer is not representable, so
// the function returns it unchanged.
TAPER_HD int64_t abs(int64_t x) { return x < 0 ? int64_t(-uint64_t(x)) : x; }
TAPER_HD int64_t ceil(int64_t x) { return x; }
TAPER_HD int64_t floor(int64_t x) { return x; }
TAPER_HD int64_t round(int64_t x) { return x; }
TAPER_HD int64_t trunc(int64_t x) { return x; }

// Returns whether x is positive, finite and not below the smallest normal number.
TAPER_HD bool is_normal(float x) {
  constexpr float kLeast = std::numeric_limits<float>::min();
  constexpr float kMost = std::numeric_limits<float>::max();
  return (x >= kLeast) & (x <= kMost);
}

// Returns log(1 + f) for 1 + f in [sqrt(1/2), sqrt(2)], as f - (f^2/2 - s * (f^2/2 + R)). Here s =
// f / (2 + f), R = 2/3 s^2 + 2/5 s^4 + 2/7 s^6 and so on, and s^2 < 0.0295. `carry` is added to the
// small part.
template <class T> TAPER_HD T log_of_one_plus(T f, T carry) {
  constexpr int kTerms = sizeof(T) == 4 ? 4 : 10;
  const T s = f / add_rn(T(2), f);
  const T z = mul_rn(s, s);
  T r = 0;
  for (int k = kTerms; k >= 1; --k) r = mul_rn(z, add_rn(T(2) / T(2 * k + 1), r));
  const T half_square = mul_rn(T(0.5), mul_rn(f, f));
  const T tail = add_rn(mul_rn(s, add_rn(half_square, r)), carry);
  return add_rn(f, -add_rn(half_square, -tail));
}

// Decomposes x into e and f of 2^e * (1 + f), and adds e_shift to e. This undoes a scaling of x by
// a power of two.
TAPER_HD wide::NormalParts normal_parts(float x, float e_shift) {
  const wide::NormalParts p = wide::normal_parts(x);
  return {add_rn(p.e, e_shift), p.f};
}
// Returns the logarithm of a positive normal number x = 2^e * (1 + f). ln2 is split so that e *
// high is exact.
TAPER_HD float log_of_normal(float x, float e_shift = 0) {
  const wide::NormalParts p = normal_parts(x, e_shift);
  const float low = log_of_one_plus(p.f, mul_rn(p.e, 1.42860677e-06f));
  return add_rn(mul_rn(p.e, 0.693145752f), low);
}
TAPER_HD double log_of_normal(double x) {
  const uint64_t root_half = 0x3fe6a09e667f3bcdull;
  const uint64_t u = wide::bits_of(x) - root_half;
  const double e = double(int64_t(u) >> 52);
  const double f = wide::of_bits((u & 0x000fffffffffffffull) + root_half) - 1.0;
  const double low = log_of_one_plus(f, mul_rn(e, 1.9082149292705877e-10));
  return add_rn(mul_rn(e, 0.69314718036912382), low);
}

#ifdef __CUDA_ARCH__

using std::acos, std::asin, std::atan, std::atan2, std::cosh, std::erf, std::erfc, std::exp,
    std::exp2, std::expm1, std::log, std::log10, std::log1p, std::log2, std::sinh, std::tanh;

TAPER_HD float lgamma(float x) { return gamma::log_gamma<gamma::ForFloat>(x); }
TAPER_HD double lgamma(double x) { return std::lgamma(x); }

#else

TAPER_HD double acos(double x) { return ::acos(x); }
TAPER_HD double asin(double x) { return ::asin(x); }
TAPER_HD double atan(double x) { return ::atan(x); }
TAPER_HD double atan2(double y, double x) { return ::atan2(y, x); }
TAPER_HD double cosh(double x) { return ::cosh(x); }
TAPER_HD double exp2(double x) { return ::exp2(x); }
TAPER_HD double log10(double x) { return ::log10(x); }
TAPER_HD double log2(double x) { return ::log2(x); }
TAPER_HD double sinh(double x) { return ::sinh(x); }
TAPER_HD double exp(double x) { return ::exp(x); }
TAPER_HD double expm1(double x) { return ::expm1(x); }
TAPER_HD double log(double x) { return ::log(x); }
TAPER_HD double log1p(double x) { return ::log1p(x); }
TAPER_HD double tanh(double x) { return ::tanh(x); }
TAPER_HD double erf(double x) { return ::erf(x); }
TAPER_HD double erfc(double x) { return ::erfc(x); }

// Returns log |gamma(x)|. The standard functions without _r would write the sign to a global
// variable.
TAPER_HD float lgamma(float x) {
  int sign;
  return ::lgammaf_r(x, &sign);
}
TAPER_HD double lgamma(double x) {
  int sign;
  return ::lgamma_r(x, &sign);
}

#endif

// Returns 1 / (1 + exp(-x)) without overflow. It is accurate in the far tail too.
template <class T> TAPER_HD T sigmoid(T x) {
#ifndef __CUDA_ARCH__
  if constexpr (std::is_same_v<T, float>) return sigmoid_of_float(x);
#endif
  const T e = exp(-abs(x));
  const T y = T(1) / (T(1) + e);
  return x < T(0) ? e * y : y;
}

// Returns the inverse of erf for a in (0, 1). The first guess is a series below 0.5 and Winitzki's
// formula above (2008, relative error 2e-3). Each step of Halley's method cubes the error.
TAPER_HD double erfinv_of_positive(double a) {
  const double log_part = log1p(-a * a);
  const double t = 4.3307467508 + 0.5 * log_part;  // 2 / (0.147 * pi) + ...
  const double z = a * a;
  const double series = 0.88622692545275801 * a * (1.0 + z * (0.2617993877991494 + z * 0.14393173));
  double y = a < 0.5 ? series : sqrt(sqrt(t * t - log_part / 0.147) - t);
  for (int k = 0; k < 3; ++k) {
    // Near 1, the difference of erfc is exact where that of erf would cancel.
    const double rest = a < 0.5 ? erf(y) - a : (1.0 - a) - erfc(y);
    const double step = rest * exp(y * y) * 0.88622692545275801;
    y -= step / (1.0 + y * step);
  }
  return y;
}
// Returns erfinv(x) for |x| < 1 as x times a polynomial. Both polynomials are fitted at Chebyshev
// nodes in w = -log(1 - x^2), to 7e-9 below w = 5 and 2e-8 above.
TAPER_HD float erfinv_inside(float x) {
  const float w = -log((1.0f - x) * (1.0f + x));
  constexpr float kNear[] = {1.50140936e+00f, 2.46640289e-01f,  -4.17738976e-03f, -1.25274842e-03f,
                             2.18346915e-04f, -4.95974350e-06f, -3.46335617e-06f, 4.65428731e-07f,
                             2.32858445e-08f, -8.73983100e-09f};
  constexpr float kFar[] = {2.83297683e+00f,  1.00167485e+00f,  9.44397879e-03f, -7.63541878e-03f,
                            5.69733670e-03f,  -3.60719002e-03f, 1.45906293e-03f, -3.50408632e-05f,
                            -2.89066016e-04f, 9.85021745e-05f};
  const float near = polynomial(w - 2.5f, kNear), far = polynomial(sqrt(w) - 3.0f, kFar);
  return x * (w < 5.0f ? near : far);
}
TAPER_HD double erfinv_inside(double x) {
  return x == 0 ? x : copysign(erfinv_of_positive(abs(x)), x);
}
// Returns the inverse of erf.
template <class T> TAPER_HD T erfinv(T x) {
  if (abs(x) < T(1)) return erfinv_inside(x);
  if (abs(x) == T(1)) return copysign(std::numeric_limits<T>::infinity(), x);
  return std::numeric_limits<T>::quiet_NaN();
}

// Derivatives of lgamma (Abramowitz and Stegun 6.3 and 6.4). From 10 on, the asymptotic series with
// the Bernoulli numbers B2 to B14 has full double precision. Smaller arguments are shifted there by
// the recurrence, and negative ones by reflection.
inline constexpr int kSeriesFrom = 10;
// Returns the sum of B_2k * x^(k-1) * factor(2k) for k = 1 to 7.
template <class T, class F> TAPER_HD T bernoulli_series(T x, F factor) {
  constexpr double kB[] = {1.0 / 6,  -1.0 / 30,     1.0 / 42, -1.0 / 30,
                           5.0 / 66, -691.0 / 2730, 7.0 / 6};
  T y = 0;
  for (int k = 7; k >= 1; --k) y = y * x + T(kB[k - 1]) * factor(2 * k);
  return y;
}
// Returns pi * x minus a multiple of pi, computed from the exact distance to the nearest integer.
template <class T> TAPER_HD T pi_fraction(T x) { return T(3.14159265358979324) * (x - round(x)); }

// Returns d log gamma(x) / dx. It is -inf at 0 and NaN at negative integers.
template <class T> TAPER_HD T digamma(T x) {
  if (x == T(0)) return copysign(std::numeric_limits<T>::infinity(), -x);
  T y = 0, w = x;
  if (x < T(0)) {
    const T angle = pi_fraction(x);
    if (angle == T(0)) return std::numeric_limits<T>::quiet_NaN();
    y = T(-3.14159265358979324) * cos(angle) / sin(angle);
    w = T(1) - x;
  }
  T p = 0, q = 1;  // p / q = 1 / w + 1 / (w + 1) + ...
  for (; w < T(kSeriesFrom); w += T(1)) {
    p = p * w + q;
    q *= w;
  }
  const T z = T(1) / (w * w);
  const T series = z * bernoulli_series(z, [](int k) { return T(1) / T(k); });
  return y + (log(w) - T(0.5) / w - series - p / q);
}

// Returns the first (order 1) or second (order 2) derivative of digamma.
template <int order, class T> TAPER_HD T polygamma(T x) {
  constexpr bool kFirst = order == 1;
  T w = x < T(0) ? T(1) - x : x, sum = 0;
  for (; w < T(kSeriesFrom); w += T(1)) sum += T(1) / (kFirst ? w * w : w * w * w);
  const T r = T(1) / w, z = r * r;
  const T y = kFirst ? sum + r + T(0.5) * z + z * r * bernoulli_series(z, [](int) { return T(1); })
                     : T(-2) * sum - z - z * r -
                           z * z * bernoulli_series(z, [](int k) { return T(k + 1); });
  if (!(x < T(0))) return y;
  const T angle = pi_fraction(x), c = T(3.14159265358979324) / sin(angle);
  return kFirst ? c * c - y : y - T(2) * c * c * c * cos(angle);
}

template <class T> struct NormalPair { T cosine, sine; };

// Returns two independent standard normals from two uniforms in [0, 1) (Box and Muller 1958):
// sqrt(-2 * log(1 - u)) times cos and sin of 2 * pi * v. Host and GPU produce the same bits.
template <class T> TAPER_HD NormalPair<T> normal_from_uniform(T u, T v) {
  const T radius = sqrt(mul_rn(T(-2), log_of_normal(add_rn(T(1), -u))));
  // v = quarter / 4 + rest with |rest| <= 1/8. Both are exact.
  const int quarter = int(add_rn(mul_rn(v, T(4)), T(0.5)));
  const T rest = add_rn(v, mul_rn(T(-0.25), T(quarter)));
  const T t = mul_rn(rest, T(6.283185307179586));
  const T z = mul_rn(t, t);
  // Taylor series in nested form: 1 - z/(2*3) * (1 - z/(4*5) * (...)) for the sine, and 1 - z/(1*2)
  // * (1 - z/(3*4) * (...)) for the cosine.
  constexpr int kTerms = sizeof(T) == 4 ? 5 : 9;
  T s = 1, c = 1;
  for (int k = kTerms; k >= 1; --k) {
    s = add_rn(T(1), -mul_rn(mul_rn(z, T(1) / T(2 * k * (2 * k + 1))), s));
    c = add_rn(T(1), -mul_rn(mul_rn(z, T(1) / T(2 * k * (2 * k - 1))), c));
  }
  s = mul_rn(t, s);
  const T x = quarter & 1 ? -s : c;
  const T y = quarter & 1 ? c : s;
  const bool negative = quarter & 2;
  return {mul_rn(radius, negative ? -x : x), mul_rn(radius, negative ? -y : y)};
}

}  // namespace taper::v0::math
