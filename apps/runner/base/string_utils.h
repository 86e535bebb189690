// String helpers for configs and messages. Helpers that parse text are in
// framework/io/text_utils.h.
#pragma once

#include <algorithm>
#include <cctype>
#include <ranges>
#include <string>
#include <string_view>
#include <vector>

#include "framework/base/error.h"
#include "framework/io/input_file.h"
#include "framework/io/text_utils.h"

namespace taper::v0::runner {

using namespace detail;  // from framework/io/text_utils.h

// Returns the text in lower case with '-' replaced by '_'. Names that fold to the same text are
// considered equal when suggestions are made.
inline std::string folded(std::string text) {
  for (char& c : text) c = c == '-' ? '_' : char(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

// Returns "a.b" for "a" and "b"; the key alone if the path is empty.
inline std::string join_path(const std::string& path, const std::string& key) {
  return path.empty() ? key : concat_to_string(path, ".", key);
}

// Returns whether the path of a key is `section` or is below it.
inline bool is_in_section(const std::string& path, std::string_view section) {
  return path.starts_with(section) &&
         (path.size() == section.size() || path[section.size()] == '.');
}

// The first line in which two texts differ. `a` or `b` is empty if that text has no such line.
struct LineDifference {
  int64_t line = 0;  // counted from 1; 0: the texts are equal
  std::string a{}, b{};
};
inline LineDifference first_difference(const std::string& a, const std::string& b) {
  if (a == b) return {};
  const size_t at = size_t(std::ranges::mismatch(a, b).in1 - a.begin());
  const size_t begin = at == 0 ? 0 : a.rfind('\n', at - 1) + 1;
  const auto line = [begin](const std::string& text) {
    return text.substr(begin, text.find('\n', begin) - begin);
  };
  return {1 + std::count(a.begin(), a.begin() + std::ptrdiff_t(begin), '\n'), line(a), line(b)};
}

}  // namespace taper::v0::runner
