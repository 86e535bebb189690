// Files that are read: opened here alone, so that no reader hangs at a pipe or a device.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "framework/base/error.h"

namespace taper::v0 {

// A regular file, open for reading; closed at the end of the scope. Every InputError names the
// path, what the file was taken for ("CSV file"; may be empty) and the system's reason.
class InputFile {
 public:
  // InputError: it cannot be opened, or is a directory, pipe, socket or device.
  InputFile(std::string path, std::string_view what);
  InputFile(const InputFile&) = delete;
  ~InputFile();

  int descriptor() const { return descriptor_; }
  // When it was opened; 0 for files of /proc, whatever they hold.
  uint64_t size() const { return size_; }
  // The next bytes: as many as asked for, fewer at the end of the file alone.
  size_t read(void* out, size_t most);
  // All that is left of it, but no more than `most` bytes. OutOfMemoryError naming it.
  std::string text(size_t most = std::string::npos);

 private:
  [[noreturn]] void fail(const std::string& why) const;

  const std::string path_, what_;
  int descriptor_ = -1;
  uint64_t size_ = 0;
};

// What is wrong with a file of some format, as "PATH: not a valid zip archive: ...".
template <class E = InputError> struct FileCheck {
  std::string path;
  const char* is_not = "";

  template <class... Text> [[noreturn]] void refuse(const Text&... what) const {
    throw E(path, ": ", is_not, ": ", what...);
  }
  template <class... Text> void operator()(bool fits, const Text&... what) const {
    if (!fits) refuse(what...);
  }
};

// The bytes of a regular file, the first `most` of them; errors as above.
inline std::string read_file(const std::string& path, std::string_view what,
                             size_t most = std::string::npos) {
  return InputFile(path, what).text(most);
}

}  // namespace taper::v0
