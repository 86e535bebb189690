#include "apps/runner/metrics.h"

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include <fcntl.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include "apps/runner/errors.h"

namespace taper::runner {

namespace fs = std::filesystem;

void make_run_directory(const fs::path& dir) {
  std::error_code error;
  const auto require = [&](bool is_done, const char* what, const std::string& why) {
    if (!is_done) throw InputError(cat("cannot ", what, " '", dir.string(), "'", why));
  };
  const bool exists = fs::exists(dir, error);
  require(!exists || fs::is_directory(dir, error), "write the run to", ": it is a file");
  if (exists && !fs::is_empty(dir, error)) {
    const fs::path name = dir.filename().empty() ? dir.parent_path() : dir;  // of "runs/m/"
    int i = 1;
    while (fs::exists(cat(name.string(), ".", i), error)) ++i;
    fs::rename(name, cat(name.string(), ".", i), error);
    require(!error, "move aside the earlier run in", cat(": ", error.message()));
  }
  fs::create_directories(dir, error);
  require(!error, "make the run's directory", cat(": ", error.message()));
}

void sync(const fs::path& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  // Not every file system can sync a directory (EINVAL).
  const bool done = file >= 0 && (::fsync(file) == 0 || errno == EINVAL);
  const int reason = errno;
  if (file >= 0) ::close(file);
  if (!done) throw DiskError(cat("cannot write '", path.string(), "': ", std::strerror(reason)));
}

void write_file(const fs::path& file, const std::string& text) {
  errno = 0;
  std::ofstream out(file, std::ios::binary);
  out << text << std::flush;
  if (!out) throw DiskError(cat("cannot write '", file.string(), "': ", std::strerror(errno)));
  sync(file);
}

LogFile::LogFile(const fs::path& dir) {
  auto sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>((dir / "log.txt").string());
  sink->set_pattern("%Y-%m-%d %H:%M:%S %l: %v");
  spdlog::default_logger()->sinks().push_back(std::move(sink));
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

void JsonLines::open(const fs::path& file, uint64_t keep) {
  if (file_ >= 0) ::close(file_);
  path_ = file;
  file_ = ::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (file_ < 0) fail();
  if (const uint64_t size = fs::file_size(file); size < keep) {
    throw InputError(cat("'", file.string(), "' has ", size,
                         " bytes, but the checkpoint goes on "
                         "behind ",
                         keep, ": it was shortened"));
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
}

uint64_t JsonLines::sync() const {
  if (::fsync(file_) != 0) fail();
  return size_;
}

Progress::Progress() {
  const char *term = std::getenv("TERM"), *plain = std::getenv("NO_COLOR");
  terminal_ = isatty(STDERR_FILENO) != 0 && (!term || std::strcmp(term, "dumb") != 0);
  colors_ = !plain || !*plain;
}

void Progress::start(int64_t step) {
  first_ = step;
  start_ = last_ = Clock::now();
}

void Progress::show(int64_t step, int64_t total, int64_t epoch, int64_t batch, double loss,
                    double lr) {
  const auto now = Clock::now();
  if (now - last_ < std::chrono::milliseconds(terminal_ ? 100 : 10'000)) return;
  last_ = now;
  const double seconds = std::chrono::duration<double>(now - start_).count();
  const double rate = double(step - first_) / seconds;
  const int64_t left = std::llround(double(total - step) / rate);
  if (!terminal_) {
    spdlog::info("step={} epoch={} loss={:.6g} lr={:.6g} samples_per_second={:.0f} seconds_left={}",
                 step, epoch, loss, lr, rate * double(batch), left);
    return;
  }
  const size_t full = size_t(total > 0 ? step * 24 / total : 0);
  fmt::print(stderr,
             "\r\033[Kepoch {} [{}{}{}{}] {}/{}  {:.0f} samples/s  loss {:.4f}  lr {:.3g}  "
             "{}:{:02}:{:02} left",
             epoch, colors_ ? "\033[32m" : "", std::string(full, '#'), colors_ ? "\033[0m" : "",
             std::string(24 - full, '.'), step, total, rate * double(batch), loss, lr, left / 3600,
             left / 60 % 60, left % 60);
  std::fflush(stderr);
  shown_ = true;
}

void Progress::clear() {
  if (!shown_) return;
  std::fputs("\r\033[K", stderr);
  std::fflush(stderr);
  shown_ = false;
}

}  // namespace taper::runner
