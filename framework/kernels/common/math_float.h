// The functions of float on the CPU: branch-free polynomials, which compilers vectorize. Their
// error is within about 2 ulp. They are correct for infinities, NaN, subnormals and overflow. Sums
// of products are either plain * and + (the project is compiled with -ffp-contract=off) or explicit
// fused(), so that every instruction set gives the same bits. Series are Taylor series or fitted at
// Chebyshev nodes.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "framework/base/half.h"
#include "framework/base/host_device.h"
#include "framework/kernels/common/math_fused.h"
#include "framework/kernels/common/math_periodic.h"
#include "framework/kernels/common/math_wide.h"

namespace taper::v0::math {

#ifndef __CUDA_ARCH__

// ln2 = kLn2 + kLn2Rest.
inline constexpr float kLn2 = 0.693147182f, kLn2Rest = -1.90465430e-9f, kLog2E = 1.44269502f;

// Coefficients of (exp(r) - 1 - r) / r^2 for |r| <= ln2 / 2, to 4e-9.
inline constexpr float kExpTail[] = {0.5f, 0.166665152f, 0.0416663736f, 0.00836939365f,
                                     0.0013943254f};
// Return exp(r) - 1 and exp(r) for |r| <= ln2 / 2.
TAPER_HD float expm1_of_rest(float r) { return fused(r * r, polynomial(r, kExpTail), r); }
TAPER_HD float exp_of_rest(float r) {
  return fused(fused(polynomial(r, kExpTail), r, 1.0f), r, 1.0f);
}

// x = n * ln2 + rest, with |rest| <= ln2 / 2, for |x| < 1e5. The low bits of `bits` are n + bias.
// Adding 1.5 * 2^23 to a number rounds it, and the low bits of the sum are the integer.
struct ExpParts {
  float whole, rest;
  uint32_t bits;
};
template <int bias> TAPER_HD ExpParts exp_parts(float x) {
  constexpr float kMagic = kRounding + bias;
  const float shifted = fused(x, kLog2E, kMagic), whole = shifted - kMagic;
  return {whole, fused(whole, -kLn2, x), bits_of_float(shifted)};
}
// What `rest` lacks by the rounding of ln2 is added for a large n.
TAPER_HD float exact_rest(ExpParts e) { return fused(e.whole, -kLn2Rest, e.rest); }

// Returns 2^n from n + 127 in the low bits, for n in [-126, 127].
TAPER_HD float power_of_two(uint32_t bits) { return float_of_bits(bits << 23); }
// Returns y * 2^n from n + 254 in the low bits. 2^n is applied as two factors, so that the result
// can be subnormal or overflow.
TAPER_HD float times_power(float y, uint32_t bits) {
  const uint32_t half = bits >> 1;
  return y * power_of_two(half) * power_of_two(bits - half);
}

TAPER_HD float exp(float x) {
  // Below -104 the result is 0. NaN fails all comparisons and propagates.
  const float low = x < -104.0f ? -104.0f : x;
  // From n = 129 the result is infinite. A large x is reduced no further, so that its rest, whose
  // exponential is infinite or at least 1, is positive. GCC needs seven instead of four
  // instructions for two limits of the same number.
  constexpr float kMagic = kRounding + 254;
  const float sum = fused(low, kLog2E, kMagic), shifted = sum > kMagic + 129 ? kMagic + 129 : sum;
  const float whole = shifted - kMagic;
  const ExpParts e{whole, fused(whole, -kLn2, low), bits_of_float(shifted)};
  return times_power(exp_of_rest(exact_rest(e)), e.bits);
}

// Returns exp(x) for x <= 0. The power of two is applied as 2^(n + 32) and 2^-32, so that the
// result can be subnormal.
TAPER_HD float exp_of_negative(float x) {
  const ExpParts e = exp_parts<127 + 32>(x < -104.0f ? -104.0f : x);
  return exp_of_rest(exact_rest(e)) * power_of_two(e.bits) * 2.32830644e-10f;
}

TAPER_HD float exp2(float x) {
  const float low = x < -151.0f ? -151.0f : x;
  const float y = low > 129.0f ? 129.0f : low;
  constexpr float kMagic = kRounding + 254;
  const float shifted = y + kMagic, rest = y - (shifted - kMagic);
  return times_power(exp_of_rest(rest * kLn2), bits_of_float(shifted));
}

TAPER_HD float expm1(float x) {
  const float low = x < -20.0f ? -20.0f : x;
  const ExpParts e = exp_parts<126>(low > 89.0f ? 89.0f : low);
  const float p = expm1_of_rest(exact_rest(e));
  // Computes 2^n * p + (2^n - 1) with half of 2^n, because 2^128 is not representable.
  const float half = power_of_two(e.bits);
  const float y = 2.0f * fused(half, p, half - 0.5f);
  // This form preserves the sign of zero and subnormal values.
  return ::copysignf(e.whole == 0.0f ? p : y, x);
}

// The parts of x = 2^e * (1 + f) with 1 + f in [2/3, 4/3], for x > 0.
TAPER_HD wide::NormalParts log_parts(float x) {
  // A subnormal x is scaled by 2^23, which is taken from the exponent again.
  const bool is_tiny = x < std::numeric_limits<float>::min();
  const uint32_t third = 0x3f2aaaabu;
  const float y = is_tiny ? x * 8388608.0f : x;
  const uint32_t u = bits_of_float(y) - (is_tiny ? third + (23u << 23) : third);
  return {float(int32_t(u) >> 23), float_of_bits((u & 0x007fffffu) + third) - 1.0f};
}
// Returns (log(1 + f) - f) / f^2 for 1 + f in [2/3, 4/3], fitted to 5e-9 of log(1 + f).
TAPER_HD float log_tail(float f) {
  constexpr float kC[] = {-0.5f,        0.333332151f,  -0.249998003f, 0.20010446f, -0.166803762f,
                          0.140053064f, -0.121857136f, 0.139868975f,  -0.12885657f};
  return polynomial(f, kC);
}
// Returns y, which is a logarithm of x, if x is positive and finite, and the limits otherwise.
TAPER_HD float log_or_limit(float x, float y) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  // A chain of simple conditional expressions, which compilers vectorize, unlike nested ones.
  const float finite = x < inf ? y : x;
  const float edge = x == 0.0f ? -inf : nan;
  return x > 0.0f ? finite : edge;
}
TAPER_HD float log(float x) {
  const wide::NormalParts p = log_parts(x);
  const float tail = fused(p.f * p.f, log_tail(p.f), p.e * kLn2Rest);
  return log_or_limit(x, fused(p.e, kLn2, p.f + tail));
}
// Multiplies f and the rest of log(1 + f) by 1 / ln2 in two parts, so that a power of two gives
// exactly e.
TAPER_HD float log2(float x) {
  const wide::NormalParts p = log_parts(x);
  const float tail = p.f * p.f * log_tail(p.f);
  const float small = fused(p.f, 1.92596299e-8f, tail * kLog2E);
  return log_or_limit(x, p.e + fused(p.f, kLog2E, small));
}
// log10(2) and 1 / ln10 have two parts each.
TAPER_HD float log10(float x) {
  const wide::NormalParts p = log_parts(x);
  const float tail = p.f * p.f * log_tail(p.f);
  const float rest = fused(p.e, -1.43209889e-8f, p.f * -1.01030501e-8f);
  const float small = fused(tail, 0.434294492f, rest);
  return log_or_limit(x, fused(p.e, 0.301030010f, fused(p.f, 0.434294492f, small)));
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
  const float a = ::fabsf(x), inverse = 1.0f / a;
  const float t = a > 1.0f ? inverse : a;
  constexpr float kC[] = {-3.33333317e-1f, 1.99997393e-1f,  -1.42785687e-1f,
                          1.10337641e-1f,  -8.65688043e-2f, 6.25016944e-2f,
                          -3.5871539e-2f,  1.35077714e-2f,  -2.38699732e-3f};
  const float z = t * t;
  const float tail = t * (z * polynomial(z, kC));
  const float far = 1.57079637f - (t + (tail - kHalfPiRest));
  return ::copysignf(a > 1.0f ? far : t + tail, x);
}

