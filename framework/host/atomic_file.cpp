#include "framework/host/atomic_file.h"

#include <cerrno>
#include <filesystem>
#include <random>
#include <system_error>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "framework/base/error.h"

namespace taper::v0 {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMark = ".tmp-";
constexpr const char* kHex = "0123456789abcdef";
constexpr size_t kDigits = 16;

std::string directory_of(const std::string& path) {
  const std::string directory = fs::path(path).parent_path();
  return directory.empty() ? "." : directory;
}

bool is_special(const std::string& path) {
  struct stat info;
  const bool exists = ::stat(path.c_str(), &info) == 0;
  if (exists && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode)) return true;
  std::error_code none;
  const std::string parent = fs::weakly_canonical(directory_of(path), none);
  return parent == "/dev" || parent.starts_with("/proc/");
}

std::string random_name(const std::string& path) {
  std::random_device random;
  std::string out = path + kMark;
  for (size_t i = 0; i < kDigits; ++i) out += kHex[random() % 16];
  return out;
}

// Removes temporary files whose writers no longer run. A writer holds a lock on its temporary file,
// which the system releases when the process ends.
void remove_left_behind(const std::string& path) {
  const std::string start = fs::path(path).filename().string() + kMark;
  std::error_code error;
  for (auto it = fs::directory_iterator(directory_of(path), error); !error && it != fs::end(it);
       it.increment(error)) {
    const std::string name = it->path().filename();
    if (!name.starts_with(start) || name.size() != start.size() + kDigits ||
        name.find_first_not_of(kHex, start.size()) != name.npos) {
      continue;
    }
    const int file = ::open(it->path().c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (file < 0) continue;
    if (::flock(file, LOCK_EX | LOCK_NB) == 0) ::unlink(it->path().c_str());
    ::close(file);
  }
}

}  // namespace

bool sync_directory(const std::string& directory) {
  const int file = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) return true;  // some directories cannot be opened
  // Some file systems do not support this (EINVAL).
  const bool done = ::fsync(file) == 0 || errno == EINVAL;
  const int reason = errno;
  ::close(file);
  errno = reason;
  return done;
}

AtomicFile::AtomicFile(const std::string& path, uint64_t nbytes) : path_(path), nbytes_(nbytes) {
  std::error_code none;
  if (is_special(path)) {
    file_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
    // is_directory() is also true for a link to a directory, which must not be replaced
  } else if (fs::is_directory(path, none)) {
    errno = EISDIR;
  } else {
    remove_left_behind(path);
    create();
  }
  if (file_ < 0) fail("cannot create the file");
}

void AtomicFile::create() {
  struct stat info {};
  // Another process may have removed the file as abandoned before it was locked; create it again.
  while (info.st_nlink == 0) {
    if (file_ >= 0) ::close(file_);
    do {
      temporary_ = random_name(path_);
      file_ =
          ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    } while (file_ < 0 && errno == EEXIST);
    if (file_ < 0) return temporary_.clear();
    while (::flock(file_, LOCK_EX) != 0 && errno == EINTR) {
    }
    if (::fstat(file_, &info) != 0) return;
  }
}

AtomicFile::~AtomicFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  if (file_ >= 0) ::close(file_);
}

void AtomicFile::write(const void* data, uint64_t nbytes) {
  const char* from = static_cast<const char*>(data);
  while (nbytes > 0) {
    const ssize_t n = ::write(file_, from, nbytes);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("cannot write");
    from += n;
    nbytes -= uint64_t(n);
  }
}

void AtomicFile::finish() {
  if (temporary_.empty()) return;
  if (::fsync(file_) != 0) fail("cannot write");
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail("cannot rename the finished file");
  temporary_.clear();
  if (!sync_directory(directory_of(path_))) fail("cannot make the new name permanent");
}

void write_atomically(const std::string& path, std::string_view content) {
  AtomicFile file(path, content.size());
  file.write(content.data(), content.size());
  file.finish();
}

void AtomicFile::fail(const char* what) const {
  const int reason = errno;
  std::string text =
      concat_to_string(path_, ": ", what, ": ", std::generic_category().message(reason));
  if (reason == ENOSPC || reason == EDQUOT || reason == EFBIG) {
    std::error_code ignored;
    struct stat info;
    const bool has_size = file_ >= 0 && ::fstat(file_, &info) == 0;
    const uint64_t written = has_size ? uint64_t(info.st_blocks) * 512 : 0;
    const auto space = fs::space(directory_of(path_), ignored);
    text += concat_to_string("; the file needs ", nbytes_, " bytes");
    if (!ignored) text += concat_to_string(", ", space.available + written, " were available");
  }
  throw OutputError(text);
}

}  // namespace taper::v0
