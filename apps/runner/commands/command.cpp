#include "apps/runner/commands/command.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "apps/runner/base/errors.h"

namespace taper::v0::runner {

int print(const std::string& text, bool passed) {
  if (std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0) {
    throw DiskError(concat_to_string("cannot write to stdout: ", std::strerror(errno)));
  }
  return passed ? kExitOk : kExitGate;
}

}  // namespace taper::v0::runner
