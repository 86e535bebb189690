// The memory of tensors: one block on one device, shared by all views of it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "framework/base/device.h"
#include "framework/memory/intrusive_ptr.h"

namespace taper::v0 {

struct Storage;
using StoragePtr = IntrusivePtr<Storage>;

struct Storage {
  std::atomic<int> refs{1};
  // Counts in-place changes, so that the tape detects that a saved tensor was modified.
  std::atomic<uint32_t> version{0};
  Device device;
  bool pinned = false;
  bool borrowed = false;  // created by borrow(): other owners may read and write the memory
  void* data = nullptr;
  size_t nbytes = 0;
  // Returns the memory to its owner, which may store in `context` what it needs for that.
  void (*free)(Storage&) noexcept = nullptr;
  void* context = nullptr;
  // Waits until no GPU reads or writes this host memory any more. Null if there is nothing to wait
  // for. Code that takes the address for use on the host calls it first.
  std::atomic<void (*)(Storage&)> wait_for_transfers{nullptr};

  static void destroy(Storage* storage) noexcept;
};

// Returns uninitialized memory on a resolved device: "cpu", "cpu:N" or "cuda:N". CPU memory is
// aligned to 64 bytes. GPU memory belongs to the current stream. Throws OutOfMemoryError.
StoragePtr allocate(size_t nbytes, Device device);

// Returns page-locked host memory, which a GPU copies to and from asynchronously. Without a usable
// GPU it is plain host memory.
StoragePtr allocate_pinned(size_t nbytes);

// Returns a storage over memory of another owner. `free` is called with the storage when the last
// tensor is destroyed.
StoragePtr borrow(void* data, size_t nbytes, Device device, void (*free)(Storage&) noexcept,
                  void* context = nullptr);

}  // namespace taper::v0
