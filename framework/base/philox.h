// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011) as a
// function of (seed, stream, element index): counter = element index / 4. cuRAND's
// curand_init(seed, stream, index) gives the same words. Bits are the same on every device.
#pragma once

#include <cstdint>

#include "framework/base/host_device.h"

namespace taper::v0 {

// Identifies one draw. Every random op takes the next stream of its generator.
struct PhiloxKey {
  uint64_t seed = 0;
  uint64_t stream = 0;
  // GPU memory whose value is added to the stream number. A replayed graph reads it. Null outside
  // of graphs.
  const uint64_t* base = nullptr;
};
// Returns the key with its base added to the stream, for GPU kernels.
TAPER_HD PhiloxKey resolved(PhiloxKey key) {
  return key.base ? PhiloxKey{key.seed, key.stream + *key.base} : key;
}

struct Philox4 {
  uint32_t word[4];
};

// Multiplies two 32-bit numbers. Returns the low word of the product and stores the high word.
TAPER_HD uint32_t mul_hi_lo(uint32_t a, uint32_t b, uint32_t& high) {
#ifdef __CUDA_ARCH__
  uint64_t p;  // nvcc would add the upper halves, which are 0, if both factors were 64-bit
  asm("mul.wide.u32 %0, %1, %2;" : "=l"(p) : "r"(a), "r"(b));
#else
  const uint64_t p = uint64_t(a) * b;
#endif
  high = uint32_t(p >> 32);
  return uint32_t(p);
}

// Returns the four words of block `block` (elements 4*block to 4*block+3) of a stream.
TAPER_HD Philox4 philox(PhiloxKey key, uint64_t block) {
  uint32_t c0 = uint32_t(block), c1 = uint32_t(block >> 32);
  uint32_t c2 = uint32_t(key.stream), c3 = uint32_t(key.stream >> 32);
  uint32_t k0 = uint32_t(key.seed), k1 = uint32_t(key.seed >> 32);
  for (int round = 0; round < 10; ++round) {
    uint32_t hi0, hi1;
    const uint32_t lo0 = mul_hi_lo(0xD2511F53u, c0, hi0);
    const uint32_t lo1 = mul_hi_lo(0xCD9E8D57u, c2, hi1);
    c0 = hi1 ^ c1 ^ k0;
    c1 = lo1;
    c2 = hi0 ^ c3 ^ k1;
    c3 = lo0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

// Returns a number in [0, 1) with 24 random bits, which a float represents exactly.
TAPER_HD float uniform_float(uint32_t word) { return float(word >> 8) * 5.9604644775390625e-08f; }

// Returns a number in [0, 1) with 53 random bits.
TAPER_HD double uniform_double(uint32_t high, uint32_t low) {
  const uint64_t bits = (uint64_t(high) << 32 | low) >> 11;
  return double(bits) * 1.1102230246251565e-16;
}

}  // namespace taper::v0
