// The decompressed bytes of a file that contains a table or a text. Not a public header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "framework/base/namespace.h"

namespace taper::v0::data::reading {

// The content of a file, read in parts from its beginning. Functions throw InputError with the
// path.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Reads the next bytes and returns their number, which is less than `most` only at the end.
  // Throws if the file cannot be read, or if compressed data are truncated or damaged, or expand to
  // far more than a table or text would.
  virtual size_t read(char* out, size_t most) = 0;
  // Returns how many bytes of the file were read.
  virtual uint64_t position() const = 0;

  uint64_t size = 0;        // of the file
  std::string compression;  // "", "gzip", "zstd" or "zip"
  std::string name;         // of the content: the file's name, or that of the entry in an archive
};

// Opens a file that may be compressed by gzip or zstd, which its first bytes show. `what` names its
// content in messages, as "text"; it must be a literal. Throws InputError if it cannot be opened.
std::unique_ptr<ByteSource> open_decompressed(const std::string& path, const char* what);

// Opens a table, which may also be in a zip archive. Throws InputError as above. For other formats
// (Parquet, Excel, ...), the message contains the command that converts them.
std::unique_ptr<ByteSource> open_bytes(const std::string& path);

}  // namespace taper::v0::data::reading
