#include "framework/io/text_utils.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <sstream>

#include "framework/base/error.h"

namespace taper::v0::detail {

constexpr std::size_t kComparedBytes = 64;

bool is_below_one(std::string_view number) {
  const size_t e = std::min(number.find_first_of("eE"), number.size());
  const std::string_view mantissa = number.substr(0, e);
  const size_t first = mantissa.find_first_of("123456789");
  if (first == std::string_view::npos) return true;
  int64_t exponent = 0;
  if (e < number.size() && parse_number(number.substr(e + 1), exponent) != std::errc()) {
    // the exponent exceeds int64, so no mantissa in memory can balance it
    return number[e + 1] == '-';
  }
  // The decimal exponent of the first nonzero digit.
  const auto point = int64_t(std::min(mantissa.find('.'), mantissa.size()));
  const int64_t place = point - int64_t(first) - (int64_t(first) < point ? 1 : 0);
  return exponent < -place;
}

CodePoint first_code_point(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  if (lead < 0x80) return {lead, 1};
  const size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < length) return {};
  uint32_t value = lead & (0x7Fu >> length);
  for (size_t i = 1; i < length; ++i) {
    const auto next = static_cast<unsigned char>(text[i]);
    if ((next & 0xC0) != 0x80) return {};
    value = value << 6 | (next & 0x3F);
  }
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = value >= 0xD800 && value < 0xE000;
  if (value < kLeast[length] || value > 0x10FFFF || is_surrogate) return {};
  return {value, length};
}

std::size_t first_invalid(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = first_code_point(text.substr(at));
    if (c.value == CodePoint::kInvalid) return at;
    at += c.length;
  }
  return text.size();
}

std::string escaped_for_display(std::string_view text, std::size_t most) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::size_t end = std::min(text.size(), most);
  while (end > 0 && end < text.size() && is_continuation(text[end])) --end;
  std::string out;
  for (const char c : text.substr(0, end)) {
    out += is_control(c) ? concat_to_string("\\x", kHex[std::size_t(c) >> 4], kHex[c & 15])
                         : concat_to_string(c);
  }
  return end < text.size() ? out + "..." : out;
}

std::string in_quotes(std::string_view text) {
  return concat_to_string("'", escaped_for_display(text, 40), "'");
}

std::vector<std::string> lines_of(const std::string& text, char end) {
  std::istringstream in(text);
  std::vector<std::string> out;
  for (std::string line; std::getline(in, line, end);) out.push_back(line);
  return out;
}

std::string rounded(double value, int digits) {
  std::array<char, 64> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value,
                                 std::chars_format::general, digits);
  return {text.data(), end.ptr};
}

std::string hex_text(double value) {
  if (!std::isfinite(value)) return rounded(value, 1);
  std::array<char, 64> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), std::abs(value),
                                 std::chars_format::hex);
  return concat_to_string(std::signbit(value) ? "-0x" : "0x", std::string(text.data(), end.ptr));
}

std::string state_keys(const char* kind, const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names)
    text += concat_to_string(text.empty() ? "\"" : ", \"", name, "\"");
  return text.empty() ? "" : concat_to_string("\n\t", kind, " key(s) in state_dict: ", text, ".");
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  a = a.substr(0, kComparedBytes);
  b = b.substr(0, kComparedBytes);
  std::vector<std::size_t> row(b.size() + 1);  // one row of the table of all pairs of prefixes
  std::iota(row.begin(), row.end(), std::size_t(0));
  for (const char from : a) {
    std::size_t diagonal = row[0]++;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (from != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

}  // namespace taper::v0::detail
