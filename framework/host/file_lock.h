// A lock by which processes take turns at replacing a file.
#pragma once

#include <filesystem>
#include <string>

#include "framework/base/namespace.h"

namespace taper::v0 {

// Waits until no other process or thread holds such a lock for `file`, and keeps others from
// getting one until the end of the scope. The file need not exist. The lock is a file beside it,
// named "FILE.lock", which the destructor removes. One that a killed process left behind does not
// count. Locks nothing if that file cannot be created.
class FileLockGuard {
 public:
  explicit FileLockGuard(const std::filesystem::path& file);
  ~FileLockGuard();
  FileLockGuard& operator=(FileLockGuard&&) = delete;  // neither copied nor moved

 private:
  const std::string path_;
  int lock_ = -1;
};

}  // namespace taper::v0
