#include "data/tokenizers/words.h"

#include <array>

#include <utf8proc.h>

#include "framework/io/text_utils.h"

namespace taper::v0::data {
namespace {

using namespace detail;

constexpr size_t kAscii = 128;

constexpr std::array<CharClass, kAscii> ascii_classes() {
  std::array<CharClass, kAscii> out{};
  for (size_t c = 0; c < kAscii; ++c) {
    const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    out[c] = is_letter                              ? CharClass::kLetter
             : c >= '0' && c <= '9'                 ? CharClass::kNumber
             : c == ' ' || (c >= '\t' && c <= '\r') ? CharClass::kSpace
                                                    : CharClass::kOther;
  }
  return out;
}
constexpr std::array<CharClass, kAscii> kAsciiClasses = ascii_classes();

bool is_mark(uint32_t code_point) {
  const utf8proc_category_t category = utf8proc_category(utf8proc_int32_t(code_point));
  return category >= UTF8PROC_CATEGORY_MN && category <= UTF8PROC_CATEGORY_ME;
}

// Whether the character belongs to a word of several characters.
bool is_inside_word(uint32_t code_point) {
  const CharClass one = class_of(code_point);
  if (one == CharClass::kLetter || one == CharClass::kNumber) return true;
  return code_point >= kAscii && is_mark(code_point);
}

bool begins_with_letter(std::string_view text) {
  return !text.empty() && class_of(first_code_point(text).value) == CharClass::kLetter;
}

// Appends the character at the beginning of a text in lower case.
void append_lower(std::string_view text, const CodePoint& c, std::string& word) {
  if (c.value < kAscii) {
    const bool is_upper = c.value >= 'A' && c.value <= 'Z';
    word += char(is_upper ? c.value + ('a' - 'A') : c.value);
    return;
  }
  utf8proc_uint8_t bytes[4];
  const bool is_valid = c.value != CodePoint::kInvalid;
  const auto length =
      is_valid ? utf8proc_encode_char(utf8proc_tolower(utf8proc_int32_t(c.value)), bytes) : 0;
  if (length == 0) word += text.substr(0, c.length);
  word.append(reinterpret_cast<const char*>(bytes), size_t(length));
}

}  // namespace

CharClass class_of(uint32_t code_point) {
  if (code_point < kAscii) return kAsciiClasses[code_point];
  const utf8proc_category_t category = utf8proc_category(utf8proc_int32_t(code_point));
  const auto is_in = [=](auto first, auto last) { return category >= first && category <= last; };
  if (is_in(UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_LO)) return CharClass::kLetter;
  if (is_in(UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_NO)) return CharClass::kNumber;
  const bool is_blank = is_in(UTF8PROC_CATEGORY_ZS, UTF8PROC_CATEGORY_ZP);
  return is_blank || code_point == 0x85 ? CharClass::kSpace : CharClass::kOther;
}

void each_word(std::string_view text, const std::function<void(std::string_view)>& f) {
  std::string word;
  const auto end_word = [&] {
    if (!word.empty()) f(word);
    word.clear();
  };
  while (!text.empty()) {
    const CodePoint c = first_code_point(text);
    const bool joins = c.value == '\'' && !word.empty() && begins_with_letter(text.substr(1));
    if (joins || is_inside_word(c.value)) {
      append_lower(text, c, word);
    } else {
      end_word();
      if (class_of(c.value) != CharClass::kSpace) f(text.substr(0, c.length));
    }
    text.remove_prefix(c.length);
  }
  end_word();
}

}  // namespace taper::v0::data
