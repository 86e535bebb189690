// What the program around the library may install: an ear for warnings, and a say in whether long
// loops go on. There is neither at first.
#pragma once

#include <atomic>
#include <string>

namespace taper {

namespace detail {
inline std::atomic<void (*)(const std::string& message)> warning_handler{nullptr};
inline std::atomic<void (*)()> stop_check{nullptr};
}  // namespace detail

// What is odd, but no error; without a handler nobody hears of it. May be called on any thread.
inline void set_warning_handler(void (*handler)(const std::string& message)) {
  detail::warning_handler = handler;
}
inline void warn(const std::string& message) {
  if (const auto handler = detail::warning_handler.load()) handler(message);
}

// Loops that may take seconds, such as the reading of data, ask now and then; the check throws
// where they are to end. Not for the bodies of parallel loops.
inline void set_stop_check(void (*check)()) { detail::stop_check = check; }
inline void check_stop() {
  if (const auto check = detail::stop_check.load(std::memory_order_relaxed)) check();
}

}  // namespace taper
