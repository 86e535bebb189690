// JSON from outside, read strictly: UTF-8, one value, no key twice in a map, a limited depth, no
// number that a double cannot hold. What is wrong is told in our words and with its place.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "framework/base/namespace.h"

namespace taper::v0 {

inline constexpr size_t kMaxJsonDepth = 64;

// What stands in a text, in its order.
struct JsonEvent {
  enum class Kind {
    kNull,
    kBoolean,
    kNumber,
    kString,
    kKey,
    kListStart,
    kListEnd,
    kMapStart,
    kMapEnd
  };
  Kind kind;
  std::string_view text;  // a key's or text's characters; a number or bool as it is spelled
  size_t at;              // where it begins in the text that is read
};

// What is wrong, and at which byte.
struct JsonFault {
  size_t at;
  std::string what;
};

// Tells what the text holds, up to the first fault; nothing where it has none. `watch` may throw.
std::optional<JsonFault> scan_json(std::string_view text,
                                   const std::function<void(const JsonEvent&)>& watch);

}  // namespace taper::v0
