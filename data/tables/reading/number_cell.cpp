#include "data/tables/reading/number_cell.h"

#include <algorithm>
#include <string>
#include <system_error>

#include "framework/io/text_utils.h"

namespace taper::v0::data::reading {

std::optional<double> number_in_cell(std::string_view text, char point) {
  constexpr std::string_view kDigits = "0123456789";
  std::string_view digits = text;
  if (digits.starts_with('-') || digits.starts_with('+')) digits.remove_prefix(1);
  const size_t integer = std::min(digits.find_first_not_of(kDigits), digits.size());
  if (integer > 1 && digits[0] == '0') return std::nullopt;
  std::string pointed;  // with a decimal point
  for (size_t i = integer; i < digits.size(); ++i) {
    const char c = digits[i];
    const bool fits = kDigits.find(c) != kDigits.npos || c == point ||
                      std::string_view("eE+-").find(c) != std::string_view::npos;
    if (!fits) return std::nullopt;  // "inf", "nan", and the other decimal separator
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
