// A strict scanner for JSON from other programs. It requires UTF-8, a single value, no repeated
// keys in a map, limited depth, and numbers that a double can hold. Error messages are Taper's own
// and name the position.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "framework/base/namespace.h"

namespace taper::v0 {

inline constexpr size_t kMaxJsonDepth = 64;

// One element of a JSON text. Events are reported in the order of the text.
struct JsonEvent {
  enum class EventKind {
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
  EventKind kind;
  std::string_view text;  // the characters of a key or string; the spelling of a number or bool
  size_t at;              // offset of its first byte
};

// An error in a text, and the offset of the byte at which it was found.
struct JsonFault {
  size_t at;
  std::string what;
};

// Calls `watch` for each element of the text until the first fault. Returns the fault, or
// std::nullopt if the text is valid. Exceptions from `watch` are passed on.
std::optional<JsonFault> scan_json(std::string_view text,
                                   const std::function<void(const JsonEvent&)>& watch);

}  // namespace taper::v0
