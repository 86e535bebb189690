#include "data/tables/reading/csv_decorated.h"

#include <algorithm>
#include <cctype>
#include <system_error>

#include "framework/base/error.h"
#include "framework/io/text_utils.h"

namespace taper::v0::data::csv {
namespace {

constexpr size_t kLongestAffix = 8;  // in bytes

// Comma, point, blank, apostrophe, underscore, the no-break, thin and narrow no-break spaces, and
// the typographic apostrophe.
constexpr std::string_view kSeparators[] = {
    ",", ".", " ", "'", "_", "\xc2\xa0", "\xe2\x80\x89", "\xe2\x80\xaf", "\xe2\x80\x99"};

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }
bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }
bool is_ascii(char c) { return static_cast<unsigned char>(c) < 0x80; }

bool is_number(std::string_view text) {
  double value = 0;
  return detail::parse_number(text, value) != std::errc::invalid_argument;
}

size_t digits_at(std::string_view text) {
  return size_t(std::ranges::find_if_not(text, is_digit) - text.begin());
}

void trim(std::string_view& text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
}

// Returns "1234567.5" for "1,234,567.5". Groups have three digits. With commas, inner groups may
// have two, as in India. A group of thousands does not begin with 0, as the decimals "0,123" do.
std::optional<std::string> without_separator(std::string_view text, std::string_view separator) {
  if (text.starts_with('0')) return std::nullopt;
  size_t digits = digits_at(text);
  if (digits < 1 || digits > 3 || !text.substr(digits).starts_with(separator)) return std::nullopt;
  std::string plain(text.substr(0, digits));
  text.remove_prefix(digits);
  while (text.starts_with(separator)) {
    text.remove_prefix(separator.size());
    digits = digits_at(text);
    const bool is_inner = text.substr(digits).starts_with(separator);
    if (digits != 3 && !(digits == 2 && is_inner && separator == ",")) return std::nullopt;
    plain += text.substr(0, digits);
    text.remove_prefix(digits);
  }
  if (text.empty()) return plain;
  const char point = separator == "." ? ',' : '.';
  if (text[0] != point || digits_at(text.substr(1)) + 1 != text.size()) return std::nullopt;
  return plain + "." + std::string(text.substr(1));
}

// Returns whether text after a number is a unit: a currency, a percent sign, or letters. Ordinals
// ("2nd") and single letters of codes ("12b") are not units.
bool is_unit(std::string_view text, bool is_behind_blank) {
  if (text.size() > kLongestAffix || text == "st" || text == "nd" || text == "rd" || text == "th") {
    return false;
  }
  const auto fits = [](char c) {
    return is_letter(c) || !is_ascii(c) ||
           std::string_view("$%/").find(c) != std::string_view::npos;
  };
  return std::ranges::all_of(text, fits) &&
         (is_behind_blank || text.size() > 1 || !is_letter(text[0]));
}

// Removes a currency sign before a number and a unit after it, and returns both. If there are none,
// returns an empty text and leaves `text` unchanged.
std::string take_affixes(std::string_view& text) {
  const auto is_sign = [](char c) { return c == '$' || !is_ascii(c); };
  std::string_view core = text;
  const auto before = size_t(std::ranges::find_if_not(core, is_sign) - core.begin());
  core.remove_prefix(before);
  trim(core);
  const size_t last = core.find_last_of("0123456789");
  if (before > kLongestAffix || last == std::string_view::npos) return "";
  std::string_view unit = core.substr(last + 1);
  const bool is_behind_blank = unit.starts_with(' ');
  trim(unit);
  if (!unit.empty() && !is_unit(unit, is_behind_blank)) return "";
  const std::string affix = concat_to_string(text.substr(0, before), unit);
  text = core.substr(0, last + 1);
  return affix;
}

DecoratedNumber with_thousands(std::string_view core, const std::string& affix,
                               const std::string& sign, const std::string& plain) {
  const size_t comma = core.find(',');
  const bool is_ambiguous = comma != std::string_view::npos && comma == core.rfind(',') &&
                            core.find('.') == std::string_view::npos;
  const std::string advice =
      is_ambiguous ? concat_to_string("write ", sign, plain, " if the comma separates thousands, ",
                                      sign, core.substr(0, comma), ".", core.substr(comma + 1),
                                      " if it is a decimal comma")
                   : concat_to_string("write numbers without thousands separators: ", sign, plain);
  return {DecoratedNumber::kThousands, affix, advice, is_ambiguous};
}

}  // namespace

std::optional<DecoratedNumber> decorated_number(std::string_view field) {
  if (is_number(field)) return std::nullopt;
  const std::string sign = field.starts_with('-') ? "-" : "";
  std::string_view core = field.substr(sign.size());
  const std::string affix = take_affixes(core);
  for (const std::string_view separator : kSeparators) {
    const std::optional<std::string> plain = without_separator(core, separator);
    if (!plain) continue;
    return with_thousands(core, affix, sign, *plain);
  }
  std::string pointed(core);
  std::ranges::replace(pointed, ',', '.');
  if (pointed != core && is_number(pointed)) {
    return {{DecoratedNumber::kDecimalComma, affix,
             concat_to_string("write decimals with a point: ", sign, pointed), true}};
  }
  if (affix.empty() || !is_number(core)) return std::nullopt;
  return {
      {DecoratedNumber::kUnit, affix, concat_to_string("write the number alone: ", sign, core)}};
}

}  // namespace taper::v0::data::csv
