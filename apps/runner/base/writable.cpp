#include "apps/runner/base/writable.h"

#include <system_error>

#include <unistd.h>

#include "apps/runner/base/files.h"
#include "framework/host/atomic_file.h"

namespace taper::v0::runner {

void check_writable(const fs::path& file) {
  std::error_code none;  // of a folder that may not be read, where the file cannot be created
  if (fs::exists(file, none) && ::access(file.c_str(), W_OK) != 0) cannot_write(file);
  // Creates a temporary file beside it, and removes that.
  failing_as<DiskError>("", [&] { const AtomicFile probe(file.string(), 0); });
}

}  // namespace taper::v0::runner
