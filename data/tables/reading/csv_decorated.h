// Numbers in forms for human readers: "1,234.5", "$12", "12 km". Not a public header.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "framework/base/namespace.h"

namespace taper::v0::data::csv {

// A cell that a person reads as a number and parse_number() does not.
struct DecoratedNumber {
  enum Kind { kDecimalComma, kThousands, kUnit } kind = kUnit;
  std::string affix;   // the text around the number: "$", "km"
  std::string advice;  // advice for the end of a message: "write the number alone: 12"
  bool may_have_decimal_comma = false;  // "1,5", and "1,234", in which it may separate thousands
};

// Returns std::nullopt for a plain number and for any other text.
std::optional<DecoratedNumber> decorated_number(std::string_view field);

}  // namespace taper::v0::data::csv
