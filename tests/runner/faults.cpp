// Loaded before libc (LD_PRELOAD) into a program that writes files below $TAPER_FAULT_DIR. Counts
// the program's calls that write, sync or rename files there, and logs them to $TAPER_FAULT_LOG ("7
// fsync PATH"). The call of number $TAPER_FAULT_AT fails with EIO. With $TAPER_FAULT_FULL, this
// call and later ones fail with ENOSPC instead, as on a full disk. With $TAPER_FAULT_KILL, SIGKILL
// ends the process in this call. Each call for a checkpoint takes $TAPER_FAULT_SLOW milliseconds.
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

std::mutex mutex;
int count = 0;

const char* setting(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

bool is_below(const std::string& path) {
  const std::string dir = setting("TAPER_FAULT_DIR");
  return !dir.empty() && path.compare(0, dir.size(), dir) == 0 &&
         (path.size() == dir.size() || path[dir.size()] == '/' || path[dir.size()] == '.');
}

std::string path_of(int file) {
  char path[4096];
  const std::string link = "/proc/self/fd/" + std::to_string(file);
  const ssize_t n = ::readlink(link.c_str(), path, sizeof path);
  return n < 0 ? "" : std::string(path, size_t(n));
}

// Returns whether the call must fail. takes_room: whether the call fails on a full disk.
bool fails(const char* call, const std::string& path, bool takes_room = true) {
  if (!is_below(path)) return false;
  if (path.find("/.writing") != std::string::npos) {
    ::usleep(useconds_t(1000 * std::atoi(setting("TAPER_FAULT_SLOW"))));
  }
  const std::lock_guard lock(mutex);
  const std::string line = std::to_string(++count) + " " + call + " " + path + "\n";
  const int log = int(::syscall(SYS_openat, AT_FDCWD, setting("TAPER_FAULT_LOG"),
                                O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  (void)!::syscall(SYS_write, log, line.data(), line.size());
  ::syscall(SYS_close, log);
  const int at = std::atoi(setting("TAPER_FAULT_AT"));
  const bool is_full = *setting("TAPER_FAULT_FULL") != '\0';
  if (at == 0 || count < at || (count > at && !(is_full && takes_room))) return false;
  if (*setting("TAPER_FAULT_KILL") != '\0') ::raise(SIGKILL);
  errno = is_full ? ENOSPC : EIO;
  return true;
}

template <class F> F* real(const char* name) {
  return reinterpret_cast<F*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

ssize_t write(int file, const void* data, size_t n) {
  if (fails("write", path_of(file))) return -1;
  return real<ssize_t(int, const void*, size_t)>("write")(file, data, n);
}
ssize_t pwrite(int file, const void* data, size_t n, off_t at) {
  if (fails("pwrite", path_of(file))) return -1;
  return real<ssize_t(int, const void*, size_t, off_t)>("pwrite")(file, data, n, at);
}
int ftruncate(int file, off_t n) noexcept {
  if (fails("ftruncate", path_of(file), false)) return -1;
  return real<int(int, off_t)>("ftruncate")(file, n);
}
int fsync(int file) {
  if (fails("fsync", path_of(file))) return -1;
  return real<int(int)>("fsync")(file);
}
int open(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(more, mode_t) : 0;
  va_end(more);
  if ((flags & O_CREAT) != 0 && fails("open", path)) return -1;
  return real<int(const char*, int, ...)>("open")(path, flags, mode);
}
FILE* fopen(const char* path, const char* mode) {
  if (std::strpbrk(mode, "wa") != nullptr && fails("fopen", path)) return nullptr;
  return real<FILE*(const char*, const char*)>("fopen")(path, mode);
}
int rename(const char* from, const char* to) noexcept {
  if (fails("rename", to, false)) return -1;
  return real<int(const char*, const char*)>("rename")(from, to);
}
int mkdir(const char* path, mode_t mode) noexcept {
  if (fails("mkdir", path)) return -1;
  return real<int(const char*, mode_t)>("mkdir")(path, mode);
}
int symlink(const char* target, const char* path) noexcept {
  if (fails("symlink", path)) return -1;
  return real<int(const char*, const char*)>("symlink")(target, path);
}
int remove(const char* path) noexcept {
  if (fails("remove", path, false)) return -1;
  return real<int(const char*)>("remove")(path);
}
int unlink(const char* path) noexcept {
  if (fails("unlink", path, false)) return -1;
  return real<int(const char*)>("unlink")(path);
}
int unlinkat(int dir, const char* name, int flags) noexcept {
  const std::string path = dir == AT_FDCWD ? name : path_of(dir) + "/" + name;
  if (fails("unlinkat", path, false)) return -1;
  return real<int(int, const char*, int)>("unlinkat")(dir, name, flags);
}
}
