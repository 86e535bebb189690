// Activations that a product or a convolution may apply before it stores its result.
#pragma once

#include <cstdint>

namespace taper::inline v0 {

enum class Activation : uint8_t { none, relu, gelu, gelu_tanh };

}  // namespace taper::inline v0
