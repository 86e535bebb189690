// Numbers in cells of tables. Not a public header.
#pragma once

#include <bit>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

#include "framework/base/namespace.h"

namespace taper::v0::data::reading {

// Returns the number in a cell, which must be a number from its first to its last character. It
// consists of digits, at most one decimal `point` ('.' or ','), an optional sign and an optional
// exponent. Numbers that are too close to zero for a double become zero. Returns std::nullopt for
// numbers that are too large, and for leading zeros as in "01234", so that codes keep their
// spelling.
std::optional<double> number_in_cell(std::string_view text, char point = '.');

static_assert(std::endian::native == std::endian::little);

// The powers of ten that a double holds exactly.
inline constexpr double kPowersOfTen[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                          1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                          1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
inline constexpr uint64_t kIntegerPowersOfTen[] = {
    1, 10, 100, 1'000, 10'000, 100'000, 1'000'000, 10'000'000, 100'000'000};

// Returns the number whose decimal digits are the eight bytes of `digits`, each from 0 to 9. The
// lowest byte is the first digit.
inline uint64_t sum_of_digits(uint64_t digits) {
  // Adds neighbors: bytes to two digits, these to four, and these to eight.
  digits = digits * 10 + (digits >> 8);
  return (((digits & 0x000000FF000000FF) * 0x000F424000000064) +
          (((digits >> 16) & 0x000000FF000000FF) * 0x0000271000000001)) >>
         32;
}

// The leading digits among eight characters.
struct EightDigits {
  uint64_t value;   // of these digits
  unsigned length;  // how many of the eight characters they are
};
inline EightDigits leading_digits(const char* at) {
  uint64_t word;
  std::memcpy(&word, at, sizeof word);
  word ^= 0x3030303030303030;  // digits become 0 to 9, and all else larger
  const uint64_t others = ((word + 0x7676767676767676) | word) & 0x8080808080808080;
  const unsigned length = others == 0 ? 8 : unsigned(std::countr_zero(others)) / 8;
  // Moves the digits to the end of the word, behind zeros.
  word = length == 0 ? 0 : word << (64 - 8 * length);
  return {sum_of_digits(word), length};
}

// Returns mantissa / 10^scale, or std::nullopt if it cannot be rounded correctly without long
// arithmetic.
inline std::optional<double> scaled_by_ten(uint64_t mantissa, int scale) {
  constexpr uint64_t kExact = uint64_t(1) << DBL_MANT_DIG;
  if (scale == 0 && mantissa <= kExact) return double(mantissa);
  if (scale < -22 || scale > 22) return std::nullopt;
  if (mantissa <= kExact) {
    return scale < 0 ? double(mantissa) * kPowersOfTen[-scale]
                     : double(mantissa) / kPowersOfTen[scale];
  }
#if LDBL_MANT_DIG == 64
  // The result was rounded once, to 64 bits. Rounding it again to 53 bits gives the correct result
  // unless it is in the middle between two doubles.
  const long double wide = scale < 0 ? static_cast<long double>(mantissa) * kPowersOfTen[-scale]
                                     : static_cast<long double>(mantissa) / kPowersOfTen[scale];
  uint64_t bits;
  std::memcpy(&bits, &wide, sizeof bits);
  if ((bits & 0x7FF) != 0x400) return double(wide);
#endif
  return std::nullopt;
}

// Appends the next digits, at most eight, to the mantissa, and moves past them. Returns their
// number.
[[gnu::always_inline]] inline unsigned take_digits(const char*& at, uint64_t& mantissa) {
  const EightDigits digits = leading_digits(at);
  mantissa = mantissa * kIntegerPowersOfTen[digits.length] + digits.value;
  at += digits.length;
  return digits.length;
}

// Reads the number at the beginning of a text and returns its end. At least 40 bytes of the text
// must be readable. Returns nullptr if there is no number, and for rare forms, which
// number_in_cell() must decide.
[[gnu::always_inline]] inline const char* scan_number(const char* at, char point, double& value) {
  const bool is_negative = *at == '-';
  at += is_negative;
  const char* const first = at;
  uint64_t mantissa = 0;
  if (take_digits(at, mantissa) == 8) take_digits(at, mantissa);
  auto count = at - first;
  // Conditions that differ from cell to cell are computed without branches, which would be
  // mispredicted.
  if (bool(*first == '0') & bool(count > 1)) return nullptr;
  int scale = 0;
  if (*at == point) {
    const char* const fraction = ++at;
    unsigned taken = take_digits(at, mantissa);
    while (taken == 8 && at - fraction < 24) taken = take_digits(at, mantissa);
    scale = int(at - fraction);
    count += scale;
  }
  if (count == 0 || count > 19) return nullptr;  // 19 digits fit in 64 bits
  if ((*at | 0x20) == 'e') {
    const bool is_small = at[1] == '-';
    const char* const exponent = at + 1 + (is_small || at[1] == '+');
    const EightDigits digits = leading_digits(exponent);
    if (digits.length == 0 || digits.length > 3) return nullptr;
    scale += is_small ? int(digits.value) : -int(digits.value);
    at = exponent + digits.length;
  }
  const std::optional<double> found = scaled_by_ten(mantissa, scale);
  if (!found) return nullptr;
  value = std::bit_cast<double>(std::bit_cast<uint64_t>(*found) | uint64_t(is_negative) << 63);
  return at;
}

// Reads a number of at most eight characters, not counting its sign. At least 9 bytes must be
// readable. Returns false if there is no number, and for rare forms.
[[gnu::always_inline]] inline bool read_short_number(const char* at, size_t size, char point,
                                                     double& value) {
  constexpr uint64_t kOnes = 0x0101010101010101, kHigh = 0x8080808080808080;
  const bool is_negative = *at == '-';
  at += is_negative;
  size -= is_negative;
  if (size - 1 >= 8) return false;
  if (bool(*at == '0') & bool(size > 1) & bool(at[1] != point)) return false;
  uint64_t word;
  std::memcpy(&word, at, sizeof word);
  // Moves the characters to the end of the word, behind zeros. Digits become 0 to 9.
  word = (word ^ 0x30 * kOnes) << (64 - 8 * size);
  const uint64_t points = word ^ kOnes * (uint64_t(point) ^ 0x30);
  const uint64_t found = (points - kOnes) & ~points & kHigh;  // its lowest bit is the first point
  unsigned scale = 0;
  if (found != 0) {
    const auto place = unsigned(std::countr_zero(found)) / 8;
    const uint64_t before = (uint64_t(1) << (8 * place)) - 1;
    const uint64_t behind = ~before << 7 << 1;
    word = (word & before) << 8 | (word & behind);
    scale = 7 - place;
    if (size == 1) return false;
  }
  if ((((word + 0x76 * kOnes) | word) & kHigh) != 0) return false;
  const double number = double(sum_of_digits(word)) / kPowersOfTen[scale];
  value = std::bit_cast<double>(std::bit_cast<uint64_t>(number) | uint64_t(is_negative) << 63);
  return true;
}

// Reads a number between `at` and `end`. At least 40 bytes from `at` on must be readable. Returns
// false if there is no number, and for rare forms.
[[gnu::always_inline]] inline bool read_number(const char* at, const char* end, char point,
                                               double& value) {
  const auto size = size_t(end - at);
  if (size <= 8) return read_short_number(at, size, point, value);
  return scan_number(at, point, value) == end;
}

}  // namespace taper::v0::data::reading
