// Functions that the host program may install: a logger, an allocator, and a check that ends long
// loops. By default none is installed, and nothing is printed.
#pragma once

#include <cstddef>
#include <string>

#include "framework/callable.h"
#include "framework/memory/atomic.h"

namespace taper::v0 {

// Severities in increasing order. trace, debug: details for the search for a mistake. info: the
// progress of a run. warning: something unusual that does not stop the run. error: the reason why a
// run or program ended.
enum class LogLevel { trace, debug, info, warning, error };
// Receives one message without a newline at its end.
using Logger = Callable<void(LogLevel level, const std::string& message)>;

// Installs the logger of this process and returns the one that was installed before. A logger is
// called on any thread, one call at a time. It must neither throw nor log. It stays usable until
// the process ends: destructors of static objects and threads that outlive main() may log.
Logger set_logger(Logger logger);

// Filters what the current thread logs, until the end of the scope. `hear` may change the message,
// and returns whether the next scope, or at last the logger, gets it. The innermost scope hears a
// message first. Scopes of a thread end in reverse order.
class LogScope {
 public:
  using Hear = Callable<bool(LogLevel level, std::string& message)>;
  explicit LogScope(Hear hear);
  ~LogScope();
  LogScope& operator=(LogScope&&) = delete;  // neither copied nor moved

 private:
  friend void log_message(LogLevel level, const std::string& message);
  const Hear hear_;
  LogScope* const outer_;
};

// Passes the message through this thread's filters to the logger.
void log_message(LogLevel level, const std::string& message);
inline void inform(const std::string& message) { log_message(LogLevel::info, message); }
inline void warn(const std::string& message) { log_message(LogLevel::warning, message); }

// Replaces operator new as the source of CPU tensor memory. allocate() returns blocks aligned to
// `align`, a power of two, or null if there is no memory left. It is called on any thread. Free
// blocks are cached for later tensors before they are returned. Installing one throws Error after
// memory has been allocated.
struct CpuAllocator {
  void* (*allocate)(std::size_t nbytes, std::size_t align) noexcept;
  void (*free)(void* block, std::size_t align) noexcept;
};
void set_cpu_allocator(const CpuAllocator& allocator);

namespace detail {
inline Atomic<void (*)()> stop_check{nullptr};
}  // namespace detail

// Installs a check that loops of several seconds, such as reading of data, call now and then. It
// throws if the loop should end. Bodies of parallel loops do not call it.
inline void set_stop_check(void (*check)()) { detail::stop_check = check; }
inline void check_stop() {
  if (const auto check = detail::stop_check.load(__ATOMIC_RELAXED)) check();
}

}  // namespace taper::v0
