// One number for each of two spatial dimensions: kernel sizes, strides, paddings.
#pragma once

#include <cstdint>

namespace taper::inline v0 {

// Written 3 or {3, 5}: height first.
struct Pair {
  int64_t h = 0, w = 0;
  constexpr Pair() = default;
  constexpr Pair(int64_t both) : h(both), w(both) {}
  constexpr Pair(int64_t height, int64_t width) : h(height), w(width) {}
  constexpr bool operator==(const Pair& other) const { return h == other.h && w == other.w; }
};

}  // namespace taper::inline v0
