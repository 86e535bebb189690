#include "modules/layers/repr.h"

#include <charconv>
#include <cmath>

namespace taper::v0 {

std::string py(double value) {
  // Python writes numbers in this range without an exponent, and all others with one.
  const double size = std::abs(value);
  if (!std::isfinite(value) || (size != 0 && size < 1e-4) || size >= 1e16)
    return concat_to_string(value);
  char text[40];
  const auto end = std::to_chars(text, text + sizeof text, value, std::chars_format::fixed).ptr;
  const std::string digits(text, end);
  return digits.find('.') == std::string::npos ? digits + ".0" : digits;
}
std::string py(bool value) { return value ? "True" : "False"; }
std::string py(int64_t value) { return concat_to_string(value); }
std::string py(const std::string& text) { return concat_to_string("'", text, "'"); }
std::string py(const Shape& sizes) {
  std::string text;
  for (const int64_t n : sizes) text += concat_to_string(text.empty() ? "" : ", ", n);
  return concat_to_string("(", text, sizes.size() == 1 ? ",)" : ")");
}
std::string py(Pair p) { return p.h == p.w ? py(p.h) : py(Shape{p.h, p.w}); }
std::string py(const Triple& t) { return t == Triple(t.d) ? py(t.d) : py(Shape{t.d, t.h, t.w}); }

}  // namespace taper::v0
