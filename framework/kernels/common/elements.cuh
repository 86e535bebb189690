// Access to single elements and short vectors: conversion between dtypes, 16-byte loads and stores,
// and loads and stores whose dtype is known only at run time.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include <cuda_runtime.h>

#include "framework/base/dtype.h"
#include "framework/base/host_device.h"
#include "framework/kernels/common/convert.h"

namespace taper::v0::kernels::cuda {

// The type in which elements of type T are computed.
template <class T>
using Compute = std::conditional_t<std::is_same_v<T, double>, double,
                                   std::conditional_t<std::is_integral_v<T>, int64_t, float>>;

inline constexpr int kWarp = 32;

template <int n> using Int = std::integral_constant<int, n>;

TAPER_HD constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Calls f with the TypeTag of a half type.
template <class F> decltype(auto) visit_half(DType t, F&& f) {
  if (t == kBFloat16) return f(TypeTag<BFloat16>{});
  return f(TypeTag<Half>{});
}

template <class T, int N> struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) Vec { T at[N]; };

// The machine type of a vector access of kBytes.
template <size_t kBytes> struct Word { using type = uint4; };
template <> struct Word<8> { using type = uint2; };
template <> struct Word<4> { using type = uint32_t; };
// Used for single half-type elements, where rows or random blocks are not aligned.
template <> struct Word<2> { using type = uint16_t; };

// Load and store a vector with one access (two for 32 bytes). p is aligned to the vector's size,
// but at most to 16 bytes.
template <class T, int N> __device__ inline Vec<T, N> load_vec(const T* p) {
  using W = typename Word<sizeof(Vec<T, N>)>::type;
  constexpr int kWords = sizeof(Vec<T, N>) / sizeof(W);
  W words[kWords];
#pragma unroll
  for (int i = 0; i < kWords; ++i) words[i] = reinterpret_cast<const W*>(p)[i];
  Vec<T, N> v;
  memcpy(&v, words, sizeof v);
  return v;
}
template <class T, int N> __device__ inline void store_vec(T* p, const Vec<T, N>& v) {
  using W = typename Word<sizeof(Vec<T, N>)>::type;
  constexpr int kWords = sizeof(Vec<T, N>) / sizeof(W);
  W words[kWords];
  memcpy(words, &v, sizeof v);
#pragma unroll
  for (int i = 0; i < kWords; ++i) reinterpret_cast<W*>(p)[i] = words[i];
}

inline bool is_aligned(const void* p, size_t bytes) {
  return reinterpret_cast<uintptr_t>(p) % bytes == 0;
}

// Load and store one element of any dtype. They are not inlined, to keep the many kernels small.
template <class C> __device__ __noinline__ C load_any(const char* data, DType dtype, int64_t at) {
  return visit(dtype, [&](auto tag) {
    return convert<C>(reinterpret_cast<const typename decltype(tag)::type*>(data)[at]);
  });
}
template <class C>
__device__ __noinline__ void store_any(char* data, DType dtype, int64_t at, C value) {
  visit(dtype, [&]<class T>(TypeTag<T>) { reinterpret_cast<T*>(data)[at] = convert<T>(value); });
}

}  // namespace taper::v0::kernels::cuda
