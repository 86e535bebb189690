// The GPU's element-wise engine: runs a functor over a TensorIterator with one output and up to
// three inputs. Dense operands of one dtype use a kernel with 16-byte accesses. Dense operands of
// comparisons, where() and conversions, whose dtypes differ, use one that processes eight elements
// in a thread. All other cases (broadcasting, strides, mixed dtypes) use a strided kernel in which
// a thread processes four adjacent elements of the innermost dimension. The output is overwritten;
// it may be one of the inputs.
#pragma once

#include <cassert>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <cuda_runtime.h>

#include "framework/cuda/runtime.h"
#include "framework/kernels/common/arithmetic.h"
#include "framework/kernels/common/elements.cuh"
#include "framework/kernels/common/kernel_launch.h"
#include "framework/kernels/elementwise/broadcast.h"
#include "framework/kernels/elementwise/strided_index.cuh"

namespace taper::v0::kernels::cuda {

inline constexpr int kThreads = 256;

// A type-erased kernel. Its arguments do not depend on the functor's type, so the code that
// prepares them is compiled once instead of once per functor.
using Kernel = const void*;
template <class F, class Args> Kernel kernel_of(void (*kernel)(F, Args)) {
  return reinterpret_cast<Kernel>(kernel);
}
inline void launch(const char* op, Kernel kernel, const void* f, void* args, int64_t blocks,
                   const taper::cuda::Launch& on) {
  assert(blocks <= kMaxPiece);
  void* arguments[] = {const_cast<void*>(f), args};
  on.enqueue(kernel, {unsigned(blocks), kThreads}, arguments, taper::cuda::kernels_wait(on.device));
  on.check(op);  // throws if the launch failed
}

template <class C> C number_of(const Operand& x) {
  return std::is_same_v<C, int64_t> ? C(x.integer) : C(x.number);
}

template <class F, class C, int... n>
__device__ inline C apply(const F& f, const C* x, std::integer_sequence<int, n...>) {
  return C(f(x[n]...));
}

// --- dense operands of dtype T ---

template <class T, int N> struct DenseArgs {
  struct Input {
    const T* data;  // null for a number
    Compute<T> number;
    bool single;  // one element for all
  };
  T* out;
  Input in[N];
  int64_t numel;
  bool aligned;  // whether every pointer is aligned to 16 bytes
};

template <class T, int N> struct DenseTile {
  static constexpr int kVec = 16 / sizeof(T);
  static constexpr int kSize = kThreads * kVec;
};

template <class F, class T, int N>
__global__ void __launch_bounds__(kThreads) dense_kernel(F f, DenseArgs<T, N> args) {
  begin_kernel();
  using C = Compute<T>;
  using Tile = DenseTile<T, N>;
  constexpr std::make_integer_sequence<int, N> kInputs{};
  C one[N];
  bool full[N];
#pragma unroll
  for (int n = 0; n < N; ++n) {
    full[n] = args.in[n].data && !args.in[n].single;
    one[n] = args.in[n].single ? convert<C>(*args.in[n].data) : args.in[n].number;
  }
  const int64_t start = int64_t(blockIdx.x) * Tile::kSize;
  if (!args.aligned || start + Tile::kSize > args.numel) {
    const int64_t end = start + Tile::kSize < args.numel ? start + Tile::kSize : args.numel;
#pragma unroll 1
    for (int64_t i = start + threadIdx.x; i < end; i += kThreads) {
      C x[N];
#pragma unroll
      for (int n = 0; n < N; ++n) x[n] = full[n] ? convert<C>(args.in[n].data[i]) : one[n];
      args.out[i] = convert<T>(apply(f, x, kInputs));
    }
    return;
  }

  const int64_t at = start + int64_t(threadIdx.x) * Tile::kVec;
  Vec<T, Tile::kVec> v[N], y;
#pragma unroll
  for (int n = 0; n < N; ++n) {
    if (full[n]) v[n] = load_vec<T, Tile::kVec>(args.in[n].data + at);
  }
#pragma unroll
  for (int j = 0; j < Tile::kVec; ++j) {
    C x[N];
#pragma unroll
    for (int n = 0; n < N; ++n) x[n] = full[n] ? convert<C>(v[n].at[j]) : one[n];
    y.at[j] = convert<T>(apply(f, x, kInputs));
  }
  store_vec(args.out + at, y);
}

// Returns whether every tensor operand is dense and has dtype T.
template <class T, int N> bool is_dense_in(const TensorIterator& iter) {
  bool yes = iter.dense && iter.out.dtype == dtype_of<T>;
  for (int n = 0; n < N; ++n) {
    yes = yes && (!iter.in[n].data || iter.in[n].dtype == dtype_of<T>);
  }
  return yes;
}

template <class T, int N>
void run_dense(const char* op, Kernel kernel, const void* f, const TensorIterator& iter,
               const taper::cuda::Launch& on) {
  DenseArgs<T, N> args;
  args.out = static_cast<T*>(iter.out.data);
  args.numel = iter.numel;
  args.aligned = is_aligned(args.out, 16);
  for (int n = 0; n < N; ++n) {
    const Operand& x = iter.in[n];
    const bool single = x.data && x.strides[0] == 0 && iter.numel > 1;
    args.in[n] = {static_cast<const T*>(x.data), number_of<Compute<T>>(x), single};
    args.aligned = args.aligned && (!x.data || single || is_aligned(x.data, 16));
  }
  launch(op, kernel, f, &args, ceil_div(iter.numel, DenseTile<T, N>::kSize), on);
}

// --- dense operands of dtype T, float and bool, computed in float ---

// A tensor, one element for all unless `full`, or a number if data is null.
struct MixedOperand {
  char* data;
  float number;
  DType dtype;
  bool full;
};
template <int N> struct MixedArgs {
  MixedOperand operand[N + 1];
  int64_t numel;
};

inline constexpr int kMixedGroup = 8;  // elements per thread
using MixedGroup = Vec<float, kMixedGroup>;

// Calls f with the TypeTag of an operand's dtype, which is bool, float or T.
template <class T, class F> __device__ inline decltype(auto) visit_mixed(DType dtype, const F& f) {
  if (dtype == DType::kBool) return f(TypeTag<bool>{});
  if (dtype == dtype_of<T>) return f(TypeTag<T>{});
  return f(TypeTag<float>{});
}

// The bytes of a group: 8 for bool, 16 for a half type, and 32 for float.
struct GroupBytes {
  uint4 low, high;
};

// Loads a group, unless all its elements are equal. The elements are converted by another function,
// so that the loads of all operands are issued before the first one is waited for.
template <class T>
__device__ void load_bytes(const MixedOperand& x, int64_t at, GroupBytes& bytes) {
  if (!x.full) return;
  if (x.dtype == DType::kBool) {
    const uint2 v = *reinterpret_cast<const uint2*>(x.data + at);
    bytes.low.x = v.x;
    bytes.low.y = v.y;
    return;
  }
  const bool is_half = sizeof(T) == 2 && x.dtype == dtype_of<T>;
  const auto* p = reinterpret_cast<const uint4*>(x.data + at * (is_half ? 2 : 4));
  bytes.low = p[0];
  if (!is_half) bytes.high = p[1];
}

// Return element `at`, also where all are equal, and the elements of a loaded group.
template <class T> __device__ float element(const MixedOperand& x, int64_t at) {
  if (!x.data) return x.number;
  return visit_mixed<T>(x.dtype, [&]<class U>(TypeTag<U>) {
    return convert<float>(reinterpret_cast<const U*>(x.data)[x.full ? at : 0]);
  });
}
template <class T> __device__ MixedGroup elements(const MixedOperand& x, const GroupBytes& bytes) {
  MixedGroup g;
  if (!x.full) {
    const float one = element<T>(x, 0);
#pragma unroll
    for (int j = 0; j < kMixedGroup; ++j) g.at[j] = one;
    return g;
  }
  return visit_mixed<T>(x.dtype, [&]<class U>(TypeTag<U>) {
    Vec<U, kMixedGroup> v;
    memcpy(&v, &bytes, sizeof v);
#pragma unroll
    for (int j = 0; j < kMixedGroup; ++j) g.at[j] = convert<float>(v.at[j]);
    return g;
  });
}

template <class T> __device__ void store(const MixedOperand& y, int64_t at, const MixedGroup& g) {
  visit_mixed<T>(y.dtype, [&]<class U>(TypeTag<U>) {
    Vec<U, kMixedGroup> v;
#pragma unroll
    for (int j = 0; j < kMixedGroup; ++j) v.at[j] = convert<U>(g.at[j]);
    store_vec(reinterpret_cast<U*>(y.data) + at, v);
  });
}

template <class F, class T, int N>
__global__ void __launch_bounds__(kThreads)
    mixed_kernel(F f, const __grid_constant__ MixedArgs<N> args) {
  begin_kernel();
  constexpr std::make_integer_sequence<int, N> kInputs{};
  const int64_t at = (int64_t(blockIdx.x) * kThreads + threadIdx.x) * kMixedGroup;
  if (at + kMixedGroup > args.numel) {
#pragma unroll 1
    for (int64_t i = at; i < args.numel; ++i) {
      float x[N];
#pragma unroll
      for (int n = 0; n < N; ++n) x[n] = element<T>(args.operand[n + 1], i);
      const float y = apply(f, x, kInputs);
      visit_mixed<T>(args.operand[0].dtype, [&]<class U>(TypeTag<U>) {
        reinterpret_cast<U*>(args.operand[0].data)[i] = convert<U>(y);
      });
    }
    return;
  }
  GroupBytes bytes[N];
#pragma unroll
  for (int n = 0; n < N; ++n) load_bytes<T>(args.operand[n + 1], at, bytes[n]);
  MixedGroup x[N], y;
#pragma unroll
  for (int n = 0; n < N; ++n) x[n] = elements<T>(args.operand[n + 1], bytes[n]);
#pragma unroll
  for (int j = 0; j < kMixedGroup; ++j) {
    float one[N];
#pragma unroll
    for (int n = 0; n < N; ++n) one[n] = x[n].at[j];
    y.at[j] = apply(f, one, kInputs);
  }
  store<T>(args.operand[0], at, y);
}

inline bool is_single(const Operand& x) { return x.data && x.strides[0] == 0; }

template <int N>
void run_mixed(const char* op, Kernel kernel, const void* f, const TensorIterator& iter,
               const taper::cuda::Launch& on) {
  MixedArgs<N> args;
  args.numel = iter.numel;
  for (int k = 0; k <= N; ++k) {
    const Operand& x = operand_of(iter, k);
    const bool full = x.data && !is_single(x);
    args.operand[k] = {static_cast<char*>(x.data), float(x.number), x.dtype, full};
  }
  launch(op, kernel, f, &args, ceil_div(ceil_div(iter.numel, kMixedGroup), kThreads), on);
}

// Returns whether every tensor operand is dense, aligned for vectors of kMixedGroup elements, and
// of dtype T, float or bool.
template <class T, int N> bool is_mixed(const TensorIterator& iter) {
  bool yes = iter.dense;
  for (int k = 0; k <= N; ++k) {
    const Operand& x = operand_of(iter, k);
    const size_t bytes = std::min<size_t>(16, kMixedGroup * size_of(x.dtype));
    const bool is_known = x.dtype == dtype_of<T> || x.dtype == kFloat32 || x.dtype == kBool;
    yes = yes && (!x.data || (is_known && (is_single(x) || is_aligned(x.data, bytes))));
  }
  return yes;
}

// --- strided operands ---

template <class C> using Group = Vec<C, kGroup>;

// A tensor operand, or a number if data is null.
template <class C> struct Strided {
  char* data;
  C number;
  int64_t inner_stride;
  DType dtype;
  bool vector;
};

template <class C, int N> struct StridedArgs {
  OffsetCalculator<N + 1> offsets;
  Strided<C> operand[N + 1];
};

template <class C>
__device__ inline Group<C> load_elements(const char* data, int64_t offset, int64_t stride,
                                         int count) {
  const C* p = reinterpret_cast<const C*>(data) + offset;
  Group<C> g{};
#pragma unroll
  for (int j = 0; j < kGroup; ++j) {
    if (j < count) g.at[j] = p[j * stride];
  }
  return g;
}
template <class C>
__device__ inline void store_elements(char* data, int64_t offset, int64_t stride, int count,
                                      const Group<C>& g) {
  C* p = reinterpret_cast<C*>(data) + offset;
#pragma unroll
  for (int j = 0; j < kGroup; ++j) {
    if (j < count) p[j * stride] = g.at[j];
  }
}

template <class T, class C>
__device__ inline Group<C> load_group(const char* data, int64_t offset) {
  const Vec<T, kGroup> v = load_vec<T, kGroup>(reinterpret_cast<const T*>(data) + offset);
  Group<C> g;
#pragma unroll
  for (int j = 0; j < kGroup; ++j) g.at[j] = convert<C>(v.at[j]);
  return g;
}
template <class T, class C>
__device__ inline void store_group(char* data, int64_t offset, const Group<C>& g) {
  Vec<T, kGroup> v;
#pragma unroll
  for (int j = 0; j < kGroup; ++j) v.at[j] = convert<T>(g.at[j]);
  store_vec(reinterpret_cast<T*>(data) + offset, v);
}

// Loads a group of elements. The frequent cases are inlined: loads of the compute type, and vector
// loads of half types and of bool.
template <class C> __device__ inline Group<C> load(const Strided<C>& x, int64_t offset, int count) {
  if (!x.data || x.inner_stride == 0) {
    const C one = x.data ? load_any<C>(x.data, x.dtype, offset) : x.number;
    Group<C> g;
#pragma unroll
    for (int j = 0; j < kGroup; ++j) g.at[j] = one;
    return g;
  }
  if (x.dtype == dtype_of<C>) {
    if (x.vector) return load_group<C, C>(x.data, offset);
    return load_elements<C>(x.data, offset, x.inner_stride, count);
  }
  if (x.vector && x.dtype == DType::kBool) return load_group<bool, C>(x.data, offset);
  if constexpr (std::is_same_v<C, float>) {
    if (x.vector && x.dtype == DType::kBFloat16) return load_group<BFloat16, C>(x.data, offset);
    if (x.vector && x.dtype == DType::kFloat16) return load_group<Half, C>(x.data, offset);
  }
  Group<C> g{};
#pragma unroll
  for (int j = 0; j < kGroup; ++j) {
    if (j < count) g.at[j] = load_any<C>(x.data, x.dtype, offset + j * x.inner_stride);
  }
  return g;
}
template <class C>
__device__ inline void store(const Strided<C>& x, int64_t offset, int count, const Group<C>& g) {
  if (x.dtype == dtype_of<C>) {
    if (x.vector) return store_group<C>(x.data, offset, g);
    return store_elements(x.data, offset, x.inner_stride, count, g);
  }
  if (x.vector && x.dtype == DType::kBool) return store_group<bool>(x.data, offset, g);
  if constexpr (std::is_same_v<C, float>) {
    if (x.vector && x.dtype == DType::kBFloat16) return store_group<BFloat16>(x.data, offset, g);
    if (x.vector && x.dtype == DType::kFloat16) return store_group<Half>(x.data, offset, g);
  }
#pragma unroll
  for (int j = 0; j < kGroup; ++j) {
    if (j < count) store_any<C>(x.data, x.dtype, offset + j * x.inner_stride, g.at[j]);
  }
}

template <class F, class C, int N>
__global__ void __launch_bounds__(kThreads)
    strided_kernel(F f, const __grid_constant__ StridedArgs<C, N> args) {
  begin_kernel();
  const uint32_t group = blockIdx.x * kThreads + threadIdx.x;
  if (group >= args.offsets.groups) return;
  const Place<N + 1> place = args.offsets.at(group);
  const int count = args.offsets.count(place.inner);
  Group<C> x[N];
#pragma unroll
  for (int n = 0; n < N; ++n) x[n] = load(args.operand[n + 1], place.offset[n + 1], count);
  Group<C> y;
#pragma unroll
  for (int j = 0; j < kGroup; ++j) {
    C element[N];
#pragma unroll
    for (int n = 0; n < N; ++n) element[n] = x[n].at[j];
    y.at[j] = apply(f, element, std::make_integer_sequence<int, N>{});
  }
  store(args.operand[0], place.offset[0], count, y);
}

template <class C, int N>
void run_strided(const char* op, Kernel kernel, const void* f, const TensorIterator& iter,
                 const taper::cuda::Launch& on) {
  for_each_piece(iter, [&](const TensorIterator& piece) {
    StridedArgs<C, N> args;
    args.offsets = make_offsets<N + 1>(piece);
    for (int k = 0; k <= N; ++k) {
      const Operand& x = operand_of(piece, k);
      args.operand[k] = {static_cast<char*>(x.data), number_of<C>(x), args.offsets.inner_stride[k],
                         x.dtype, has_vectors(args.offsets, k, x)};
    }
    launch(op, kernel, f, &args, ceil_div(args.offsets.groups, kThreads), on);
  });
}

// --- entry points ---

// The kernels of a functor; null where it has none. There are no dense kernels for float64 and
// int64, because the vector accesses of the strided kernel serve them as well.
struct Kernels {
  Kernel dense_float = nullptr, dense_bfloat16 = nullptr, dense_half = nullptr;
  Kernel strided_float = nullptr, strided_half = nullptr;  // the output's dtype selects one
  Kernel strided_double = nullptr, strided_int64 = nullptr;
  Kernel mixed_float = nullptr, mixed_bfloat16 = nullptr, mixed_half = nullptr;
};

// F, or F's cheaper version for results of half types if it has one, which takes the same settings.
template <class F> struct OfHalf { using type = F; };
template <class F>
requires requires { typename F::ForHalf; }
struct OfHalf<F> {
  using type = typename F::ForHalf;
};

template <class F, int N> Kernels kernels_of() {
  using H = typename OfHalf<F>::type;
  static_assert(sizeof(H) == sizeof(F), "kernels of both are given one object");
  Kernels k;
  if constexpr (F::kDense) {
    k.dense_float = kernel_of(dense_kernel<F, float, N>);
    k.dense_bfloat16 = kernel_of(dense_kernel<H, BFloat16, N>);
    k.dense_half = kernel_of(dense_kernel<H, Half, N>);
  }
  if constexpr (std::is_base_of_v<Predicates, F>) {
    k.mixed_float = kernel_of(mixed_kernel<F, float, N>);
    k.mixed_bfloat16 = kernel_of(mixed_kernel<H, BFloat16, N>);
    k.mixed_half = kernel_of(mixed_kernel<H, Half, N>);
  }
  k.strided_float = kernel_of(strided_kernel<F, float, N>);
  k.strided_half = kernel_of(strided_kernel<H, float, N>);
  k.strided_double = kernel_of(strided_kernel<F, double, N>);
  if constexpr (F::kIntegers) k.strided_int64 = kernel_of(strided_kernel<F, int64_t, N>);
  return k;
}

template <int N>
void run_kernels(const char* op, const Kernels& kernels, const void* f, const TensorIterator& iter,
                 DType compute) {
  if (iter.numel == 0) return;
  assert(iter.inputs == N);
  const taper::cuda::Launch on(iter.device);
  if (compute == kFloat64) return run_strided<double, N>(op, kernels.strided_double, f, iter, on);
  if (compute == kInt64) return run_strided<int64_t, N>(op, kernels.strided_int64, f, iter, on);
  if (kernels.dense_float) {
    if (is_dense_in<float, N>(iter)) {
      return run_dense<float, N>(op, kernels.dense_float, f, iter, on);
    }
    if (is_dense_in<BFloat16, N>(iter)) {
      return run_dense<BFloat16, N>(op, kernels.dense_bfloat16, f, iter, on);
    }
    if (is_dense_in<Half, N>(iter)) return run_dense<Half, N>(op, kernels.dense_half, f, iter, on);
  }
  if (kernels.mixed_float) {
    if (is_mixed<float, N>(iter)) return run_mixed<N>(op, kernels.mixed_float, f, iter, on);
    if (is_mixed<BFloat16, N>(iter)) return run_mixed<N>(op, kernels.mixed_bfloat16, f, iter, on);
    if (is_mixed<Half, N>(iter)) return run_mixed<N>(op, kernels.mixed_half, f, iter, on);
  }
  const Kernel strided = is_half(iter.out.dtype) ? kernels.strided_half : kernels.strided_float;
  run_strided<float, N>(op, strided, f, iter, on);
}

template <int N, class F>
void run_elementwise(const char* op, const F& f, const TensorIterator& iter, DType compute) {
  run_kernels<N>(op, kernels_of<F, N>(), &f, iter, compute);
}

}  // namespace taper::v0::kernels::cuda
