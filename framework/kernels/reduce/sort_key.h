// Formulas of sorting and of running sums that the CPU and CUDA share.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "framework/base/host_device.h"
#include "framework/kernels/common/arithmetic.h"
#include "framework/kernels/common/convert.h"

namespace taper::v0::kernels {

// The unsigned type of the keys of elements of type T, which has the same size.
template <class T>
using SortKey = std::conditional_t<sizeof(T) == 2, uint16_t,
                                   std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>;

// Returns a key that sorts like x. IEEE numbers sort like their bits, with negative ones reversed.
// Both zeros have equal keys, and so do all NaNs, which are the largest.
template <class T> TAPER_HD SortKey<T> sort_key(T x, bool descending) {
  using Key = SortKey<T>;
  using Bits = std::make_signed_t<Key>;
  constexpr Bits kLargest = std::numeric_limits<Bits>::max();
  Bits bits = std::bit_cast<Bits>(x);
  if (!std::is_integral_v<T> && bits < 0) bits = Bits(-(bits & kLargest));
  const std::conditional_t<kIsHalf<T>, float, T> number = x;
  if (number != number) bits = kLargest;
  const Key ascending = Key(Key(bits) ^ Key(Key(1) << std::numeric_limits<Bits>::digits));
  return descending ? Key(~ascending) : ascending;
}
// Calls f with the TypeTag of a dtype whose elements have keys: int64 or a floating dtype.
template <class F> void visit_sorted(DType dtype, F f) {
  if (dtype == kInt64) return f(TypeTag<int64_t>{});
  visit_floating(dtype, f);
}
// Sets x to the element with this key and returns true. Returns false if different elements have
// the key, which is the case for zeros and NaNs.
template <class T> TAPER_HD bool element_of_key(SortKey<T> key, bool descending, T& x) {
  using Key = SortKey<T>;
  using Bits = std::make_signed_t<Key>;
  using Limits = std::numeric_limits<Bits>;
  const Key ascending = descending ? Key(~key) : key;
  Bits bits = Bits(ascending ^ Key(Key(1) << Limits::digits));
  if (!std::is_integral_v<T>) {
    if (bits == 0 || bits == Limits::max()) return false;
    if (bits < 0) bits = Bits(-bits | Limits::min());
  }
  x = std::bit_cast<T>(bits);
  return true;
}

// The sum of numbers that are given by their logarithms.
template <class C> struct LogSum {
  using Acc = C;
  static TAPER_HD C none() { return -std::numeric_limits<C>::infinity(); }
  static TAPER_HD C join(C a, C b) { return log_add_exp(a, b); }
};

}  // namespace taper::v0::kernels
