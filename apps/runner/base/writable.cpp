#include "apps/runner/base/writable.h"

#include <unistd.h>

#include "apps/runner/base/files.h"
#include "framework/host/atomic_file.h"

namespace taper::v0::runner {

void check_writable(const fs::path& file) {
  if (fs::exists(file) && ::access(file.c_str(), W_OK) != 0) cannot_write(file);
  // Creates a temporary file beside it, and removes that.
  failing_as<DiskError>("", [&] { const AtomicFile probe(file.string(), 0); });
}

}  // namespace taper::v0::runner
