// Writes the files of a run, and detects and describes damage to them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "apps/runner/base/errors.h"

namespace taper::v0::runner {

// Owns an open file descriptor, or none. The destructor closes it.
class Descriptor {
 public:
  explicit Descriptor(int file = -1) : file_(file) {}
  Descriptor(Descriptor&& other) noexcept : file_(std::exchange(other.file_, -1)) {}
  Descriptor& operator=(Descriptor other) noexcept { return std::swap(file_, other.file_), *this; }
  ~Descriptor();
  operator int() const { return file_; }

 private:
  int file_;
};

// Throws DiskError with the reason that errno gives.
[[noreturn]] void cannot_write(const fs::path& file);
// Flushes the directory's entries to the disk. Throws DiskError.
void sync(const fs::path& directory);
// Replaces the file's contents by the text. When this returns, the text is on the disk; until then
// the file has its previous contents (AtomicFile). Throws DiskError.
void write_file(const fs::path& file, const std::string& text);

// An empty temporary directory, which the destructor removes. The constructor also removes
// directories left behind by processes that were killed.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
  Descriptor lock_;
};

// Creates the file if it does not exist, and keeps its contents. Throws DiskError if the file
// cannot be appended to or is a link, which could lead out of the run's directory.
void check_appendable(const fs::path& file);

// Returns the members of a JSON object: `"kind":"train","step":3` for ("kind", "train", "step", 3).
// Values are numbers (null if not finite) or strings that need no escaping.
template <class Value, class... Rest>
std::string json_fields(const char* key, const Value& value, const Rest&... rest) {
  std::string text = concat_to_string(value);
  if constexpr (std::is_floating_point_v<Value>) {
    if (value - value != Value(0)) text = "null";
  }
  const char* quote = std::is_arithmetic_v<Value> ? "" : "\"";
  const std::string out = concat_to_string('"', key, "\":", quote, text, quote);
  if constexpr (sizeof...(rest) > 0) return concat_to_string(out, ",", json_fields(rest...));
  return out;
}

// A file with one JSON object per line. Throws DiskError if it cannot be written.
class JsonLines {
 public:
  // Opens the file, keeps its first `keep` bytes, removes the rest, and appends from there. Throws
  // InputError if the file is shorter than that, or if those bytes do not have the given CRC-32.
  void open(const fs::path& file, uint64_t keep = 0, std::optional<uint32_t> crc = std::nullopt);
  void write(const std::string& fields);
  // Flushes all lines to the disk.
  void sync() const;
  uint64_t size() const { return size_; }  // bytes written so far, including those kept
  uint32_t crc() const { return crc_; }    // CRC-32 of these bytes

 private:
  fs::path path_;
  Descriptor file_;
  uint64_t size_ = 0;
  uint32_t crc_ = 0;
};

// --- checksums ---

// The file that lists the checksums of the files in its directory, one per line, as in "0a1b2c3d
// 1234 state.json": CRC-32, size in bytes, name.
inline constexpr const char* kChecksums = "CRC32";

// Returns zlib's CRC-32 of a file's first `most` bytes, or of the whole file if it is shorter.
// `before` is the checksum of preceding data from which the computation continues. Calls
// `each_part`, if given, after every MiB; it may throw to stop reading, as check_stop() does.
// Throws InputError if the file cannot be read or is not a regular file.
uint32_t file_crc32(const fs::path& file, uint64_t most = UINT64_MAX, uint32_t before = 0,
                    void (*each_part)() = nullptr);
std::string hex_crc32(uint32_t sum);  // for example "0a1b2c3d"

// Returns the checksum lines of the named files in `dir`, sorted by name. Throws InputError if a
// file cannot be read.
std::string sums_of(const fs::path& dir, std::vector<std::string> names);
// Returns the file names in checksum lines such as sums_of() returns.
std::vector<std::string> names_in(const std::string& sums);
// Describes the first line that differs; returns an empty string if none does.
std::string sums_difference(const std::string& listed, const std::string& found);

}  // namespace taper::v0::runner
