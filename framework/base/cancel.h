// A check that the host program installs to end long loops. By default there is none.
#pragma once

#include <atomic>

#include "framework/base/namespace.h"

namespace taper::v0 {

namespace detail {
inline std::atomic<void (*)()> stop_check{nullptr};
}  // namespace detail

// Installs a check. Loops that take several seconds, such as reading data, call it repeatedly. It
// throws if the loop should end. Bodies of parallel loops do not call it.
inline void set_stop_check(void (*check)()) { detail::stop_check = check; }
inline void check_stop() {
  if (const auto check = detail::stop_check.load(std::memory_order_relaxed)) check();
}

}  // namespace taper::v0
