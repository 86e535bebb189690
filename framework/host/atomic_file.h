// Atomic replacement of files: at any moment the path names either the old file or the complete new
// one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "framework/base/namespace.h"

namespace taper::v0 {

// A writer that replaces the content of `path` atomically. The content is written to "PATH.tmp-"
// followed by 16 random hex digits, a name that no other thread, process or machine uses. finish()
// renames it to `path`. A symbolic link to a file is replaced, not followed. The constructor first
// removes temporary files of `path` that killed processes left behind. Devices, pipes and names of
// open files (/dev/stdout) are written directly. All functions throw OutputError with the path and
// the reason.
class AtomicFile {
 public:
  // nbytes: number of bytes that will be written, used in the message for a full disk.
  AtomicFile(const std::string& path, uint64_t nbytes);
  ~AtomicFile();
  AtomicFile& operator=(AtomicFile&&) = delete;  // neither copied nor moved

  void write(const void* data, uint64_t nbytes);
  // Makes the new content durable under its name. After the return, it survives a power failure.
  void finish();

 private:
  void create();
  [[noreturn]] void fail(const char* what) const;

  std::string path_, temporary_;  // temporary_: empty if the path is written directly
  uint64_t nbytes_;
  int file_ = -1;
};

// Writes the whole content in one call.
void write_atomically(const std::string& path, std::string_view content);

// Waits until the directory's entries are on the disk. Returns false and sets errno on failure.
bool sync_directory(const std::string& directory);

}  // namespace taper::v0
