// Files that are the old ones or the whole new ones, at any moment.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "framework/base/namespace.h"

namespace taper::v0 {

// The new content of PATH. It is written to "PATH.tmp-" and 16 random hex digits, a name that no
// other thread, process or machine has, and takes the place of the old content in finish(); a link
// to a file is replaced, not followed. What killed processes left there of PATH goes first. A
// device, a pipe and what stands for an open file (/dev/stdout) are written as they are. All throw
// OutputError with path and reason.
class AtomicFile {
 public:
  // nbytes: what will be written, for the message of a full disk.
  AtomicFile(const std::string& path, uint64_t nbytes);
  ~AtomicFile();
  AtomicFile& operator=(AtomicFile&&) = delete;  // neither copied nor moved

  void write(const void* data, uint64_t nbytes);
  // On return the new content is on the disk under its name, also after a power cut.
  void finish();

 private:
  void create();
  [[noreturn]] void fail(const char* what) const;

  std::string path_, temporary_;  // temporary_: empty where there is none
  uint64_t nbytes_;
  int file_ = -1;
};

// All of it in one call.
void write_atomically(const std::string& path, std::string_view content);

// Waits until the names in a directory are on the disk. False, with errno: they are not.
bool sync_directory(const std::string& directory);

}  // namespace taper::v0
