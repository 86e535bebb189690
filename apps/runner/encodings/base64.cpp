#include "apps/runner/encodings/base64.h"

#include <cstdint>

namespace taper::v0::runner {

static constexpr std::string_view kDigits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

std::string to_base64(std::string_view bytes) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t at = 0; at < bytes.size(); at += 3) {
    const std::string_view part = bytes.substr(at, 3);
    uint32_t group = 0;
    for (size_t i = 0; i < 3; ++i) group = group << 8 | (i < part.size() ? uint8_t(part[i]) : 0);
    for (size_t i = 0; i < 4; ++i) {
      out += i <= part.size() ? kDigits[group >> (18 - 6 * i) & 63] : '=';
    }
  }
  return out;
}

std::optional<std::string> from_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  std::string out;
  out.reserve(text.size() / 4 * 3);
  for (size_t at = 0; at < text.size(); at += 4) {
    std::string_view part = text.substr(at, 4);
    const bool is_last = at + 4 == text.size();
    for (int k = 0; k < 2 && is_last && part.ends_with('='); ++k) part.remove_suffix(1);
    uint32_t group = 0;
    for (size_t i = 0; i < 4; ++i) {
      const size_t digit = i < part.size() ? kDigits.find(part[i]) : 0;
      if (digit == kDigits.npos) return std::nullopt;
      group = group << 6 | uint32_t(digit);
    }
    for (size_t i = 0; i + 1 < part.size(); ++i) out += char(group >> (16 - 8 * i) & 255);
  }
  return to_base64(out) == text ? std::optional(out) : std::nullopt;
}

}  // namespace taper::v0::runner
