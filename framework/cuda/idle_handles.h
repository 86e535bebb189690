// Streams or events that nobody uses at present, by device: made once, handed out again.
#pragma once

#include <array>
#include <mutex>
#include <new>
#include <vector>

#include "framework/base/device.h"

namespace taper::v0::cuda {

template <class Handle> class IdleHandles {
 public:
  // Never destroyed: handles may come back after main.
  static IdleHandles& of_the_process() {
    static IdleHandles& instance = *::new IdleHandles;
    return instance;
  }
  // Null where there is none.
  Handle take(int device) {
    const std::lock_guard lock(mutex_);
    std::vector<Handle>& idle = idle_[size_t(device)];
    if (idle.empty()) return nullptr;
    const Handle handle = idle.back();
    idle.pop_back();
    return handle;
  }
  // False where there is no memory to note it.
  bool give(int device, Handle handle) noexcept try {
    const std::lock_guard lock(mutex_);
    idle_[size_t(device)].push_back(handle);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }

 private:
  std::mutex mutex_;
  std::array<std::vector<Handle>, Device::kMaxIndex + 1> idle_;
};

}  // namespace taper::v0::cuda
