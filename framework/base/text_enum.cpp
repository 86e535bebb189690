#include "framework/base/text_enum.h"

#include "framework/base/error.h"

namespace taper::v0 {

void refuse_word(std::string_view word, const char* option, const char* const* words,
                 size_t count) {
  std::string list;
  for (size_t i = 0; i < count; ++i) {
    list += concat_to_string(i == 0 ? "'" : i + 1 < count ? ", '" : " or '", words[i], "'");
  }
  throw ValueError("'", word, "' is not a valid value for ", option, ", which is ", list);
}

}  // namespace taper::v0
