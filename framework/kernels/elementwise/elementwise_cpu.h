// The engine under all element-wise CPU kernels. It cuts an iteration in chunks, gives each chunk's
// operands as plain arrays of the compute type (in place where they are that already, else
// converted into a small buffer) and stores the result; a kernel is then one loop over arrays.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "framework/kernels/common/simd_cpu.h"
#include "framework/kernels/elementwise/broadcast.h"

namespace taper::v0::kernels::cpu {

// Elements of one chunk: all operands' buffers stay in the first cache.
inline constexpr int64_t kChunk = 1024;

// out[i] = functor(in[0][i], ...) over n elements; out may be one of the inputs.
using SpanFn = void (*)(const void* functor, void* out, const void* const* in, int64_t n);

// compute: kFloat32, kFloat64 or kInt64. Without an output (iter.out.data null) results are
// dropped.
void run_elementwise(const TensorIterator& iter, DType compute, SpanFn span, const void* functor);

// y[i] = f(x[i], ...). A functor may have a form of its own for the floats that `fits` finds,
// without branches: which form an element takes does not depend on its neighbours.
template <class F, class T, class... X>
TAPER_CLONES void apply_to(T* y, int64_t n, const F f, const X*... x) {
  if constexpr (std::is_same_v<T, float> && requires { f.fast(*x...); }) {
    int32_t outside = 0;
#pragma omp simd reduction(| : outside)
    for (int64_t i = 0; i < n; ++i) outside |= !f.fits(x[i]...);
    if (outside) {
      for (int64_t i = 0; i < n; ++i) y[i] = f.fits(x[i]...) ? f.fast(x[i]...) : f(x[i]...);
    } else {
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) y[i] = f.fast(x[i]...);
    }
    return;
  }
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = f(x[i]...);
}

template <class F, class T, size_t... k>
void functor_span(const void* functor, void* out, const void* const* in, int64_t n) {
  apply_to(static_cast<T*>(out), n, *static_cast<const F*>(functor),
           static_cast<const T*>(in[k])...);
}

// f of kInputs elements in the compute type.
template <int kInputs, class F>
void run_functor(const TensorIterator& iter, DType compute, const F& f) {
  const auto run = [&]<class T, size_t... k>(TypeTag<T>, std::index_sequence<k...>) {
    run_elementwise(iter, dtype_of<T>, functor_span<F, T, k...>, &f);
  };
  constexpr std::make_index_sequence<kInputs> kInOrder;
  if (compute == kFloat64) return run(TypeTag<double>(), kInOrder);
  if constexpr (F::kIntegers) {
    if (compute == kInt64) return run(TypeTag<int64_t>(), kInOrder);
  }
  run(TypeTag<float>(), kInOrder);
}

}  // namespace taper::v0::kernels::cpu
