// Quotes words of commands that are shown or run.
#pragma once

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>

#include "framework/base/namespace.h"

namespace taper::v0::detail {

// Returns the word as it is typed in a shell: runs/a, 'my runs', 'Ada'\''s.yaml'.
inline std::string shell_word(const std::string& word) {
  constexpr std::string_view kPlain = "=./_-:,@%+";
  const bool is_plain = std::ranges::all_of(word, [&](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || kPlain.find(c) != kPlain.npos;
  });
  if (is_plain && !word.empty()) return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

}  // namespace taper::v0::detail
