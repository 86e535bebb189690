// Scalar mathematics for kernels. On the GPU these are CUDA's functions. On the CPU they are std's
// for double, and Taper's own branch-free polynomials for float, which compilers vectorize. The
// error of the polynomials is within about 2 ulp. They are correct for infinities, NaN, subnormals
// and overflow. They use only plain * and +, so that every instruction set gives the same bits (the
// project is compiled with -ffp-contract=off).
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "framework/base/half.h"
#include "framework/base/host_device.h"
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
    std::exp2, std::expm1, std::lgamma, std::log, std::log10, std::log1p, std::log2, std::sinh,
    std::tanh;

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

// Returns exp(r) - 1 by its Taylor series, for |r| <= ln2 / 2.
TAPER_HD float expm1_of_rest(float r) {
  constexpr float kC[] = {0.5f, 1.0f / 6, 1.0f / 24, 1.0f / 120, 1.0f / 720, 1.0f / 5040};
  return r + r * r * wide::polynomial(r, kC);
}
// The parts of x = n * ln2 + r, with |r| <= ln2 / 2, for |x| < 1e5. p is exp(r) - 1.
struct ExpParts {
  float p;
  int32_t n;
};
TAPER_HD ExpParts exp_parts(float x) {
  const Nearest k = nearest(x * 1.44269504f);
  return {expm1_of_rest(x - k.whole * 0.693145752f - k.whole * 1.42860677e-06f), k.n};
}
// Returns 2^n for n in [-126, 127].
TAPER_HD float power_of_two(int32_t n) { return float_of_bits(uint32_t(n + 127) << 23); }

TAPER_HD float exp(float x) {
  // Below -104 the result is 0, above 89 it is infinite. NaN fails both comparisons and propagates.
  const float low = x < -104.0f ? -104.0f : x;
  const ExpParts e = exp_parts(low > 89.0f ? 89.0f : low);
  // 2^n is applied as two factors, so that the result can be subnormal or overflow.
  const int32_t half = e.n >> 1;
  return (1.0f + e.p) * power_of_two(half) * power_of_two(e.n - half);
}

// Returns exp(x) for x <= 0, or 0 below -87, where results would be subnormal.
TAPER_HD float exp_of_negative(float x) {
  const ExpParts e = exp_parts(x < -87.0f ? -87.0f : x);
  const float y = (1.0f + e.p) * power_of_two(e.n);
  return x < -87.0f ? 0.0f : y;
}

TAPER_HD float exp2(float x) {
  const float low = x < -151.0f ? -151.0f : x;
  const float y = low > 129.0f ? 129.0f : low;
  const Nearest k = nearest(y);
  const int32_t half = k.n >> 1;
  return (1.0f + expm1_of_rest((y - k.whole) * 0.693147181f)) * power_of_two(half) *
         power_of_two(k.n - half);
}

TAPER_HD float expm1(float x) {
  const float low = x < -20.0f ? -20.0f : x;
  const ExpParts e = exp_parts(low > 89.0f ? 89.0f : low);
  // Computes 2^n * p + (2^n - 1) with half of 2^n, because 2^128 is not representable.
  const float scale = power_of_two(e.n - 1);
  const float y = 2.0f * (scale * e.p + (scale - 0.5f));
  // This form preserves the sign of zero and subnormal values.
  return e.n == 0 ? (x == 0.0f ? x : e.p) : y;
}

// Computes a logarithm of any float by `of_normal`. That function takes a positive normal number
// and a number to add to its exponent.
template <class F> TAPER_HD float log_by(float x, F of_normal) {
  const bool tiny = x < std::numeric_limits<float>::min();
  const float y = of_normal(tiny ? x * 8388608.0f : x, tiny ? -23.0f : 0.0f);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  // A chain of simple conditional expressions, which compilers vectorize, unlike nested ones.
  const float finite = x < inf ? y : x;
  const float edge = x == 0.0f ? -inf : nan;
  return x > 0.0f ? finite : edge;
}
TAPER_HD float log(float x) {
  return log_by(x, [](float a, float e) { return log_of_normal(a, e); });
}
// Returns e + log(m) / log(2) for x = 2^e * m. A power of two gives exactly e.
TAPER_HD float log2(float x) {
  return log_by(x, [](float a, float e) {
    const wide::NormalParts p = normal_parts(a, e);
    const float l = log_of_one_plus(p.f, 0.0f);
    return p.e + (l * 1.44269504f + l * 1.92596300e-08f);
  });
}
TAPER_HD float log10(float x) {
  return log_by(x, [](float a, float e) {
    const wide::NormalParts p = normal_parts(a, e);
    const float l = log_of_one_plus(p.f, 0.0f);
    return p.e * 0.301025391f + (p.e * 4.60503907e-06f + l * 0.434294482f);
  });
}
TAPER_HD float atan2(float y, float x) {
  const float angle = wide::atan2(y, x);
  const bool is_nan = (x != x) | (y != y);
  return is_nan ? x + y : angle;
}
// The inverse functions subtract from pi / 2 in two parts, of which this is the small one: pi / 2 =
// 1.57079637f + kHalfPiRest.
inline constexpr float kHalfPiRest = -4.37113883e-8f;

