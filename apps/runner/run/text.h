// Text in configs and messages; how it is read stands in framework/io/text.h.
#pragma once

#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

#include "framework/error.h"
#include "framework/io/input_file.h"
#include "framework/io/text.h"

namespace taper::inline v0::runner {

using namespace detail;  // of framework/io/text.h

// Lower case, '-' as '_': what does not count as a difference between two names.
inline std::string folded(std::string text) {
  for (char& c : text) c = c == '-' ? '_' : char(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

// "a, b, c".
inline std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& w : words) out += out.empty() ? w : cat(", ", w);
  return out;
}

// The first line in which two texts differ, from 1; empty where a text has ended before it.
struct LineDifference {
  int64_t line = 0;  // 0: none does
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

}  // namespace taper::inline v0::runner
