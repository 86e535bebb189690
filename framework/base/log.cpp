#include "framework/base/log.h"

#include <mutex>
#include <utility>

namespace taper::v0 {
namespace {

thread_local LogGuard* innermost = nullptr;

struct Installed {
  std::mutex mutex;
  Logger logger;
};
// Returns the installed logger. It is never destroyed, because destructors of static objects and
// threads that outlive main() may log.
Installed& installed() {
  static Installed& one = *new Installed;
  return one;
}

}  // namespace

Logger set_logger(Logger logger) {
  const std::lock_guard lock(installed().mutex);
  return std::exchange(installed().logger, std::move(logger));
}

LogGuard::LogGuard(Filter filter)
    : filter_(std::move(filter)), outer_(std::exchange(innermost, this)) {}
LogGuard::~LogGuard() { innermost = outer_; }

void log_message(LogLevel level, const std::string& message) {
  std::string text = message;
  for (const LogGuard* scope = innermost; scope; scope = scope->outer_) {
    if (!scope->filter_(level, text)) return;
  }
  const std::lock_guard lock(installed().mutex);
  if (installed().logger) installed().logger(level, text);
}

}  // namespace taper::v0
