// The decompressed bytes of a file that contains a table. Not a public header.
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
  // far more than a table would.
  virtual size_t read(char* out, size_t most) = 0;
  // Returns how many bytes of the file were read.
  virtual uint64_t position() const = 0;

  uint64_t size = 0;        // of the file
  std::string compression;  // "", "gzip", "zstd" or "zip"
  std::string name;         // of the content: the file's name, or that of the entry in an archive
};

// Opens a file and detects from its first bytes how it is compressed. Throws InputError if it
// cannot be opened. For other formats (Parquet, Excel, ...), the message contains the command that
// converts them.
std::unique_ptr<ByteSource> open_bytes(const std::string& path);

}  // namespace taper::v0::data::reading
