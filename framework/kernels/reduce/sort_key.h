// Formulas of sorting and of running sums that the CPU and CUDA share.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "framework/base/host_device.h"
#include "framework/kernels/common/arithmetic.h"

namespace taper::v0::kernels {

// Returns a key that sorts like x. IEEE numbers sort like their bits, with negative ones reversed.
// Both zeros have equal keys, and so do all NaNs, which are the largest.
template <class T> TAPER_HD auto sort_key(T x, bool descending) {
  using Key = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  using Bits = std::make_signed_t<Key>;
  constexpr Bits kLargest = std::numeric_limits<Bits>::max();
  Bits bits = std::bit_cast<Bits>(x);
  if (std::is_floating_point_v<T> && bits < 0) bits = -(bits & kLargest);
  if (x != x) bits = kLargest;
  const Key ascending = Key(bits) ^ (Key(1) << std::numeric_limits<Bits>::digits);
  return descending ? ~ascending : ascending;
}
template <class T> using SortKey = decltype(sort_key(T(), false));

// The sum of numbers that are given by their logarithms.
template <class C> struct LogSum {
  using Acc = C;
  static TAPER_HD C none() { return -std::numeric_limits<C>::infinity(); }
  static TAPER_HD C join(C a, C b) { return log_add_exp(a, b); }
};

}  // namespace taper::v0::kernels
