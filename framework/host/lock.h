// A mutex of one word for members of public classes: <mutex> brings <chrono> and more along.
#pragma once

#include <atomic>

namespace taper::inline v0::detail {

// For std::lock_guard. Who waits sleeps.
class Lock {
 public:
  void lock() {
    while (taken_.test_and_set(std::memory_order_acquire)) {
      taken_.wait(true, std::memory_order_relaxed);
    }
  }
  void unlock() {
    taken_.clear(std::memory_order_release);
    taken_.notify_one();
  }

 private:
  std::atomic_flag taken_{};
};

}  // namespace taper::inline v0::detail
