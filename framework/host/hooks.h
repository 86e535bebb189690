// What the program around the library may install: an ear for what is said, and a say in whether
// long loops go on. There is neither at first, and nothing is printed.
#pragma once

#include <cstddef>
#include <string>

#include "framework/callable.h"
#include "framework/memory/atomic.h"

namespace taper::v0 {

// info: how a run goes. warning: what is odd, but no error.
enum class LogLevel { info, warning };
// One message, without a newline at its end.
using Logger = Callable<void(LogLevel level, const std::string& message)>;

// Puts another logger in the place of the one that is there, which comes back. It is called on any
// thread, one call at a time, and must neither throw nor log itself.
Logger set_logger(Logger logger);

// While it lives, what its thread logs goes through `hear` first, and further on where that gives
// true. Those made later hear first; they end in reverse.
class LogScope {
 public:
  using Hear = Callable<bool(LogLevel level, const std::string& message)>;
  explicit LogScope(Hear hear);
  ~LogScope();
  LogScope& operator=(LogScope&&) = delete;  // neither copied nor moved

 private:
  friend void log_message(LogLevel level, const std::string& message);
  const Hear hear_;
  LogScope* const outer_;
};

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
