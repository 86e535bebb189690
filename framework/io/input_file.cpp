#include "framework/io/input_file.h"

#include <algorithm>
#include <cerrno>
#include <new>
#include <system_error>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace taper::v0 {
namespace {

std::string reason(int error) { return std::generic_category().message(error); }

}  // namespace

InputFile::InputFile(std::string path, std::string_view what)
    : path_(std::move(path)), what_(what.empty() ? "" : concat_to_string(" the ", what)) {
  // O_NONBLOCK: opening a pipe would otherwise wait for a writer.
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  struct stat info;
  const bool is_open = descriptor_ >= 0 && ::fstat(descriptor_, &info) == 0;
  const std::string why = !is_open                 ? reason(errno)
                          : S_ISDIR(info.st_mode)  ? "it is a directory, not a regular file"
                          : !S_ISREG(info.st_mode) ? "it is a pipe or device, not a regular file"
                                                   : "";
  if (why.empty()) {
    size_ = uint64_t(info.st_size);
    return;
  }
  if (descriptor_ >= 0) ::close(descriptor_);
  fail(why);
}

InputFile::~InputFile() { ::close(descriptor_); }

void InputFile::fail(const std::string& why) const {
  throw InputError(path_, ": cannot read", what_, ": ", why);
}

size_t InputFile::read(void* out, size_t most) {
  size_t done = 0;
  while (done < most) {
    const ssize_t n = ::read(descriptor_, static_cast<char*>(out) + done, most - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(reason(errno));
    if (n == 0) break;
    done += size_t(n);
  }
  return done;
}

std::string InputFile::text(size_t most) try {
  // Reads one byte more than the file's size, to detect its end. If the file grows meanwhile, the
  // rest is read in parts.
  constexpr size_t kPart = 1 << 16;
  std::string out;
  size_t wanted = std::min<uint64_t>(most, size_ == 0 ? kPart : size_ + 1);
  while (out.size() < most) {
    const size_t before = out.size();
    out.resize(before + std::min(wanted, most - before));
    out.resize(before + read(out.data() + before, out.size() - before));
    if (out.size() < before + wanted) break;
    wanted = kPart;
  }
  return out;
} catch (const std::bad_alloc&) {
  throw OutOfMemoryError(path_, ": no memory for its ", size_, " bytes");
} catch (const std::length_error&) {
  throw OutOfMemoryError(path_, ": no memory for its ", size_, " bytes");
}

}  // namespace taper::v0
