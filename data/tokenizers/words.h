// Characters by class, and the division of text into words.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "framework/base/namespace.h"

namespace taper::v0::data {

// Classes of characters: the general categories L* and N*, and the property White_Space, in the
// Unicode version of utf8proc.
enum class CharClass : uint8_t { kOther, kLetter, kNumber, kSpace };
CharClass class_of(uint32_t code_point);

// Lets maps with keys of std::string be searched for views.
struct TextHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};

// Calls f with each word of a text, in lower case. A word is a run of letters, digits and the marks
// on them, which may have an apostrophe between two letters ("don't"). Every other character that
// is not a space is a word of its own. The view is valid during the call.
void each_word(std::string_view text, const std::function<void(std::string_view)>& f);

}  // namespace taper::v0::data
