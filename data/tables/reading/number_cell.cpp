#include "data/tables/reading/number_cell.h"

#include <algorithm>
#include <string>
#include <system_error>

#include "framework/io/text_utils.h"

namespace taper::v0::data::reading {

std::optional<double> number_in_cell(std::string_view text, char point) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  std::string_view digits = text;
  if (digits.starts_with('-') || digits.starts_with('+')) digits.remove_prefix(1);
  const auto integer = size_t(std::ranges::find_if_not(digits, is_digit) - digits.begin());
  if (integer > 1 && digits[0] == '0') return std::nullopt;
  std::string pointed;  // with a decimal point
  for (size_t i = integer; i < digits.size(); ++i) {
    // Rejects dates, "inf", "nan" and the other decimal separator without further work.
    const char c = digits[i];
    const bool is_exponent = c == 'e' || c == 'E';
    const bool is_sign = (c == '-' || c == '+') && i > 0 && (digits[i - 1] | 0x20) == 'e';
    if (!is_digit(c) && c != point && !is_exponent && !is_sign) return std::nullopt;
  }
  if (point != '.' && digits.find(point) != digits.npos) {
    pointed = text;
    std::ranges::replace(pointed, point, '.');
    text = pointed;
  }
  double value = 0;
  if (taper::detail::parse_number(text, value) != std::errc()) return std::nullopt;
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

}  // namespace taper::v0::data::reading
