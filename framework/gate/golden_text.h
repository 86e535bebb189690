// What the writer and the reader of golden files share.
#pragma once

#include <string>

#include "framework/gate/golden.h"

namespace taper::v0::golden {

// Returns the checksum of everything in which a section must not change, as eight hex digits.
std::string section_checksum(const Golden& golden, const GoldenSection& section);

}  // namespace taper::v0::golden
