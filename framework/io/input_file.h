// Opening of input files. All readers use it, so that none of them blocks on a pipe or a device.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "framework/base/error.h"

namespace taper::v0 {

// A regular file that is open for reading; the destructor closes it. Every InputError contains the
// path, the kind of file that was expected (`what`, as "CSV file"; may be empty) and the system's
// reason.
class InputFile {
 public:
  // Throws InputError if the file cannot be opened, or is a directory, pipe, socket or device.
  InputFile(std::string path, std::string_view what);
  InputFile(const InputFile&) = delete;
  ~InputFile();

  int descriptor() const { return descriptor_; }
  // Returns the size at the time of opening. It is 0 for files in /proc, whatever they contain.
  uint64_t size() const { return size_; }
  // Reads the next bytes and returns their number, which is less than `most` only at the end of the
  // file.
  size_t read(void* out, size_t most);
  // Returns the rest of the file, but at most `most` bytes. Throws OutOfMemoryError with the path.
  std::string text(size_t most = std::string::npos);

 private:
  [[noreturn]] void fail(const std::string& why) const;

  const std::string path_, what_;
  int descriptor_ = -1;
  uint64_t size_ = 0;
};

// Checks a file of some format. A failed check throws an error such as "PATH: not a valid zip
// archive: ...".
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

// Returns the first `most` bytes of a regular file. Throws the errors of InputFile.
inline std::string read_file(const std::string& path, std::string_view what,
                             size_t most = std::string::npos) {
  return InputFile(path, what).text(most);
}

}  // namespace taper::v0
