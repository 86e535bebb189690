// Activations that a matrix product or convolution can apply before it stores its result.
#pragma once

#include <cstdint>

#include "framework/base/namespace.h"
#include "framework/base/text_enum.h"

namespace taper::v0 {

struct ActivationValues {
  enum class Value : uint8_t { kNone, kRelu, kGelu, kGeluTanh };
  static constexpr Value kNone = Value::kNone, kRelu = Value::kRelu, kGelu = Value::kGelu,
                         kGeluTanh = Value::kGeluTanh;
  static constexpr const char* kOption = "activation";
  static constexpr const char* kWords[] = {"none", "relu", "gelu", "gelu_tanh"};
};
using Activation = TextEnum<ActivationValues>;

}  // namespace taper::v0