// The parts of asin and acos. Up to 1/2, asin(x) = t + tail with t = |x|. For a larger |x|, t is
// sqrt(half) with half = (1 - |x|) / 2, and asin(|x|) = pi / 2 - 2 * (t + tail).
struct AsinParts {
  bool is_far;
  float half, root, t, tail;
};
TAPER_HD AsinParts asin_parts(float x) {
  const float a = ::fabsf(x), half = fused(-0.5f, a, 0.5f), root = ::sqrtf(half);
  const bool is_far = a > 0.5f;
  const float t = is_far ? root : a, z = is_far ? half : a * a;
  constexpr float kC[] = {1.66666663e-1f, 7.50009454e-2f, 4.45994015e-2f,
                          3.11006627e-2f, 1.71492384e-2f, 3.36908472e-2f};
  return {is_far, half, root, t, t * (z * polynomial(z, kC))};
}
TAPER_HD float asin(float x) {
  const AsinParts p = asin_parts(x);
  // The root is high + low. high has 12 bits, so that 1.57 - 2 * high is exact; low is (half -
  // high^2) / (root + high), where the small number prevents 0 / 0.
  const float high = float_of_bits(bits_of_float(p.root) & 0xfffff000u);
  const float low = fused(-high, high, p.half) / (p.root + high + 1e-30f);
  const float rest = fused(2.0f, p.tail, fused(2.0f, low, -kHalfPiRest));
  const float far = fused(-2.0f, high, 1.57079637f) - rest;
  return ::copysignf(p.is_far ? far : p.t + p.tail, x);
}
TAPER_HD float acos(float x) {
  const AsinParts p = asin_parts(x);
  const float t = ::copysignf(p.t, x), tail = ::copysignf(p.tail, x);
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

// Returns e / (e + 2) with e = exp(2 * |x|) - 1, and the sign of x. From 10 on it rounds to 1. The
// rest needs no correction, because a large n leaves little of it.
TAPER_HD float tanh(float x) {
  const float a = ::fabsf(x), b = a > 10.0f ? 10.0f : a;
  const ExpParts parts = exp_parts<127>(b + b);
  const float scale = power_of_two(parts.bits);
  const float e = fused(scale, expm1_of_rest(parts.rest), scale - 1.0f);
  return ::copysignf(e / (e + 2.0f), x);
}

// Returns 1 / (1 + exp(-x)), for a negative x as exp(x) / (1 + exp(x)).
TAPER_HD float sigmoid_of_float(float x) {
  const float e = exp_of_negative(-::fabsf(x));
  return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

// Computes erf. Below kNearErf, uses x plus x times a polynomial in x^2. From there to 4, where erf
// rounds to 1, uses 1 - exp(q(x)), where q approximates log(erfc). Both are fitted to 2e-8 and
// 2e-9.
inline constexpr float kNearErf = 0.93f;
TAPER_HD float erf(float x) {
  const float a = ::fabsf(x);
  constexpr float kP[] = {0.128379151f,   -0.376124978f,  0.112818271f,
                          -0.0267662313f, 0.00499176187f, -0.000598021375f};
  const float t = a > 4.0f ? 4.0f : a;
  constexpr float kQ[] = {-0.000166439073f, -1.12779725f,    -0.636976123f,  -0.104113616f,
                          0.0223151781f,    -0.00306548364f, 0.000198219728f};
  const ExpParts e = exp_parts<127>(polynomial(t, kQ));
  const float far = fused(exp_of_rest(e.rest), -power_of_two(e.bits), 1.0f);
  return a < kNearErf ? fused(x, polynomial(a * a, kP), x) : ::copysignf(far, x);
}

#endif

}  // namespace taper::v0::math
