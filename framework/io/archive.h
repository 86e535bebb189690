// Archives of files that are stored as they are, not packed, through libzip (https://libzip.org).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "framework/io/input_file.h"
#include "framework/storage.h"

namespace taper::v0 {

// Whether Taper was built with libzip.
bool has_zip();

// Named entries that can be read.
class Archive {
 public:
  virtual ~Archive() = default;
  struct Entry {
    std::string name;
    uint64_t nbytes;
  };
  // In the archive's order; their bytes are no more than the file has.
  const std::vector<Entry>& entries() const { return entries_; }
  // The bytes of entries()[index], on the CPU.
  virtual StoragePtr read(size_t index) = 0;

 protected:
  std::vector<Entry> entries_;
};

// A zip archive that is read. Everything throws InputError with the path: for what is no archive,
// is damaged (checksums are compared) or holds what is packed; and Error in a build without libzip.
class ZipReader final : public Archive {
 public:
  explicit ZipReader(const std::string& path);
  ~ZipReader() override;
  ZipReader& operator=(ZipReader&&) = delete;  // neither copied nor moved
  StoragePtr read(size_t index) override;

 private:
  struct Handle;
  const FileCheck<> check_;
  std::unique_ptr<Handle> handle_;
};

struct ZipContent {
  std::string name;
  std::string_view bytes;
};
// PATH is the old file or the whole new one (atomic_file.h). The archive is made in memory first.
void write_zip(const std::string& path, const std::vector<ZipContent>& contents);

}  // namespace taper::v0
