// The files of a run: how they are written, and how damage of them is found and named.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "apps/runner/base/errors.h"

namespace taper::v0::runner {

// An open file, or none; closed with the object.
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

// Throws DiskError with the system's reason (errno).
[[noreturn]] void cannot_write(const fs::path& file);
// The names in a directory are on the disk when this returns. Throws DiskError.
void sync(const fs::path& directory);
// The file holds the text, on the disk, when this returns; until then what it held before
// (AtomicFile). Throws DiskError.
void write_file(const fs::path& file, const std::string& text);

// An empty directory that goes with this object. Those of processes that were killed go first.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
  Descriptor lock_;
};

// Creates the file where it is missing, and leaves what it holds. Throws DiskError where it cannot
// be appended to, or is a link, which may lead out of the run.
void check_appendable(const fs::path& file);

// The inside of a JSON object: `"kind":"train","step":3` of ("kind", "train", "step", 3). Values
// are numbers (null where they are not finite) or plain words.
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

// A file of one JSON object a line. Throws DiskError when it cannot be written.
class JsonLines {
 public:
  // Goes on behind the first `keep` bytes and drops what follows. InputError: it has not as many,
  // or they have another CRC-32.
  void open(const fs::path& file, uint64_t keep = 0, std::optional<uint32_t> crc = std::nullopt);
  void write(const std::string& fields);
  // Waits until all lines are on the disk.
  void sync() const;
  uint64_t size() const { return size_; }  // of the lines so far, in bytes
  uint32_t crc() const { return crc_; }    // their CRC-32

 private:
  fs::path path_;
  Descriptor file_;
  uint64_t size_ = 0;
  uint32_t crc_ = 0;
};

// --- checksums ---

// The list in its directory: "0a1b2c3d 1234 state.json", a line for each file.
inline constexpr const char* kChecksums = "CRC32";

// Returns zlib's CRC-32 of the first `most` bytes of a file, continued from the sum `before`.
// Throws InputError when the file cannot be read or is no regular file. `each_part`, if any, is
// called for every MiB, and may end the reading by an exception, as check_stop() does.
uint32_t file_crc32(const fs::path& file, uint64_t most = UINT64_MAX, uint32_t before = 0,
                    void (*each_part)() = nullptr);
std::string hex_crc32(uint32_t sum);  // "0a1b2c3d"

// Lines for files of a directory, in the order of their names. InputError: one cannot be read.
std::string sums_of(const fs::path& dir, std::vector<std::string> names);
// The names in the lines of such a text.
std::vector<std::string> names_in(const std::string& sums);
// The first line that differs, in words; empty: none does.
std::string sums_difference(const std::string& listed, const std::string& found);

}  // namespace taper::v0::runner
