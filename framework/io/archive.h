// Zip archives, read and written through libzip (https://libzip.org).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "framework/io/input_file.h"
#include "framework/memory/storage.h"

namespace taper::v0 {

// Returns whether Taper was built with libzip.
bool has_zip();

// A set of named entries that can be read.
class Archive {
 public:
  virtual ~Archive() = default;
  struct Entry {
    std::string name;
    uint64_t nbytes;
  };
  // Returns the entries in the archive's order.
  const std::vector<Entry>& entries() const { return entries_; }
  // Returns the bytes of entries()[index] in CPU memory.
  virtual StoragePtr read(size_t index) = 0;

 protected:
  std::vector<Entry> entries_;
};

// A zip archive that is open for reading. Entries are stored or deflated. The constructor throws
// InputError with the path if the file is not an archive, is damaged, or claims more bytes than its
// size can hold. read() throws InputError if the entry's checksum is wrong, or if the entry is
// encrypted or uses another compression method. In a build without libzip both throw Error.
class ZipReader final : public Archive {
 public:
  explicit ZipReader(const std::string& path);
  ~ZipReader() override;
  ZipReader& operator=(ZipReader&&) = delete;  // neither copied nor moved
  StoragePtr read(size_t index) override;

 private:
  friend class ZipEntryReader;
  struct Handle;
  const FileCheck<> check_;
  std::unique_ptr<Handle> handle_;
};

// Reads an entry of an archive in parts. The archive must outlive the reader. Functions throw the
// same errors as ZipReader::read().
class ZipEntryReader {
 public:
  ZipEntryReader(const ZipReader& archive, size_t index);
  ~ZipEntryReader();
  ZipEntryReader& operator=(ZipEntryReader&&) = delete;  // neither copied nor moved
  // Reads the next bytes and returns their number, which is less than `most` only at the end.
  size_t read(void* out, size_t most);

 private:
  struct Handle;
  std::unique_ptr<Handle> handle_;
};

struct ZipContent {
  std::string name;
  std::string_view bytes;
};
// Writes an archive of uncompressed entries, which is built in memory first. The file at `path` is
// replaced atomically (atomic_file.h).
void write_zip(const std::string& path, const std::vector<ZipContent>& contents);

}  // namespace taper::v0
