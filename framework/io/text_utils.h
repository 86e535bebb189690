// Helpers for text from other programs: strict parsing of numbers, UTF-8, and quoting of words in
// messages.
#pragma once

#include <charconv>
#include <cstdint>
#include <ranges>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <vector>

#include "framework/base/error.h"

namespace taper::v0::detail {

// Returns whether the magnitude of a decimal number such as "-12.5e-3" is below 1.
bool is_below_one(std::string_view number);

// Reads the whole of `text`, which may begin with '+', as a decimal number in any locale. Returns
// std::errc() on success and result_out_of_range for a number too large for T. A floating-point
// number too close to zero for T becomes zero, as IEEE 754 rounds it. If T is a floating-point
// type, "inf" is accepted.
template <class T> std::errc parse_number(std::string_view text, T& value) {
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end != text.data() + text.size()) return std::errc::invalid_argument;
  if constexpr (std::is_floating_point_v<T>) {
    // std::from_chars reports underflow and overflow by the same code and does not set `value`.
    if (error == std::errc::result_out_of_range && is_below_one(text)) {
      value = text[0] == '-' ? -T(0) : T(0);
      return {};
    }
  }
  return error;
}

// Returns whether the byte continues a UTF-8 sequence.
inline bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }
struct CodePoint {
  static constexpr uint32_t kInvalid = 0xFFFFFFFF;
  uint32_t value = kInvalid;
  std::size_t length = 1;  // in bytes; 1 for an invalid byte
};
// Decodes the first code point of a text that is not empty. Overlong forms, surrogates and
// truncated sequences are invalid.
CodePoint first_code_point(std::string_view text);
// Returns the offset of the first byte that is not valid UTF-8, or the text's size if there is
// none.
std::size_t first_invalid(std::string_view text);
// Returns the text with ASCII letters in lower case.
inline std::string lower_case(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = c >= 'A' && c <= 'Z' ? char(c + ('a' - 'A')) : c;
  return out;
}
inline bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }

// Returns the text in a form that fits on one line of a message: control characters are escaped as
// "\x09", and the text is cut between characters after about `most` bytes.
std::string escaped_for_display(std::string_view text, std::size_t most);
// Returns a word in quotes, after escaped_for_display() with 40 bytes.
std::string in_quotes(std::string_view text);

// Returns the words as "a, b, c".
std::string joined(std::ranges::input_range auto&& words) {
  std::string out;
  for (const auto& w : words) out += concat_to_string(out.empty() ? "" : ", ", w);
  return out;
}
// Splits the text at line ends, or at the character `end`.
std::vector<std::string> lines_of(const std::string& text, char end = '\n');

// Returns the number with up to `digits` significant digits in any locale, as C's "%.5g" does.
std::string rounded(double value, int digits);
// Returns all bits of the number in any locale, as C's "%a" does: "0x1.8p+1".
std::string hex_text(double value);

// Returns "\n\tMissing key(s) in state_dict: "a", "b"." if `kind` is "Missing". Returns an empty
// string if there are no names.
std::string state_keys(const char* kind, const std::vector<std::string>& names);

// Returns the Levenshtein distance in bytes between the first 64 bytes of each text.
std::size_t edit_distance(std::string_view a, std::string_view b);

}  // namespace taper::v0::detail
