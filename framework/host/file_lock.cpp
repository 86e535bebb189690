#include "framework/host/file_lock.h"

#include <cerrno>
#include <system_error>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace taper::v0 {

// Returns the path of the lock of a file, by whatever link the file is named.
static std::string lock_of(const std::filesystem::path& file) {
  std::error_code none;
  const std::filesystem::path target = std::filesystem::weakly_canonical(file, none);
  return (none ? file : target).string() + ".lock";
}

FileLockGuard::FileLockGuard(const std::filesystem::path& file) : path_(lock_of(file)) {
  struct stat info {};
  // The process that held the lock before may have removed the file; create it again.
  while (info.st_nlink == 0) {
    if (lock_ >= 0) ::close(lock_);
    lock_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (lock_ < 0) return;
    while (::flock(lock_, LOCK_EX) != 0 && errno == EINTR) {
    }
    if (::fstat(lock_, &info) != 0) return;
  }
}

FileLockGuard::~FileLockGuard() {
  if (lock_ < 0) return;
  ::unlink(path_.c_str());
  ::close(lock_);
}

}  // namespace taper::v0
