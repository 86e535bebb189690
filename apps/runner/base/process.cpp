#include "apps/runner/base/process.h"

#include <cstdlib>
#include <fstream>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "apps/runner/base/string_utils.h"

namespace taper::v0::runner {

static bool owned = false;

bool owns_process() { return owned; }
OwnProcessGuard::OwnProcessGuard() : previous_(std::exchange(owned, true)) {
  // If stdout or stderr is closed, the next file to be opened would get its descriptor and receive
  // the program's output. Occupy these descriptors with /dev/null.
  int file;
  do file = ::open("/dev/null", O_RDONLY);
  while (file >= 0 && file <= STDERR_FILENO);
  if (file >= 0) ::close(file);
}
OwnProcessGuard::~OwnProcessGuard() { owned = previous_; }

std::vector<std::string> command_line() {
  return lines_of(read_file("/proc/self/cmdline", "command line"), '\0');
}

int64_t peak_resident_memory() {
  // getrusage() is not used, as its maximum is inherited from the parent process.
  constexpr std::string_view kKey = "VmHWM:";
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(kKey)) return std::atoll(line.c_str() + kKey.size()) << 10;  // from KiB
  }
  return 0;
}

}  // namespace taper::v0::runner
