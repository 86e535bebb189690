#include "framework/memory/storage.h"

#include <new>

#include "framework/base/error.h"
#include "framework/cuda/cuda.h"
#include "framework/memory/cpu_allocator.h"
#include "framework/memory/cuda_allocator.h"
#include "framework/memory/small_blocks.h"

namespace taper::v0 {
namespace {

// The data of a small CPU storage follows its header in the same block.
constexpr size_t kHeader = 64;
constexpr size_t kMostInline = 2048 - kHeader;
static_assert(sizeof(Storage) <= kHeader);

StoragePtr make_header(size_t nbytes, Device device) {
  Storage* storage = new (allocate_block(sizeof(Storage))) Storage;
  storage->device = device;
  storage->nbytes = nbytes;
  return StoragePtr::adopt(storage);
}

StoragePtr allocate_inline(size_t nbytes, Device device) {
  char* block = static_cast<char*>(cpu::allocate(kHeader + nbytes));
  Storage* storage = new (block) Storage;
  storage->device = device;
  storage->data = block + kHeader;
  storage->nbytes = nbytes;
  storage->context = storage;
  return StoragePtr::adopt(storage);
}

// Returns whether the data follow the header. Only such a storage is its own context.
bool is_inline(const Storage& storage) { return storage.context == &storage; }

// Returns whether this is "cpu:1", "cpu:2" and so on.
bool is_other_cpu(Device device) { return device.is_cpu() && device.index() > 0; }

void free_cpu(Storage& storage) noexcept { cpu::free(storage.data, storage.nbytes); }

StoragePtr allocate_cpu(size_t nbytes, Device device = {}) {
  if (nbytes > 0 && nbytes <= kMostInline && !uses_uncached_allocator())
    return allocate_inline(nbytes, device);
  StoragePtr storage = make_header(nbytes, device);
  if (nbytes == 0) return storage;
  storage->data = cpu::allocate(nbytes);
  storage->free = free_cpu;
  return storage;
}

}  // namespace

void Storage::destroy(Storage* storage) noexcept {
  const bool in_one_block = is_inline(*storage);
  const size_t nbytes = storage->nbytes;
  if (is_other_cpu(storage->device) && !storage->borrowed) {
    cpu::count_on(storage->device.index(), -std::ptrdiff_t(nbytes));
  }
  if (storage->free) storage->free(*storage);
  storage->~Storage();
  if (in_one_block) return cpu::free(storage, kHeader + nbytes);
  free_block(storage, sizeof(Storage));
}

StoragePtr allocate(size_t nbytes, Device device) {
  if (is_other_cpu(device)) {
    StoragePtr storage = allocate_cpu(nbytes, device);
    cpu::count_on(device.index(), std::ptrdiff_t(nbytes));
    return storage;
  }
  if (device.is_cpu()) return allocate_cpu(nbytes);
  if constexpr (kHasCuda) return cuda::allocate(nbytes, device.index());
  throw AcceleratorError(cuda::unavailable_reason());
}

StoragePtr allocate_pinned(size_t nbytes) {
  if constexpr (kHasCuda) {
    if (cuda::is_available()) return cuda::allocate_pinned(nbytes);
  }
  return allocate_cpu(nbytes);
}

StoragePtr borrow(void* data, size_t nbytes, Device device, void (*free)(Storage&) noexcept,
                  void* context) {
  StoragePtr storage = make_header(nbytes, device);
  storage->data = data;
  storage->free = free;
  storage->context = context;
  storage->borrowed = true;
  return storage;
}

}  // namespace taper::v0
