#include "apps/runner/train/metrics.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>
#include <zlib.h>

#include "apps/runner/run/checksums.h"
#include "apps/runner/run/errors.h"
#include "framework/io/atomic_file.h"

namespace taper::runner {

namespace fs = std::filesystem;

void sync(const fs::path& directory) {
  if (sync_directory(directory)) return;
  throw DiskError(cat("cannot write '", directory.string(), "': ", std::strerror(errno)));
}

void write_file(const fs::path& file, const std::string& text) try {
  write_atomically(file, text);
} catch (const Error& error) {
  throw DiskError(error.what());
}

// To go on behind what it holds; a link is not followed, for it may lead out of the run.
static int open_to_append(const fs::path& file) {
  const int out =
      ::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (out >= 0) return out;
  throw DiskError(cat("cannot write '", file.string(),
                      "': ", errno == ELOOP ? "it is a link" : std::strerror(errno)));
}

LogFile::LogFile(const fs::path& dir) try {
  const fs::path file = dir / "log.txt";
  ::close(open_to_append(file));
  auto sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(file.string());
  sink->set_pattern("%Y-%m-%d %H:%M:%S %l: %v");
  spdlog::default_logger()->sinks().push_back(std::move(sink));
} catch (const spdlog::spdlog_ex& error) {
  throw DiskError(error.what());
}
LogFile::~LogFile() {
  spdlog::default_logger()->flush();
  spdlog::default_logger()->sinks().pop_back();
}

JsonLines::~JsonLines() {
  if (file_ >= 0) ::close(file_);
}

void JsonLines::fail() const {
  throw DiskError(cat("cannot write '", path_.string(), "': ", std::strerror(errno)));
}

void JsonLines::open(const fs::path& file, uint64_t keep, std::optional<uint32_t> crc) {
  if (file_ >= 0) ::close(file_);
  path_ = file;
  file_ = -1;  // also where the next line throws
  file_ = open_to_append(file);
  if (const uint64_t size = fs::file_size(file); size < keep) {
    throw InputError(cat("'", file.string(), "' has ", size,
                         " bytes, but the checkpoint goes on "
                         "behind ",
                         keep, ": it was shortened"));
  }
  crc_ = file_crc32(file, keep);
  if (crc && crc_ != *crc) {
    throw InputError(cat("'", file.string(), "' is damaged, or was changed by hand: its first ",
                         keep,
                         " bytes, behind which the checkpoint goes on, are not those of the run"));
  }
  if (::ftruncate(file_, off_t(keep)) != 0) fail();
  size_ = keep;
}

void JsonLines::write(const std::string& fields) {
  const std::string line = cat("{", fields, "}\n");
  const ssize_t n = ::write(file_, line.data(), line.size());
  if (n != ssize_t(line.size())) {
    // Half a line on a full disk.
    if (n >= 0) errno = ENOSPC;
    fail();
  }
  size_ += line.size();
  crc_ = uint32_t(crc32_z(crc_, reinterpret_cast<const Bytef*>(line.data()), line.size()));
}

uint64_t JsonLines::sync() const {
  if (::fsync(file_) != 0) fail();
  return size_;
}

}  // namespace taper::runner
