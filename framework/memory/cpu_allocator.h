// CPU memory that is cached and reused. Every training step requests the same sizes, and fresh
// pages from the system cost more than the arithmetic on them.
#pragma once

#include <cstddef>

#include "framework/base/namespace.h"

namespace taper::v0 {

// A source of CPU tensor memory that replaces operator new. allocate() returns blocks aligned to
// `align`, a power of two, or null if there is no memory left. It is called on any thread. Taper
// caches free blocks for later tensors before it returns them. Installing an allocator throws Error
// after memory has been allocated.
struct CpuAllocator {
  void* (*allocate)(std::size_t nbytes, std::size_t align) noexcept;
  void (*free)(void* block, std::size_t align) noexcept;
};
void set_cpu_allocator(const CpuAllocator& allocator);

namespace cpu {

// Returns memory aligned to 64 bytes. Throws OutOfMemoryError with the requested and the allocated
// bytes.
void* allocate(size_t nbytes);
// Frees a block. `nbytes` is the number that was requested.
void free(void* block, size_t nbytes) noexcept;

// Allocates from the system directly, without caching or counting. If memory is short, frees cached
// blocks first.
void* from_system(size_t nbytes);
void to_system(void* block) noexcept;

struct MemoryStats {
  size_t allocated;  // bytes in tensors now
  size_t peak;       // the maximum of `allocated` so far
  size_t cached;     // bytes in cached blocks
};
MemoryStats memory_stats();
// Returns the bytes in tensors on "cpu" (an index up to 0) or "cpu:N".
size_t allocated_on(int index);
// Counts bytes of allocate() as memory of "cpu:N" instead of "cpu". A negative number undoes that.
void count_on(int index, std::ptrdiff_t nbytes) noexcept;
// Resets `peak` to the bytes that are allocated now.
void reset_peak();
// Returns the cached blocks to the system.
void empty_cache();

}  // namespace cpu
}  // namespace taper::v0
