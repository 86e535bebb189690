// The size of the result of an interpolation.
#pragma once

#include <concepts>

#include "framework/base/shape.h"

namespace taper::v0 {

// One number for all spatial dimensions, or one for each of two or three: 7, {5, 7} or {3, 5, 7}.
struct InterpolateSize {
  int64_t d = 0, h = 0, w = 0;
  int count = 1;  // of numbers given
  InterpolateSize() = default;
  template <std::convertible_to<IntArg> T> InterpolateSize(T all) : d(IntArg(all)), h(d), w(d) {}
  InterpolateSize(Pair p) : d(1), h(p.h), w(p.w), count(2) {}
  InterpolateSize(const Triple& t) : d(t.d), h(t.h), w(t.w), count(3) {}
  InterpolateSize(IntArg height, IntArg width) : InterpolateSize(Pair(height, width)) {}
  InterpolateSize(IntArg depth, IntArg height, IntArg width)
      : InterpolateSize(Triple(depth, height, width)) {}
};

}  // namespace taper::v0
