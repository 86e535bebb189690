#include "framework/host/hooks.h"

#include <mutex>
#include <utility>

namespace taper::v0 {
namespace {

thread_local LogScope* innermost = nullptr;

struct Installed {
  std::mutex mutex;
  Logger logger;
};
Installed& installed() {
  static Installed one;
  return one;
}

}  // namespace

Logger set_logger(Logger logger) {
  const std::lock_guard lock(installed().mutex);
  return std::exchange(installed().logger, std::move(logger));
}

LogScope::LogScope(Hear hear) : hear_(std::move(hear)), outer_(std::exchange(innermost, this)) {}
LogScope::~LogScope() { innermost = outer_; }

void log_message(LogLevel level, const std::string& message) {
  for (const LogScope* scope = innermost; scope; scope = scope->outer_) {
    if (!scope->hear_(level, message)) return;
  }
  const std::lock_guard lock(installed().mutex);
  if (installed().logger) installed().logger(level, message);
}

}  // namespace taper::v0
