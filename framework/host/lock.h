// A mutex of one byte for members of public classes: <mutex> brings <chrono> and more along.
#pragma once

#include "framework/memory/atomic.h"

namespace taper::inline v0::detail {

// For std::lock_guard. Who waits sleeps.
class Lock {
 public:
  void lock() {
    while (taken_.exchange(true, __ATOMIC_ACQUIRE)) wait();
  }
  void unlock() {
    taken_.store(false, __ATOMIC_RELEASE);
    wake_one();
  }

 private:
  void wait();
  void wake_one();

  Atomic<bool> taken_{false};
};

}  // namespace taper::inline v0::detail
