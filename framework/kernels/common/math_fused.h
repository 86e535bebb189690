// Fused multiply-add: one rounding instead of two, with the same bits for every instruction set and
// compiler. Processors with FMA (since about 2013) compute it in one instruction, also in vectors,
// in functions that are compiled for them (simd_cpu.h). Elsewhere the compiler calls the C library,
// which takes about 4 ns and allows no vectors. On processors without FMA the C library computes it
// in software, in tens of nanoseconds. Loops therefore belong into vector_for() or in_clones().
#pragma once

#include "framework/base/host_device.h"

namespace taper::v0::math {

// Returns a * b + c with one rounding.
TAPER_HD float fused(float a, float b, float c) {
#if defined(__CUDA_ARCH__)
  return __fmaf_rn(a, b, c);
#else
  return __builtin_fmaf(a, b, c);
#endif
}

// Returns the sum of c[k] * x^(k - from) for k from `from` by Horner's scheme with fused
// operations. A recursion, because compilers unroll a loop of fused operations after they vectorize
// other loops.
template <int from = 0, int n> TAPER_HD float polynomial(float x, const float (&c)[n]) {
  if constexpr (from + 1 == n)
    return c[from];
  else
    return fused(polynomial<from + 1>(x, c), x, c[from]);
}

}  // namespace taper::v0::math