// Uses the series up to 1, and atan(x) = pi / 2 - atan(1 / x) above.
TAPER_HD float atan(float x) {
  const float a = abs(x), inverse = 1.0f / a;
  const float t = a > 1.0f ? inverse : a;
  constexpr float kC[] = {-3.33333317e-1f, 1.99997393e-1f,  -1.42785687e-1f,
                          1.10337641e-1f,  -8.65688043e-2f, 6.25016944e-2f,
                          -3.5871539e-2f,  1.35077714e-2f,  -2.38699732e-3f};
  const float z = t * t;
  const float tail = t * (z * wide::polynomial(z, kC));
  const float far = 1.57079637f - (t + (tail - kHalfPiRest));
  return copysign(a > 1.0f ? far : t + tail, x);
}

// The parts of asin and acos. Up to 1/2, asin(x) = t + tail with t = |x|. For a larger |x|, t is
// sqrt(half) with half = (1 - |x|) / 2, and asin(|x|) = pi / 2 - 2 * (t + tail).
struct AsinParts {
  bool is_far;
  float half, root, t, tail;
};
TAPER_HD AsinParts asin_parts(float x) {
  const float a = abs(x), half = 0.5f - 0.5f * a, root = sqrt(half);
  const bool is_far = a > 0.5f;
  const float t = is_far ? root : a, z = is_far ? half : a * a;
  constexpr float kC[] = {1.66666663e-1f, 7.50009454e-2f, 4.45994015e-2f,
                          3.11006627e-2f, 1.71492384e-2f, 3.36908472e-2f};
  return {is_far, half, root, t, t * (z * wide::polynomial(z, kC))};
}
TAPER_HD float asin(float x) {
  const AsinParts p = asin_parts(x);
  // The root is high + low. high has 12 bits, so that its square is exact; low is (half - high^2) /
  // (root + high), where the small number prevents 0 / 0.
  const float high = float_of_bits(bits_of_float(p.root) & 0xfffff000u);
  const float low = (p.half - high * high) / (p.root + high + 1e-30f);
  const float rest = 2.0f * p.tail + (2.0f * low - kHalfPiRest);
  const float far = 1.57079637f - 2.0f * high - rest;
  return copysign(p.is_far ? far : p.t + p.tail, x);
}
TAPER_HD float acos(float x) {
  const AsinParts p = asin_parts(x);
  const float t = copysign(p.t, x), tail = copysign(p.tail, x);
  const float near = 1.57079637f - (t + (tail - kHalfPiRest));
  const float twice = 2.0f * (p.t + p.tail);
  const float left = 3.14159274f - (twice - 2.0f * kHalfPiRest);
  const float far = x < 0.0f ? left : twice;
  return p.is_far ? far : near;
}
TAPER_HD float sinh(float x) {
  const float low = x < -90.0f ? -90.0f : x;
  return float(wide::sinh(low > 90.0f ? 90.0f : low));
}
TAPER_HD float cosh(float x) {
  const float low = x < -90.0f ? -90.0f : x;
  return float(wide::cosh(low > 90.0f ? 90.0f : low));
}

// Computes log(u) for u = 1 + x, rounded, and adds the effect of the rounding error to first order.
TAPER_HD float log1p(float x) {
  const float u = 1.0f + x;
  const float ratio = (x - (u - 1.0f)) / u;
  // At -1 and infinity the ratio is NaN, but 1 + x is exact there.
  const float above = x > -1.0f ? ratio : 0.0f;
  const float lost = x < std::numeric_limits<float>::infinity() ? above : 0.0f;
  const float y = log(u) + lost;
  return u == 1.0f ? x : y;
}

// Returns (exp(2x) - 1) / (exp(2x) + 1). From 10 on it rounds to 1.
TAPER_HD float tanh(float x) {
  const float a = abs(x);
  const float e = expm1(2.0f * (a > 10.0f ? 10.0f : a));
  return copysign(e / (e + 2.0f), x);
}

// Computes erf. Below 1, uses x plus x times a polynomial in x^2. From 1 to 4, where erf rounds to
// 1, uses 1 - exp(q(x)), where q approximates log(erfc). Both are fitted at Chebyshev nodes, to
// 2e-9 and 5e-10.
TAPER_HD float erf(float x) {
  const float a = abs(x);
  const float z = a < 1.0f ? a * a : 1.0f;
  constexpr float kP[] = {1.2837917e-01f, -3.7612627e-01f, 1.1283595e-01f, -2.6854212e-02f,
                          5.1890874e-03f, -8.0168643e-04f, 7.8758751e-05f};
  const float t = a > 4.0f ? 4.0f : a;
  constexpr float kQ[] = {3.2013805e-04f,  -1.1302334e+00f, -6.3182605e-01f,
                          -1.1008008e-01f, 2.6421136e-02f,  -4.7595963e-03f,
                          5.9680563e-04f,  -4.6058043e-05f, 1.6371514e-06f};
  const float far = copysign(1.0f - exp_of_negative(wide::polynomial(t, kQ)), x);
  return a < 1.0f ? x + x * wide::polynomial(z, kP) : far;
}

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
  const float near = wide::polynomial(w - 2.5f, kNear),
              far = wide::polynomial(sqrt(w) - 3.0f, kFar);
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
