// The engine under all element-wise CPU kernels. It cuts the loop in chunks, gives each chunk's
// operands as plain arrays of the compute type (in place where they are that already, else
// converted into a small buffer) and stores the result; a kernel is then one loop over arrays.
#pragma once

#include <cstdint>

#include "framework/kernels/elementwise/broadcast.h"
#include "framework/kernels/simd_cpu.h"

namespace taper::kernels::cpu {

// Elements of one chunk: all operands' buffers stay in the first cache.
inline constexpr int64_t kChunk = 1024;

// out[i] = functor(in[0][i], ...) over n elements; out may be one of the inputs.
using SpanFn = void (*)(const void* functor, void* out, const void* const* in, int64_t n);

// compute: kFloat32, kFloat64 or kInt64. Without an output (loop.out.data null) results are
// dropped.
void run_elementwise(const Loop& loop, DType compute, SpanFn span, const void* functor);

template <class F, class T>
TAPER_CLONES void unary_span(const void* functor, void* out, const void* const* in, int64_t n) {
  const F f = *static_cast<const F*>(functor);
  const T* x = static_cast<const T*>(in[0]);
  T* y = static_cast<T*>(out);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = f(x[i]);
}

template <class F, class T>
TAPER_CLONES void binary_span(const void* functor, void* out, const void* const* in, int64_t n) {
  const F f = *static_cast<const F*>(functor);
  const T* a = static_cast<const T*>(in[0]);
  const T* b = static_cast<const T*>(in[1]);
  T* y = static_cast<T*>(out);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = f(a[i], b[i]);
}

template <class F, class T>
TAPER_CLONES void ternary_span(const void* functor, void* out, const void* const* in, int64_t n) {
  const F f = *static_cast<const F*>(functor);
  const T* a = static_cast<const T*>(in[0]);
  const T* b = static_cast<const T*>(in[1]);
  const T* c = static_cast<const T*>(in[2]);
  T* y = static_cast<T*>(out);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = f(a[i], b[i], c[i]);
}

}  // namespace taper::kernels::cpu
