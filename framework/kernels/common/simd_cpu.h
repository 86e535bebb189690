// Compiles loops for several instruction sets, and runs them in vectors.
#pragma once

#include <cstdint>

#include "framework/base/namespace.h"

// TAPER_CLONES before a function compiles it for AVX-512, AVX2 and plain x86-64; the dynamic loader
// selects one version for the processor. No version fuses multiplications and additions on its own
// (-ffp-contract=off), so all give the same bits; math::fused() fuses them in every version. All
// calls in the function are inlined, because a function that is called lacks the instruction set of
// the version. Disabled under sanitizers, because the resolvers run before the sanitizer is
// initialized. Clang has no clones of function templates, and GCC 11 none for these names.
#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__) && \
    __GNUC__ >= 12 && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) &&     \
    !defined(TAPER_NO_CLONES)
#define TAPER_HAS_CLONES 1
#define TAPER_CLONES \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default"), flatten))
#else
#define TAPER_CLONES
#endif

namespace taper::v0::kernels::cpu {

// in_clones(f) returns f(), compiled for the instruction set of the processor also in builds
// without TAPER_CLONES. Loops that call math::fused() use it, because they are up to 50 times as
// slow without the instruction.
#if !defined(TAPER_HAS_CLONES) && defined(__x86_64__) && defined(__GNUC__)

template <class F> __attribute__((target("arch=x86-64-v4"), flatten)) auto in_v4(const F f) {
  return f();
}
template <class F> __attribute__((target("arch=x86-64-v3"), flatten)) auto in_v3(const F f) {
  return f();
}
inline const bool kHasV3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                           __builtin_cpu_supports("bmi2");
inline const bool kHasV4 = kHasV3 && __builtin_cpu_supports("avx512f") &&
                           __builtin_cpu_supports("avx512vl") &&
                           __builtin_cpu_supports("avx512bw") &&
                           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512cd");

template <class F> auto in_clones(const F f) {
  if (kHasV4) return in_v4(f);
  return kHasV3 ? in_v3(f) : f();
}

#else

template <class F> TAPER_CLONES auto in_clones(const F f) { return f(); }

#endif

// Calls f(i) for i in [0, n) in vectors. No f(i) may read what another one writes.
template <class F> void vector_for(int64_t n, const F f) {
  in_clones([=] {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) f(i);
  });
}

}  // namespace taper::v0::kernels::cpu
