// CPU memory that is cached and reused: every training step requests the same sizes, and fresh
// pages from the system cost more than the arithmetic on them.
#pragma once

#include <cstddef>

#include "framework/base/namespace.h"

namespace taper::v0::cpu {

// Returns memory aligned to 64 bytes. Throws OutOfMemoryError with the requested and the allocated
// bytes.
void* allocate(size_t nbytes);
// Frees a block. `nbytes` is the number that was requested.
void free(void* block, size_t nbytes) noexcept;

// Allocates from the system directly, without caching or counting. Frees cached blocks first if
// memory is short.
void* from_system(size_t nbytes);
void to_system(void* block) noexcept;

struct MemoryStats {
  size_t allocated;  // bytes in tensors now
  size_t peak;       // the maximum of `allocated` so far
  size_t cached;     // bytes in cached blocks
};
MemoryStats memory_stats();
// Resets `peak` to the bytes that are allocated now.
void reset_peak();
// Returns the cached blocks to the system.
void empty_cache();

}  // namespace taper::v0::cpu
