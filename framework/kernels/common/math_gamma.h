// log |gamma(x)| of a float for the GPU. Positive numbers take no branch, so that the numbers of a
// warp, which may be in different intervals, cost no more than equal ones. The CPU has
// wide::lgamma.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "framework/base/half.h"
#include "framework/base/host_device.h"
#include "framework/kernels/common/math_fused.h"

namespace taper::v0::math::gamma {

// lgamma(t) = (t - 1) * (t - 2) * p(t) / q(t) for t in [0.7, 3.5]. The factors keep the relative
// precision at the roots 1 and 2. From 3.5 on, Stirling's series (https://dlmf.nist.gov/5.11.E1) is
// (x - 1/2) * log(x) - x + log(2 * pi) / 2 + s(1 / x^2) / x. All polynomials are fitted to relative
// errors of the result.
inline constexpr float kSeriesFrom = 3.5f, kShiftBelow = 0.7f;

// Fitted to 3e-9 and 3e-8.
struct ForFloat {
  static TAPER_HD float p(float t) {
    constexpr float kC[] = {13.2167368f, 65.8426132f, 43.8357506f, 3.74583364f};
    return polynomial(t, kC);
  }
  static TAPER_HD float q(float t) {
    constexpr float kC[] = {6.87847948f, 76.4866943f, 106.945534f, 28.0889721f, 1.0f};
    return polynomial(t, kC);
  }
  static TAPER_HD float s(float z) {
    constexpr float kC[] = {0.0833332613f, -0.00277338363f, 0.000706492574f};
    return polynomial(z, kC);
  }
  // Returns the logarithm of a positive normal number, or of infinity, which gives a number above
  // 88. x = 2^e * (1 + f) with 1 + f in [2/3, 4/3], and log(1 + f) is f + f^2 times a polynomial,
  // which is fitted to 5e-9. e stays scaled by 2^23.
  static TAPER_HD float log(float x) {
    constexpr uint32_t kThird = 0x3f2aaaab;
    constexpr float kScaledLn2 = 0.693147182f / 8388608;
    constexpr float kC[] = {-0.5f,        0.333332151f,  -0.249998003f, 0.20010446f, -0.166803762f,
                            0.140053064f, -0.121857136f, 0.139868975f,  -0.12885657f};
    const uint32_t bits = bits_of_float(x), e = (bits - kThird) & 0xff800000u;
    const float f = float_of_bits(bits - e) - 1.0f;
    return fused(float(int32_t(e)), kScaledLn2, fused(f * f, polynomial(f, kC), f));
  }
};

// For results of half types. Fitted to 4e-5 and 6e-6.
struct ForHalf {
  static TAPER_HD float p(float t) {
    constexpr float kC[] = {1.27479851f, 1.7383846f, 0.0603460744f};
    return polynomial(t, kC);
  }
  static TAPER_HD float q(float t) {
    constexpr float kC[] = {0.840240657f, 3.48452735f, 1.0f};
    return polynomial(t, kC);
  }
  static TAPER_HD float s(float) { return 0.0831356198f; }
  static TAPER_HD float log(float x) {
#ifdef __CUDA_ARCH__
    float y;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
#else
    const float y = ::log2f(x);
#endif
    return 0.693147182f * y;
  }
};

TAPER_HD float reciprocal(float x) {
#ifdef __CUDA_ARCH__
  asm("rcp.approx.ftz.f32 %0, %0;" : "+f"(x));
  return x;
#else
  return 1.0f / x;
#endif
}

// Returns lgamma(a) for a from the smallest normal number up. Below 0.7 it is lgamma(a + 1) -
// log(a). Stirling's series is summed as (a - 1/2) * (log(a) - 1) and a rest, so that it overflows
// only where lgamma does.
template <class Form> TAPER_HD float of_positive(float a) {
  const bool is_low = a < kShiftBelow, is_far = a >= kSeriesFrom;
  const float log = Form::log(a), t = is_low ? a + 1.0f : a;
  const float inverse = reciprocal(is_far ? a : Form::q(t));
  const float middle = (t - 1.0f) * (t - 2.0f) * Form::p(t) * inverse;
  const float near = middle + (is_low ? -log : 0.0f);  // not -0 at the roots
  const float rest = fused(Form::s(inverse * inverse), inverse, 0.418938533f);
  return is_far ? fused(a - 0.5f, log - 1.0f, rest) : near;
}

// Returns log |gamma(x)| of zero, a subnormal or negative number, or NaN. Uses the reflection
// gamma(x) * gamma(-x) = -pi / (x * sin(pi * x)) (https://dlmf.nist.gov/5.5.E3). Near the roots
// below -2, where both terms cancel, only the absolute error is small, as with CUDA's lgammaf. The
// result is infinite at zero, negative integers and -infinity.
TAPER_HD float by_reflection(float x) {
  const float a = ::fabsf(x), whole = ::rintf(a);
  if (a == whole) return std::numeric_limits<float>::infinity();
  // Below 1e-7, the next term after -log(a) is too small to show. a may be subnormal.
  constexpr float kScale = 18446744073709551616.0f, kLogOfScale = 44.3614196f;  // 2^64
  if (a < 1e-7f) return kLogOfScale - ForFloat::log(a * kScale);
  constexpr float kSine[] = {1.0f, -1.6449331f, 0.811712384f, -0.190426379f, 0.0246882383f};
  const float r = a - whole, sine = ::fabsf(r) * polynomial(r * r, kSine);  // |sin(pi * x)| / pi
  return -ForFloat::log(a * sine) - of_positive<ForFloat>(a);
}

// Returns log |gamma(x)|.
template <class Form> TAPER_HD float log_gamma(float x) {
  return x >= std::numeric_limits<float>::min() ? of_positive<Form>(x) : by_reflection(x);
}

}  // namespace taper::v0::math::gamma
