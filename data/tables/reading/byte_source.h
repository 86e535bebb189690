// The bytes of a file of a table, decompressed. Not a public header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "framework/base/namespace.h"

namespace taper::v0::data::reading {

// The content of a file, which is read in parts from its beginning. Its errors are InputErrors with
// the path.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Reads the next bytes and returns their number, which is less than `most` only at the end.
  // Throws if the file cannot be read, or if compressed data are truncated, damaged, or expand to
  // far more than a table would.
  virtual size_t read(char* out, size_t most) = 0;
  // Returns how many bytes of the file were read.
  virtual uint64_t position() const = 0;

  uint64_t size = 0;        // of the file
  std::string compression;  // "", "gzip", "zstd" or "zip"
  std::string name;         // of the content: the file's name, or that of the entry in an archive
};

// Opens a file. How it is compressed follows from its first bytes. Throws InputError if it cannot
// be opened, and for other formats (Parquet, Excel, ...), with the command that converts them.
std::unique_ptr<ByteSource> open_bytes(const std::string& path);

}  // namespace taper::v0::data::reading
