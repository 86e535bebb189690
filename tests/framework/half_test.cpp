// The 16-bit floating-point types: all their values, and the rounding of floats to them.
#include "framework/base/half.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

#include <gtest/gtest.h>

namespace taper::v0 {
namespace {

// Returns the value of a 16-bit pattern with `mantissa` mantissa bits, by the definition.
double value_of(uint16_t bits, int mantissa) {
  const int exponents = 15 - mantissa;
  const int bias = (1 << (exponents - 1)) - 1;
  const int exponent = (bits >> mantissa) & ((1 << exponents) - 1);
  const double fraction = double(bits & ((1 << mantissa) - 1)) / (1 << mantissa);
  const double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == (1 << exponents) - 1) return fraction == 0 ? sign * INFINITY : NAN;
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias);
  return sign * std::ldexp(1 + fraction, exponent - bias);
}

template <class T> T of_bits(uint16_t bits) {
  T x;
  x.bits = bits;
  return x;
}

template <class T> void expect_all_values_read_and_return(int mantissa) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float x = of_bits<T>(uint16_t(bits));
    const double want = value_of(uint16_t(bits), mantissa);
    if (std::isnan(want)) {
      ASSERT_TRUE(std::isnan(x)) << bits;
      ASSERT_TRUE(std::isnan(float(T(x)))) << bits;
      continue;
    }
    ASSERT_EQ(double(x), want) << bits;
    ASSERT_EQ(std::signbit(x), (bits & 0x8000) != 0) << bits;
    ASSERT_EQ(T(x).bits, bits);
  }
}

TEST(Half, AllValuesReadAndReturn) { expect_all_values_read_and_return<Half>(10); }
TEST(BFloat16, AllValuesReadAndReturn) { expect_all_values_read_and_return<BFloat16>(7); }

// Checks values just below, at and just above the midpoint of each two neighbors.
template <class T> void expect_rounding_to_nearest_even(uint16_t largest) {
  for (uint16_t bits = 0; bits < largest; ++bits) {
    const double low = float(of_bits<T>(bits)), high = float(of_bits<T>(uint16_t(bits + 1)));
    const float middle = float((low + high) / 2);
    // the midpoint is finer than a float can represent
    if (double(middle) != (low + high) / 2) continue;
    const uint16_t even = bits % 2 == 0 ? bits : uint16_t(bits + 1);
    ASSERT_EQ(T(middle).bits, even) << middle;
    ASSERT_EQ(T(-middle).bits, even | 0x8000) << middle;
    ASSERT_EQ(T(std::nextafterf(middle, 0)).bits, bits) << middle;
    ASSERT_EQ(T(std::nextafterf(middle, INFINITY)).bits, bits + 1) << middle;
  }
}

TEST(Half, RoundsToNearestEven) { expect_rounding_to_nearest_even<Half>(0x7bff); }
TEST(BFloat16, RoundsToNearestEven) { expect_rounding_to_nearest_even<BFloat16>(0x7f7f); }

TEST(Half, OverflowsToInfinityFromHalfAStepAboveTheLargest) {
  EXPECT_EQ(float(Half(65519.f)), 65504.f);
  EXPECT_EQ(float(Half(65520.f)), INFINITY);
  EXPECT_EQ(float(Half(-1e30f)), -INFINITY);
  EXPECT_EQ(float(Half(INFINITY)), INFINITY);
  EXPECT_EQ(float(BFloat16(std::numeric_limits<float>::max())), INFINITY);
}

TEST(Half, TinyNumbersBecomeSubnormalsOrZero) {
  EXPECT_EQ(Half(0x1p-24f).bits, 1);
  EXPECT_EQ(Half(0x1p-25f).bits, 0);  // halfway to the smallest value: rounds to even
  EXPECT_EQ(Half(0x1.8p-25f).bits, 1);
  EXPECT_EQ(Half(-0x1p-30f).bits, 0x8000);
  EXPECT_EQ(Half(std::numeric_limits<float>::denorm_min()).bits, 0);
}

TEST(Half, NansStayNans) {
  for (const uint32_t bits : {0x7fc00000u, 0x7f800001u, 0xffffffffu, 0x7fbfffffu}) {
    EXPECT_TRUE(std::isnan(float(Half(std::bit_cast<float>(bits))))) << bits;
    EXPECT_TRUE(std::isnan(float(BFloat16(std::bit_cast<float>(bits))))) << bits;
  }
}

}  // namespace
}  // namespace taper::v0
