// Messages to the logger that the host program installs. By default there is none, and nothing is
// printed.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "framework/base/namespace.h"
#include "framework/base/text_enum.h"

namespace taper::v0 {

// Severities in increasing order. trace, debug: details for debugging. info: the progress of a run.
// warning: something unusual that does not stop the run. error: the reason why a run or program
// ended.
struct LogLevelValues {
  enum class Value : uint8_t { kTrace, kDebug, kInfo, kWarning, kError };
  static constexpr Value kTrace = Value::kTrace, kDebug = Value::kDebug, kInfo = Value::kInfo,
                         kWarning = Value::kWarning, kError = Value::kError;
  static constexpr const char* kOption = "level";
  static constexpr const char* kWords[] = {"trace", "debug", "info", "warn", "error"};
};
using LogLevel = TextEnum<LogLevelValues>;

// Receives one message without a newline at its end.
using Logger = std::function<void(LogLevel level, const std::string& message)>;

// Installs the logger of this process and returns the previous one. A logger is called on any
// thread, but never by two threads at the same time. It must neither throw nor log. It must remain
// usable until the process ends, because destructors of static objects and threads that outlive
// main() may log.
Logger set_logger(Logger logger);

// Filters the messages of the current thread until the end of the scope. The filter may change a
// message and returns whether to pass it on: to the filter of the enclosing guard, or to the logger
// if there is none. The innermost filter is called first. The guards of a thread must be destroyed
// in reverse order.
class LogGuard {
 public:
  using Filter = std::function<bool(LogLevel level, std::string& message)>;
  explicit LogGuard(Filter filter);
  ~LogGuard();
  LogGuard& operator=(LogGuard&&) = delete;  // neither copied nor moved

 private:
  friend void log_message(LogLevel level, const std::string& message);
  const Filter filter_;
  LogGuard* const outer_;
};

// Passes the message through this thread's filters to the logger.
void log_message(LogLevel level, const std::string& message);
inline void log_info(const std::string& message) { log_message(LogLevel::kInfo, message); }
inline void warn(const std::string& message) { log_message(LogLevel::kWarning, message); }

}  // namespace taper::v0
