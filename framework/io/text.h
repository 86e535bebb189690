// Text from outside: numbers read strictly, UTF-8, words as they stand in messages.
#pragma once

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "framework/namespace.h"

namespace taper::v0::detail {

// The whole of `text`, which may begin with '+', as a decimal number whatever the locale. Gives
// std::errc() when it is one, result_out_of_range for one that T cannot hold; doubles may be "inf".
template <class T> std::errc parse_number(std::string_view text, T& value) {
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return end == text.data() + text.size() ? error : std::errc::invalid_argument;
}

// Whether the byte is within a character of UTF-8.
inline bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }
struct CodePoint {
  static constexpr uint32_t kInvalid = 0xFFFFFFFF;
  uint32_t value = kInvalid;
  std::size_t length = 1;  // in bytes; 1 for a byte that is within no character
};
// The first of a text that is not empty. Overlong forms, surrogates and cut characters are invalid.
CodePoint first_code_point(std::string_view text);
// Where the first byte stands that is no UTF-8; the text's size where there is none.
std::size_t first_invalid(std::string_view text);
inline bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }

// Fit for one line of a message: "\x09" for control characters, and about `most` bytes, cut between
// characters.
std::string shown(std::string_view text, std::size_t most);
// The same in quotes, for one word.
std::string in_quotes(std::string_view text);

// "\n\tMissing key(s) in state_dict: "a", "b"." of that kind; nothing where there are no names.
std::string state_keys(const char* kind, const std::vector<std::string>& names);

// Levenshtein's distance in bytes, of the first 64 of each.
std::size_t edit_distance(std::string_view a, std::string_view b);

}  // namespace taper::v0::detail
