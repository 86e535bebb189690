// Sine, cosine and tangent of float without branches, so that compilers vectorize them, for
// arguments of moderate size. Series are fitted at Chebyshev nodes.
#pragma once

#include <cmath>
#include <cstdint>

#include "framework/base/half.h"
#include "framework/base/host_device.h"
#include "framework/kernels/common/math_wide.h"

namespace taper::v0::math {

// Represents the nearest integer to x, for |x| < 1e6, as a float and as an integer. Adding 1.5 *
// 2^23 rounds x and leaves the integer in the low bits.
struct Nearest {
  float whole;
  int32_t n;
};
TAPER_HD Nearest nearest(float x) {
  const float magic = 12582912.0f, shifted = x + magic;
  return {shifted - magic, int32_t(bits_of_float(shifted) - bits_of_float(magic))};
}

}  // namespace taper::v0::math

namespace taper::v0::math::periodic {

// The functions below take |x| < kMost.
inline constexpr float kMost = 16384;

// Argument reduction: |x| minus a multiple of pi / 2, and the multiple.
struct ReducedAngle {
  float rest;
  int32_t quarters;
};
// pi / 2 is subtracted in four parts (Cody and Waite 1980). The first three have at most 10 bits,
// so that their products with a multiple below 2^14 are exact. What the third difference loses by
// rounding is added to the fourth.
TAPER_HD ReducedAngle reduce(float x) {
  const float a = ::fabsf(x);
  const Nearest k = nearest(a * 0.636619772f);
  const float close = a - k.whole * 1.5703125f - k.whole * 0.00048351287841796875f;
  const float third = k.whole * 3.1385570764541626e-7f;
  const float rest = close - third;
  const float lost = (close - rest) - third;
  return {rest + (lost - k.whole * 6.0771005065061926e-11f), k.n};
}
TAPER_HD uint32_t sign_bit(float x) { return bits_of_float(x) & 0x80000000u; }

// Returns the sine of the angle, whose multiple may have been increased. One polynomial p in the
// square of the rest, r, serves both r + r * r^2 * p for the sine and 1 + r^2 * p for the cosine.
TAPER_HD float sin_of(ReducedAngle angle) {
  const bool is_cosine = angle.quarters & 1;
  const float z = angle.rest * angle.rest;
  const float p = (is_cosine ? -0.5f : -1.66666667e-1f) +
                  z * ((is_cosine ? 4.16666647e-2f : 8.33333187e-3f) +
                       z * ((is_cosine ? -1.38883027e-3f : -1.98400861e-4f) +
                            z * (is_cosine ? 2.45478766e-5f : 2.72498465e-6f)));
  const float base = is_cosine ? 1.0f : angle.rest;
  const float y = base + base * (z * p);
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
  const float y = r + r * (z * wide::polynomial(z, kC));
  const float turned = -1.0f / y;
  return float_of_bits(bits_of_float(angle.quarters & 1 ? turned : y) ^ sign_bit(x));
}

}  // namespace taper::v0::math::periodic
