// Sine, cosine and tangent of float without branches, so that compilers vectorize them, for
// arguments of moderate size. Series are fitted at Chebyshev nodes.
#pragma once

#include <cmath>
#include <cstdint>

#include "framework/base/half.h"
#include "framework/base/host_device.h"
#include "framework/kernels/common/math_fused.h"

namespace taper::v0::math {

// Added to a number below 1e6, 1.5 * 2^23 rounds it to an integer, which is then in the low bits.
inline constexpr float kRounding = 12582912.0f;

}  // namespace taper::v0::math

namespace taper::v0::math::periodic {

// The functions below take |x| < kMost.
inline constexpr float kMost = 16384;

// Argument reduction: |x| minus a multiple of pi / 2, and the multiple.
struct ReducedAngle {
  float rest;
  int32_t quarters;
};
// pi / 2 is subtracted in three parts. The first difference is exact, because the product is not
// rounded. (Cody and Waite 1980 need parts with few bits instead.)
TAPER_HD ReducedAngle reduce(float x) {
  const float a = ::fabsf(x), shifted = fused(a, 0.636619772f, kRounding);
  const float whole = shifted - kRounding;
  const float close = fused(whole, 4.37113883e-8f, fused(whole, -1.57079637f, a));
  return {fused(whole, 1.71512451e-15f, close), int32_t(bits_of_float(shifted))};
}
TAPER_HD uint32_t sign_bit(float x) { return bits_of_float(x) & 0x80000000u; }

// Returns the sine of the angle, whose multiple may have been increased. One polynomial p in the
// square of the rest, r, serves both r + r * r^2 * p for the sine and 1 + r^2 * p for the cosine.
TAPER_HD float sin_of(ReducedAngle angle) {
  const bool is_cosine = angle.quarters & 1;
  const float z = angle.rest * angle.rest;
  const float last = is_cosine ? 2.45478766e-5f : 2.72498465e-6f;
  const float third = fused(z, last, is_cosine ? -1.38883027e-3f : -1.98400861e-4f);
  const float second = fused(z, third, is_cosine ? 4.16666647e-2f : 8.33333187e-3f);
  const float p = fused(z, second, is_cosine ? -0.5f : -1.66666667e-1f);
  const float base = is_cosine ? 1.0f : angle.rest;
  const float y = fused(base, z * p, base);
  return float_of_bits(bits_of_float(y) ^ (uint32_t(angle.quarters & 2) << 30));
}
// The sign of x is applied at the end, so that sin(-0) is -0.
TAPER_HD float sin(float x) {
  return float_of_bits(bits_of_float(sin_of(reduce(x))) ^ sign_bit(x));
}
TAPER_HD float cos(float x) {
  const ReducedAngle angle = reduce(x);
  return sin_of({angle.rest, angle.quarters + 1});
}

TAPER_HD float tan(float x) {
  const ReducedAngle angle = reduce(x);
  const float r = angle.rest, z = r * r;
  constexpr float kC[] = {3.3333334e-1f,  1.33332308e-1f, 5.3994506e-2f, 2.16208026e-2f,
                          9.96328608e-3f, 1.18350217e-3f, 3.84421928e-3f};
  const float y = fused(r, z * polynomial(z, kC), r);
  const float turned = -1.0f / y;
  return float_of_bits(bits_of_float(angle.quarters & 1 ? turned : y) ^ sign_bit(x));
}

}  // namespace taper::v0::math::periodic
