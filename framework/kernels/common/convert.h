// Conversion of one element between dtypes. framework/kernels/elementwise/copy.h states the rules.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "framework/base/dtype.h"
#include "framework/base/host_device.h"

namespace taper::v0::kernels {

template <class T>
inline constexpr bool kIsHalf = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;

// Returns T(x), by a single instruction if the GPU has one.
template <class T> TAPER_HD T rounded(float x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  if constexpr (std::is_same_v<T, BFloat16>) {
    T y;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
    if (x != x) y.bits = 0x7fc0;
    return y;
  }
#endif
  return T(x);
}

// Truncates x to an integer. Values out of range saturate and NaN gives 0. On the CPU it uses
// conditional expressions, which are faster than branches there.
template <class T> TAPER_HD int64_t to_int64(T x) {
  using Limits = std::numeric_limits<int64_t>;
  constexpr T kEdge = T(9223372036854775808.0);
#ifdef __CUDA_ARCH__
  if (x != x) return 0;
  if (x >= kEdge) return Limits::max();
  return x < -kEdge ? Limits::min() : int64_t(x);
#else
  const bool fits = (x >= -kEdge) & (x < kEdge);
  const int64_t inside = int64_t(fits ? x : T(0));
  const int64_t edge = x >= kEdge ? Limits::max() : x < -kEdge ? Limits::min() : 0;
  return fits ? inside : edge;
#endif
}

template <class To, class From> TAPER_HD To convert(From x) {
  if constexpr (std::is_same_v<To, From>) {
    return x;
  } else if constexpr (kIsHalf<From>) {
    return convert<To>(float(x));
  } else if constexpr (kIsHalf<To>) {
    return rounded<To>(float(x));
  } else if constexpr (std::is_same_v<To, bool>) {
    return x != From(0);
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    return To(to_int64(x));
  } else {
    return To(x);
  }
}

// Calls f with the TypeTag of an unsigned integer of 1, 2, 4 or 8 bytes. Copies that keep the dtype
// move elements as bits.
template <class F> decltype(auto) visit_size(size_t bytes, F&& f) {
  switch (bytes) {
    case 1: return f(TypeTag<uint8_t>{});
    case 2: return f(TypeTag<uint16_t>{});
    case 4: return f(TypeTag<uint32_t>{});
    default: return f(TypeTag<uint64_t>{});
  }
}

}  // namespace taper::v0::kernels
