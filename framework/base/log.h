// What the program around the library may install: a logger, an allocator, and a check that ends
// long loops. None is installed at first, and nothing is printed.
#pragma once

#include <cstddef>
#include <string>

#include "framework/callable.h"
#include "framework/memory/atomic.h"

namespace taper::v0 {

// Severities in rising order. trace and debug: details for those who look for a mistake. info: how
// a run goes. warning: something odd that stops nothing. error: why a run or a program ended.
enum class LogLevel { trace, debug, info, warning, error };
// Takes one message, which has no newline at its end.
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

// Passes the message to the scopes of this thread and then to the logger.
void log_message(LogLevel level, const std::string& message);
inline void inform(const std::string& message) { log_message(LogLevel::info, message); }
inline void warn(const std::string& message) { log_message(LogLevel::warning, message); }

// Where the memory of tensors on the CPU comes from and goes to, in place of operator new: blocks
// that begin at multiples of `align`, a power of two; null where there is none left. Called on any
// thread; free blocks are kept for later tensors before they are given back. Throws Error once
// memory was taken.
struct CpuAllocator {
  void* (*allocate)(std::size_t nbytes, std::size_t align) noexcept;
  void (*free)(void* block, std::size_t align) noexcept;
};
void set_cpu_allocator(const CpuAllocator& allocator);

namespace detail {
inline Atomic<void (*)()> stop_check{nullptr};
}  // namespace detail

// Loops that may take seconds, such as the reading of data, ask now and then; the check throws
// where they are to end. Not for the bodies of parallel loops.
inline void set_stop_check(void (*check)()) { detail::stop_check = check; }
inline void check_stop() {
  if (const auto check = detail::stop_check.load(__ATOMIC_RELAXED)) check();
}

}  // namespace taper::v0
