#include "apps/runner/base/files.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "apps/runner/base/string_utils.h"
#include "framework/host/atomic_file.h"

namespace taper::v0::runner {

static constexpr std::string_view kScratch = "taper-scratch-";

Descriptor::~Descriptor() {
  if (file_ >= 0) ::close(file_);
}

void cannot_write(const fs::path& file) {
  throw DiskError(concat_to_string("cannot write '", file.string(), "': ", std::strerror(errno)));
}

void sync(const fs::path& directory) {
  if (!sync_directory(directory)) cannot_write(directory);
}

void write_file(const fs::path& file, const std::string& text) {
  failing_as<DiskError>("", [&] { write_atomically(file, text); });
}

// Opens the file for appending. Does not follow a link, which could lead out of the run's
// directory.
static Descriptor open_to_append(const fs::path& file) {
  Descriptor out(
      ::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0666));
  require<DiskError>(out >= 0 || errno != ELOOP, "cannot write '", file.string(),
                     "': it is a symbolic link; remove it");
  if (out < 0) cannot_write(file);
  return out;
}

// Removes the directories of processes that no longer exist. A process locks its directory, and the
// lock ends with the process.
static void remove_left_behind(const fs::path& all) {
  std::error_code error;
  for (auto it = fs::directory_iterator(all, error); !error && it != fs::end(it);
       it.increment(error)) {
    const std::string name = it->path().filename();
    if (!name.starts_with(kScratch) || name.size() != kScratch.size() + 6) continue;
    const Descriptor file(
        ::open(it->path().c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    struct stat info;
    const bool is_left = file >= 0 && ::fstat(file, &info) == 0 && info.st_uid == ::geteuid() &&
                         ::flock(file, LOCK_EX | LOCK_NB) == 0;
    std::error_code ignored;
    if (is_left) fs::remove_all(it->path(), ignored);
  }
}

TemporaryDirectory::TemporaryDirectory() {
  const fs::path all = fs::temp_directory_path();
  remove_left_behind(all);
  do {  // retries if another process removed the directory before it was locked
    std::string name = (all / concat_to_string(kScratch, "XXXXXX")).string();
    require<InputError>(mkdtemp(name.data()), "cannot create the temporary directory '", name,
                        "': set TMPDIR to a writable directory");
    path_ = name;
    lock_ = Descriptor(::open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (lock_ >= 0) (void)::flock(lock_, LOCK_EX);
  } while (!fs::exists(path_));
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

void check_appendable(const fs::path& file) { (void)open_to_append(file); }

void JsonLines::open(const fs::path& file, uint64_t keep, std::optional<uint32_t> crc) {
  path_ = file;
  file_ = open_to_append(file);
  const uint64_t size = fs::file_size(file);
  require<InputError>(size >= keep, "'", file.string(), "' has ", size,
                      " bytes, but the checkpoint was saved when it had ", keep,
                      "; the file was truncated");
  crc_ = file_crc32(file, keep);
  require<InputError>(!crc || crc_ == *crc, "'", file.string(),
                      "' is damaged or was modified: the checksum of its first ", keep,
                      " bytes differs from the one in the checkpoint");
  if (::ftruncate(file_, off_t(keep)) != 0) cannot_write(path_);
  size_ = keep;
}

void JsonLines::write(const std::string& fields) {
  const std::string line = concat_to_string("{", fields, "}\n");
  const ssize_t n = ::write(file_, line.data(), line.size());
  if (n != ssize_t(line.size())) {
    // The disk is full: only a part of the line was written.
    if (n >= 0) errno = ENOSPC;
    cannot_write(path_);
  }
  size_ += line.size();
  crc_ = uint32_t(crc32_z(crc_, reinterpret_cast<const Bytef*>(line.data()), line.size()));
}

void JsonLines::sync() const {
  if (::fsync(file_) != 0) cannot_write(path_);
}

// --- checksums ---

uint32_t file_crc32(const fs::path& file, uint64_t most, uint32_t before, void (*each_part)()) {
  InputFile in(file, "");
  uLong sum = before;
  std::vector<Bytef> part(1 << 20);
  while (const size_t n = in.read(part.data(), std::min<uint64_t>(part.size(), most))) {
    sum = crc32_z(sum, part.data(), n);
    most -= n;
    if (each_part) each_part();
  }
  return uint32_t(sum);
}

std::string hex_crc32(uint32_t sum) { return fmt::format("{:08x}", sum); }

std::string sums_of(const fs::path& dir, std::vector<std::string> names) {
  std::ranges::sort(names);
  std::string out;
  for (const std::string& name : names) {
    const fs::path file = dir / name;
    out += concat_to_string(hex_crc32(file_crc32(file)), " ", fs::file_size(file), " ", name, "\n");
  }
  return out;
}

std::vector<std::string> names_in(const std::string& sums) {
  std::vector<std::string> out = lines_of(sums);
  for (std::string& line : out) {
    const size_t second = line.find(' ', std::min(line.find(' '), line.size() - 1) + 1);
    if (second != std::string::npos) line.erase(0, second + 1);
  }
  return out;
}

std::string sums_difference(const std::string& listed, const std::string& found) {
  const auto [line, before, now] = first_difference(listed, found);
  if (line == 0) return "";
  const auto shown = [](const std::string& text) { return text.empty() ? "nothing" : text; };
  return concat_to_string(kChecksums, " lists '", shown(before), "', but the directory has '",
                          shown(now), "'");
}

}  // namespace taper::v0::runner
