// Just as much of Unicode as tokenizers need.
#pragma once

#include <cstdint>

namespace taper::data {

// The general categories L* and N*, and the property White_Space.
enum class CharClass : uint8_t { kOther, kLetter, kNumber, kSpace };
CharClass class_of(uint32_t code_point);

}  // namespace taper::data
