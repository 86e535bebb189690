// Aligns the columns of tables for stdout.
#pragma once

#include <string>
#include <vector>

#include "framework/base/namespace.h"

namespace taper::v0::runner {

// Returns the rows as lines. Columns are as wide as their longest cell and are separated by two
// blanks. The columns from number `first_number` up to `last_number` are aligned to the right.
std::string text_table(const std::vector<std::vector<std::string>>& rows, size_t first_number,
                       size_t last_number);

}  // namespace taper::v0::runner
