// Functions of float computed in double without branches, so that compilers vectorize them. Their
// relative error of at most 1e-9 rarely shows after rounding to float. Series are Taylor series or
// fitted at Chebyshev nodes.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "framework/base/half.h"
#include "framework/base/host_device.h"

namespace taper::v0::math::wide {

TAPER_HD uint64_t bits_of(double x) {
  uint64_t u;
  memcpy(&u, &x, sizeof u);
  return u;
}
TAPER_HD double of_bits(uint64_t u) {
  double x;
  memcpy(&x, &u, sizeof x);
  return x;
}

// Returns the sum of c[k] * x^k.
template <class T, int n> TAPER_HD T polynomial(T x, const T (&c)[n]) {
  T y = c[n - 1];
  for (int k = n - 2; k >= 0; --k) y = y * x + c[k];
  return y;
}

// Added to a number, 1.5 * 2^52 rounds it to an integer, which is then in the low bits.
inline constexpr double kMagic = 6755399441055744.0;

// Returns 2^x for |x| < 1000.
TAPER_HD double exp2(double x) {
  const double shifted = x + kMagic;
  constexpr double kC[] = {0.9999999999997505,     0.6931471805465735,     0.24022650699042442,
                           0.055504109391524004,   0.00961812850935354,    0.0013333452213459566,
                           0.00015403873561785274, 1.5309702802717273e-05, 1.3171451652686942e-06};
  return polynomial(x - (shifted - kMagic), kC) * of_bits((bits_of(shifted) + 1023) << 52);
}
// Returns e^x for |x| < 690.
TAPER_HD double exp(double x) { return exp2(x * 1.4426950408889634); }

// Returns log(1 + f) for 1 + f in [sqrt(1/2), sqrt(2)] by the series of artanh(s), where s = f / (2
// + f).
TAPER_HD double log_of_one_plus(double f) {
  const double s = f / (2 + f);
  constexpr double kC[] = {2.0,      2.0 / 3,  2.0 / 5,  2.0 / 7, 2.0 / 9,
                           2.0 / 11, 2.0 / 13, 2.0 / 15, 2.0 / 17};
  return s * polynomial(s * s, kC);
}
// A positive normal number is 2^e * (1 + f), with 1 + f in [sqrt(1/2), sqrt(2)].
struct NormalParts {
  float e, f;
};
TAPER_HD NormalParts normal_parts(float x) {
  const uint32_t root_half = 0x3f3504f3u;
  const uint32_t u = bits_of_float(x) - root_half;
  return {float(int32_t(u) >> 23), float_of_bits((u & 0x007fffffu) + root_half) - 1.0f};
}
// Returns the logarithm of a positive normal float.
TAPER_HD double log(float x) {
  const NormalParts p = normal_parts(x);
  return double(p.e) * 0.6931471805599453 + log_of_one_plus(p.f);
}
// Returns the logarithm of a double within float's range. Corrects the error of rounding x to
// float.
TAPER_HD double log(double x) {
  const float near = float(x);
  const double lost = (x - near) / near;
  return log(near) + lost * (1 - 0.5 * lost);
}

// Returns atan(x) for x in [0, 1].
TAPER_HD double atan_below_one(double x) {
  constexpr double kC[] = {0.9999999999318797,   -0.33333331350299933, 0.19999903388487353,
                           -0.14283847806347255, 0.11092192098676698,  -0.08975399736160637,
                           0.07231780819901393,  -0.05402100405507228, 0.033902256360512736,
                           -0.01588422813098222, 0.004755744736801553, -0.0006675796270830592};
  return x * polynomial(x * x, kC);
}
// Returns the angle of the point (x, y). Neither may be NaN. Pairs of zeros and of infinities give
// the signs and angles of std::atan2.
TAPER_HD float atan2(float y, float x) {
  const float a = y < 0 ? -y : y, b = x < 0 ? -x : x;
  const float low = a < b ? a : b, high = a < b ? b : a;
  const bool is_diagonal = (low == high) & (high != 0);
  const float above = is_diagonal ? 1.0f : low;
  const float below = low == high ? 1.0f : high;
  const double t = atan_below_one(double(above) / double(below));
  const double half = a > b ? 1.5707963267948966 - t : t;
  const float side = ::copysignf(1.0f, x);
  return ::copysignf(float(side < 0 ? 3.1415926535897932 - half : half), y);
}

// Returns sinh(x) for |x| < 690. Below 1 it uses the series, because the difference of exponentials
// would lose digits.
TAPER_HD double sinh(double x) {
  const double e = exp(x), z = x * x;
  constexpr double kC[] = {1, 1.0 / 6, 1.0 / 120, 1.0 / 5040, 1.0 / 362880, 1.0 / 39916800};
  const double series = x * polynomial(z, kC);
  const double difference = 0.5 * (e - 1 / e);
  return z < 1 ? series : difference;
}
TAPER_HD double cosh(double x) {
  const double e = exp(x);
  return 0.5 * (e + 1 / e);
}

// Returns x^y for a positive normal x. Powers that float cannot represent give values outside its
// range.
TAPER_HD double pow(float x, float y) {
  const double t = y * (log(x) * 1.4426950408889634);
  const double low = t < -200 ? -200 : t;
  return exp2(low > 200 ? 200 : low);
}

// The largest quotient for which fmod, remainder and floor_divide are exact: the quotient and both
// floats fit in a double.
inline constexpr double kQuotient = 16777216;
TAPER_HD bool divides(float a, float b) {
  constexpr double kMost = std::numeric_limits<float>::max();
  const double x = a < 0 ? -a : a, y = b < 0 ? -b : b;
  return (x < y * kQuotient) & (y <= kMost);
}
// The truncated quotient q and the remainder a - q * b.
struct Quotient {
  double whole, rest;
};
TAPER_HD Quotient quotient(float a, float b) {
  const double q = ::trunc(double(a) / b);
  return {q, double(a) - q * b};
}

// Returns lgamma(x) for x from the smallest normal number up. From 8 on it uses Stirling's series.
// A smaller x is shifted there by lgamma(x) = lgamma(x + 1) - log(x)
// (https://dlmf.nist.gov/5.11.E1).
TAPER_HD double lgamma(float x) {
  double w = x, product = 1;
  for (int k = 0; k < 8; ++k) {
    const bool is_low = w < 8;
    product *= is_low ? w : 1;
    w += is_low ? 1 : 0;
  }
  constexpr double kC[] = {1.0 / 12,   -1.0 / 360,      1.0 / 1260, -1.0 / 1680,
                           1.0 / 1188, -691.0 / 360360, 1.0 / 156};
  const double r = 1 / w;
  return (w - 0.5) * log(w) - w + 0.91893853320467274 + r * polynomial(r * r, kC) - log(product);
}

// Returns d lgamma(x) / dx for x from the smallest normal number up. Uses the asymptotic series
// from 10 on (https://dlmf.nist.gov/5.11.E2).
TAPER_HD double digamma(float x) {
  double w = x, p = 0, q = 1;  // p / q = 1 / w + 1 / (w + 1) + ...
  for (int k = 0; k < 10; ++k) {
    const bool is_low = w < 10;
    p = is_low ? p * w + q : p;
    q *= is_low ? w : 1;
    w += is_low ? 1 : 0;
  }
  constexpr double kC[] = {1.0 / 12, -1.0 / 120, 1.0 / 252, -1.0 / 240, 1.0 / 132};
  const double r = 1 / w, z = r * r;
  return log(w) - 0.5 * r - z * polynomial(z, kC) - p / q;
}

}  // namespace taper::v0::math::wide
