#include "apps/runner/run/text.h"

#include <cctype>

#include "framework/error.h"

namespace taper::runner {

std::string folded(std::string text) {
  for (char& c : text) {
    c = c == '-' ? '_' : char(std::tolower(static_cast<unsigned char>(c)));
  }
  return text;
}

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& w : words) out += out.empty() ? w : cat(", ", w);
  return out;
}

}  // namespace taper::runner
