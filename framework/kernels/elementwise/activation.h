// Activations that a matrix product or convolution can apply before it stores its result.
#pragma once

#include <cstdint>

#include "framework/base/namespace.h"

namespace taper::v0 {

enum class Activation : uint8_t { none, relu, gelu, gelu_tanh };

}  // namespace taper::v0
