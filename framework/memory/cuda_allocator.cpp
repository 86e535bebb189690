#include "framework/memory/cuda_allocator.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include "framework/base/error.h"
#include "framework/cuda/driver.h"
#include "framework/cuda/fence.h"
#include "framework/memory/device_allocator.h"
#include "framework/memory/small_blocks.h"

namespace taper::v0::cuda {
namespace {

constexpr size_t kPage = 4096, kMiB = size_t(1) << 20;

// Returns the allocator of a device. Neither the allocators nor that of page-locked memory are ever
// destroyed, because tensors with static lifetime may be freed after main().
DeviceAllocator& allocator_of(int device) {
  static std::deque<DeviceAllocator>& all = []() -> std::deque<DeviceAllocator>& {
    auto& made = *::new std::deque<DeviceAllocator>;
    for (int i = 0; i < device_count(); ++i) made.emplace_back(i);
    return made;
  }();
  return all[size_t(device)];
}

void free_block(Storage& storage) noexcept {
  Block* block = static_cast<Block*>(storage.context);
  allocator_of(block->device).give(block);
}

struct PinnedBlock {
  void* data = nullptr;
  size_t size = 0;
  Fence fence{};   // must pass before the memory is reused
  Fence copies{};  // must pass before the host may access it
  int copy_device = 0;
};
using PinnedPtr = std::unique_ptr<PinnedBlock>;

// Returns the size of a block: a power of two up to 1 MiB, and a multiple of 1 MiB above. A block
// is reused only for requests of its own size.
size_t pinned_size(size_t nbytes) {
  if (uses_uncached_allocator()) return nbytes;
  if (nbytes <= kMiB) return std::max(std::bit_ceil(nbytes), kPage);
  return (nbytes + kMiB - 1) / kMiB * kMiB;
}

class PinnedAllocator {
 public:
  PinnedPtr take(size_t nbytes) {
    require<OutOfMemoryError>(nbytes <= (size_t(1) << 46), "Tried to allocate ", nbytes,
                              " bytes of page-locked host memory");
    std::lock_guard lock(mutex_);
    reclaim_waiting();
    const size_t size = pinned_size(nbytes);
    if (const auto found = idle_.find(size); found != idle_.end()) {
      return std::move(idle_.extract(found).mapped());
    }
    auto block = std::make_unique<PinnedBlock>();
    block->size = size;
    const RelaxedCaptureGuard relaxed;
    const auto allocate = [&] { return cudaHostAlloc(&block->data, size, cudaHostAllocPortable); };
    require<OutOfMemoryError>(allocated("cudaHostAlloc", allocate, [&] { release_idle(); }),
                              "The system gave no ", size,
                              " bytes of page-locked host memory. Use plain host memory, or less");
    return block;
  }

  void give(PinnedPtr block) noexcept try {
    int device = 0;
    if (cudaGetDevice(&device) == cudaSuccess) block->fence.add(device, current_stream(device));
    block->fence.record();
    std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(block));
    if (!uses_uncached_allocator()) return;
    for (const PinnedPtr& freed : waiting_) {
      freed->fence.wait();
      freed->copies.wait();
    }
    release_idle();
  } catch (const std::bad_alloc&) {
    return;  // the memory is not reused
  }

  void add_stream(PinnedBlock& block, const Stream& stream) {
    std::lock_guard lock(mutex_);
    block.fence.add(stream.device(), static_cast<cudaStream_t>(stream.handle()));
  }

  void add_copy(PinnedBlock& block, int device) {
    std::lock_guard lock(mutex_);
    block.fence.add(device, current_stream(device));
    block.copies.add(device, current_stream(device));
    block.copies.record();
    block.copy_device = device;
  }

  void wait_for_copies(PinnedBlock& block) noexcept {
    std::lock_guard lock(mutex_);
    block.copies.wait();
    block.copies.passed();
  }

  void release_unused() {
    std::lock_guard lock(mutex_);
    release_idle();
  }

 private:
  // Frees the waiting blocks whose work has finished. Called with the mutex held.
  void reclaim_waiting() {
    for (PinnedPtr& block : waiting_) {
      if (!block->fence.passed() || !block->copies.passed()) continue;
      const size_t size = block->size;
      idle_.emplace(size, std::move(block));
    }
    std::erase(waiting_, nullptr);
  }

  void release_idle() {
    reclaim_waiting();
    const RelaxedCaptureGuard relaxed;
    for (const auto& [size, block] : idle_) cudaFreeHost(block->data);
    cudaGetLastError();
    idle_.clear();
  }

  std::mutex mutex_;
  std::multimap<size_t, PinnedPtr> idle_;
  std::vector<PinnedPtr> waiting_;  // freed, but a GPU may still copy from or to them
};

PinnedAllocator& pinned_allocator() {
  static PinnedAllocator& instance = *::new PinnedAllocator;
  return instance;
}

PinnedBlock* pinned_block(const Storage& storage) {
  return static_cast<PinnedBlock*>(storage.context);
}

void free_pinned(Storage& storage) noexcept {
  pinned_allocator().give(PinnedPtr(pinned_block(storage)));
}

// Waits for copies. Synchronizes, so it throws the errors that earlier kernels reported.
void wait_for_pinned_transfers(Storage& storage) {
  pinned_allocator().wait_for_copies(*pinned_block(storage));
  storage.wait_for_transfers.store(nullptr, std::memory_order_release);
  throw_bad_index(pinned_block(storage)->copy_device);
}

}  // namespace

StoragePtr allocate(size_t nbytes, int device) {
  driver::require_device(device);
  StoragePtr storage = borrow(nullptr, nbytes, Device(DeviceType::kCuda, device), nullptr);
  storage->borrowed = false;
  if (nbytes == 0) return storage;
  Block* block = allocator_of(device).take(nbytes, current_stream(device));
  storage->data = block->data;
  storage->context = block;
  storage->free = free_block;
  return storage;
}

StoragePtr allocate_pinned(size_t nbytes) {
  StoragePtr storage = borrow(nullptr, nbytes, Device(), nullptr);
  storage->borrowed = false;
  storage->pinned = true;
  if (nbytes == 0) return storage;
  PinnedPtr block = pinned_allocator().take(nbytes);
  storage->data = block->data;
  storage->context = block.release();
  storage->free = free_pinned;
  return storage;
}

void record_stream(const StoragePtr& storage, const Stream& stream) {
  if (storage->free == free_block) {
    Block* block = static_cast<Block*>(storage->context);
    allocator_of(block->device).add_stream(block, stream);
  } else if (storage->free == free_pinned) {
    pinned_allocator().add_stream(*pinned_block(*storage), stream);
  }
}

void mark_in_flight(const StoragePtr& storage, int device) {
  if (storage->free != free_pinned) return;
  pinned_allocator().add_copy(*pinned_block(*storage), device);
  storage->wait_for_transfers.store(wait_for_pinned_transfers, std::memory_order_release);
}

void hold_memory(const Stream& stream, bool on) {
  allocator_of(stream.device()).hold(static_cast<cudaStream_t>(stream.handle()), on);
}

MemoryStats memory_stats(int device) { return allocator_of(device).stats(); }
void reset_peaks(int device) { allocator_of(device).reset_peaks(); }

void release_unused_blocks() {
  for (int i = 0; i < device_count(); ++i) allocator_of(i).release_unused();
  pinned_allocator().release_unused();
}

}  // namespace taper::v0::cuda
