// Text helpers that several tests share.
#pragma once

#include <string>

#include "framework/base/namespace.h"

namespace taper::v0 {

// Returns how often `part` occurs in the text.
inline int count(const std::string& text, const std::string& part) {
  int n = 0;
  for (size_t i = 0; (i = text.find(part, i)) != std::string::npos; i += part.size()) ++n;
  return n;
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace taper::v0
