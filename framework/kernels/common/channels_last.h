// Sizes and strides of [N, C, ...] in the order of channels-last memory, [N, ..., C].
#pragma once

#include <algorithm>

#include "framework/base/shape.h"

namespace taper::v0::kernels {

// Moves the second of the sizes or strides to the end.
inline Shape with_channels_last(Shape s) {
  std::rotate(s.begin() + 1, s.begin() + 2, s.end());
  return s;
}
// Moves the last of the sizes or strides to the second place.
inline Shape with_channels_second(Shape s) {
  std::rotate(s.begin() + 1, s.end() - 1, s.end());
  return s;
}

}  // namespace taper::v0::kernels
