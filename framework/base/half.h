// The two 16-bit floating-point types, as storage types: arithmetic is done in float, and the
// result is rounded to nearest even. Conversions give the same bits on the host and on the GPU.
#pragma once

#include <cstdint>
#include <cstring>

#include "framework/base/host_device.h"

namespace taper::v0 {

TAPER_HD float float_of_bits(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}
TAPER_HD uint32_t bits_of_float(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

// 8 exponent bits and 7 mantissa bits: the upper half of a float.
struct BFloat16 {
  uint16_t bits;

  BFloat16() = default;
  TAPER_HD explicit BFloat16(float x) {
    const uint32_t u = bits_of_float(x);
    const bool nan = (u & 0x7fffffffu) > 0x7f800000u;
    const uint32_t rounded = u + 0x7fffu + ((u >> 16) & 1u);
    bits = nan ? uint16_t(0x7fc0) : uint16_t(rounded >> 16);
  }
  TAPER_HD operator float() const { return float_of_bits(uint32_t(bits) << 16); }
};

// IEEE binary16: 5 exponent bits and 10 mantissa bits, with subnormals.
struct Half {
  uint16_t bits;

  Half() = default;
  TAPER_HD explicit Half(float x) {
    const uint32_t u = bits_of_float(x);
    const uint32_t sign = (u >> 16) & 0x8000u;
    const uint32_t mag = u & 0x7fffffffu;
#ifdef __CUDA_ARCH__
    // A single instruction, which gives the bits of the host code below, except for nan.
    uint16_t rounded;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(rounded) : "f"(x));
    bits = mag > 0x7f800000u ? uint16_t(sign | 0x7e00u) : rounded;
#else
    // A subnormal result: adding 0.5 aligns the mantissa so that the floating-point unit rounds it.
    const uint32_t small = bits_of_float(float_of_bits(mag) + 0.5f) - 0x3f000000u;
    const uint32_t normal = (mag - 0x38000000u + 0xfffu + ((mag >> 13) & 1u)) >> 13;
    const uint32_t finite = mag < 0x38800000u ? small : normal;
    // Values from 65520 round to infinity. All nans become the same quiet nan.
    const uint32_t big = mag > 0x7f800000u ? 0x7e00u : 0x7c00u;
    bits = uint16_t(sign | (mag >= 0x477ff000u ? big : finite));
#endif
  }
  TAPER_HD operator float() const {
    const uint32_t sign = uint32_t(bits & 0x8000u) << 16;
    const uint32_t mag = bits & 0x7fffu;
    // Changes the exponent bias from 15 to 127 by an exact multiplication, which handles subnormals
    // too.
    const uint32_t u = bits_of_float(float_of_bits(mag << 13) * 5.192296858534828e33f);
    return float_of_bits(sign | (mag < 0x7c00u ? u : u | 0x7f800000u));
  }
};

}  // namespace taper::v0
