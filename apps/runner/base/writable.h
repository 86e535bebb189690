// Checks that a command can write its result, before the work for it.
#pragma once

#include "apps/runner/base/errors.h"

namespace taper::v0::runner {

// Throws DiskError if write_file() could not replace the file, or if the permissions of an existing
// one forbid it. Writes nothing.
void check_writable(const fs::path& file);

}  // namespace taper::v0::runner
