// Pools of unused streams or events per device. Handles are created once and reused.
#pragma once

#include <array>
#include <mutex>
#include <new>
#include <vector>

#include "framework/base/device.h"

namespace taper::v0::cuda {

template <class Handle> class IdleHandles {
 public:
  // Returns the pool. It is never destroyed, because handles may be returned after main().
  static IdleHandles& instance() {
    static IdleHandles& instance = *::new IdleHandles;
    return instance;
  }
  // Returns null if the pool is empty.
  Handle take(int device) {
    const std::lock_guard lock(mutex_);
    std::vector<Handle>& idle = idle_[size_t(device)];
    if (idle.empty()) return nullptr;
    const Handle handle = idle.back();
    idle.pop_back();
    return handle;
  }
  // Returns false if there is no memory to store the handle.
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
