// Activations that a matrix product or convolution can apply before it stores its result.
#pragma once

#include <cstdint>

#include "framework/base/namespace.h"

namespace taper::v0 {

enum class Activation : uint8_t { kNone, kRelu, kGelu, kGeluTanh };

}  // namespace taper::v0
