// Compiles a function's loops for AVX-512, AVX2 and plain x86-64; the dynamic loader selects one
// version for the processor. No version fuses multiplications and additions (-ffp-contract=off), so
// all give the same bits. Disabled under sanitizers, because the resolvers run before the sanitizer
// is initialized.
#pragma once

#include <cstdint>

#include "framework/base/namespace.h"

#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && !defined(TAPER_NO_CLONES)
#define TAPER_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define TAPER_CLONES
#endif

namespace taper::v0::kernels::cpu {

// Calls f(i) for i in [0, n) in vectors. No f(i) may read what another one writes.
template <class F> TAPER_CLONES void vector_for(int64_t n, const F f) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) f(i);
}

}  // namespace taper::v0::kernels::cpu
