// Bytes as text, for JSON (RFC 4648).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "framework/base/namespace.h"

namespace taper::v0::runner {

std::string to_base64(std::string_view bytes);
// Returns the bytes, or std::nullopt if the text is not what to_base64() writes.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace taper::v0::runner
