// The engine of all element-wise CPU kernels. It splits an iteration into chunks and passes each
// operand as a plain array of the compute type. An operand that is dense in that type is passed
// directly; any other is converted into a small buffer. The engine then stores the result. A kernel
// is therefore a loop over arrays.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "framework/kernels/common/simd_cpu.h"
#include "framework/kernels/elementwise/broadcast.h"

namespace taper::v0::kernels::cpu {

// Elements per chunk. The buffers of all operands fit into the L1 cache.
inline constexpr int64_t kChunk = 1024;

// Computes out[i] = functor(in[0][i], ...) for n elements. out may be one of the inputs.
using SpanFn = void (*)(const void* functor, void* out, const void* const* in, int64_t n);

// Runs the loop. `compute` is kFloat32, kFloat64 or kInt64. If iter.out.data is null, results are
// discarded.
void run_elementwise(const TensorIterator& iter, DType compute, SpanFn span, const void* functor);

// Computes y[i] = f(x[i], ...). A functor may have a branch-free member `fast`, which is used for
// the floats for which `fits` is true. Whether it is used for an element does not depend on the
// element's neighbors.
template <class F, class T, class... X> void apply_to(T* y, int64_t n, const F f, const X*... x) {
  in_clones([=] {
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
  });
}

template <class F, class T, size_t... k>
void functor_span(const void* functor, void* out, const void* const* in, int64_t n) {
  apply_to(static_cast<T*>(out), n, *static_cast<const F*>(functor),
           static_cast<const T*>(in[k])...);
}

// Runs f, a functor of kInputs arguments, in the compute type.
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
